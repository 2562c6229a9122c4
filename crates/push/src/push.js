// Deletes a group, or all, when its button is pressed, and shows what is left.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-method]");
  if (!button || !confirm(button.dataset.question)) return;
  const answer = await fetch(button.dataset.path, { method: button.dataset.method });
  if (answer.ok) location.reload();
  else alert(`${answer.status}: ${await answer.text()}`);
});
