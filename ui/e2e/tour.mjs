// Uses every view as a person does: `node e2e/tour.mjs <base URL> [directory for screenshots]`.
// Needs a server with at least one target that answers. Fails like page.mjs; the one refused request is the tour's own bad query.
import { join } from "node:path";
import { run } from "./browser.mjs";

const [base, shots] = process.argv.slice(2);
if (base === undefined) {
  console.error("usage: node e2e/tour.mjs <base URL> [directory for screenshots]");
  process.exit(2);
}

const BAD_QUERY = "sum(up";
const PHONE = { width: 375, height: 812 };
let steps = 0;

function check(condition, what) {
  if (!condition) throw new Error(`not so: ${what}`);
  steps++;
}

const hash = (page) => page.evaluate(() => decodeURIComponent(location.hash).replaceAll("+", " "));
const shoot = (page, name) => (shots === undefined ? undefined : page.screenshot({ path: join(shots, `${name}.png`), fullPage: true }));

/** The place of an element that may be replaced while it is looked for: a plot is rebuilt when its lines change. */
async function steadyBox(page, selector) {
  for (let i = 0; i < 50; i++) {
    const box = await page.locator(selector).boundingBox();
    if (box !== null && box.width > 0) return box;
    await page.waitForTimeout(100);
  }
  throw new Error(`${selector} has no place on the page`);
}

async function targets(page) {
  await page.goto(new URL("#/targets", base).href);
  await page.waitForSelector(".targets tbody tr");
  const health = await page.locator(".targets tbody .health").allTextContents();
  check(health.some((text) => text === "up"), "a target is up");
  await page.getByRole("button", { name: "Duration" }).click();
  check((await page.locator('th[aria-sort="ascending"]').count()) === 1, "the table is sorted by one column");
  await page.getByLabel("Filter targets").fill("no such target");
  check((await page.locator(".targets tbody tr").count()) === 0, "the filter filters");
  await shoot(page, "targets");
}

async function table(page) {
  await page.getByRole("navigation").getByText("Query").click();
  const editor = page.locator("textarea");
  await editor.pressSequentially("scrape_dur");
  await page.locator(".suggestions li", { hasText: "scrape_duration_seconds" }).waitFor();
  await editor.press("Tab");
  check((await editor.inputValue()) === "scrape_duration_seconds", "Tab completes the name");
  await editor.press("Enter");
  await page.waitForSelector(".results tbody tr");
  check((await hash(page)) === "#/query?expr=scrape_duration_seconds", "the query is in the address");
  await shoot(page, "table");
}

async function graph(page) {
  await page.getByText("Graph", { exact: true }).click();
  await page.waitForSelector(".graph .plot:not([data-points='0'])");
  const plot = page.locator(".graph .plot");
  await plot.focus();
  await plot.press("ArrowLeft");
  await plot.press("ArrowLeft");
  check((await page.locator(".readout").count()) === 1, "arrow keys move the cursor");
  await plot.press("Escape");

  const rows = page.locator(".series-row");
  const all = await rows.count();
  await rows.first().click();
  check((await page.locator('.series-row[aria-pressed="true"]').count()) === 1, "a click leaves one series");
  await rows.first().click();
  check((await page.locator('.series-row[aria-pressed="true"]').count()) === all, "another one brings all back");

  const box = await steadyBox(page, ".graph .u-over");
  await page.mouse.move(box.x + box.width * 0.9, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.98, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction(() => location.hash.includes("end="));
  check(/range=\dm/.test(await hash(page)), "dragging zooms");
  await shoot(page, "graph");
  await page.goBack();
  check(!(await hash(page)).includes("end="), "back undoes the zoom");
}

async function mistake(page) {
  const editor = page.locator("textarea");
  await editor.fill(BAD_QUERY);
  await editor.press("Enter");
  await page.getByRole("alert").waitFor();
  check((await page.locator(".editor .squiggle").count()) === 1, "the error's place is underlined in the query");
  check(/line 1, column \d+/.test(await page.getByRole("alert").innerText()), "the error's place is told");
  await shoot(page, "error");
  await editor.press("End");
  await editor.press(")");
  check((await page.locator(".editor .squiggle").count()) === 0, "the underline goes with the text it was about");
}

async function schemes(page) {
  const scheme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const button = page.getByRole("button", { name: /^Colours:/ });
  await button.click();
  check((await scheme()) === "light", "first light");
  const light = await ground();
  await button.click();
  check((await scheme()) === "dark" && (await ground()) !== light, "then dark");
  await page.reload();
  check((await scheme()) === "dark", "the choice is kept");
}

async function phone(page) {
  await page.setViewportSize(PHONE);
  for (const view of ["#/", "#/targets", "#/query?expr=up", "#/query?expr=scrape_duration_seconds&tab=graph"]) {
    await page.goto(new URL(view, base).href);
    await page.waitForSelector("table, .plot");
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    check(wider === 0, `${view} fits a phone (${wider} px too wide)`);
    await shoot(page, `phone${steps}`);
  }
}

const expected = (response) => response.status() === 400 && decodeURIComponent(response.url()).includes(`query=${BAD_QUERY}`);
const refused = await run(base, { width: 1280, height: 900 }, { expected }, async (page) => {
  for (const part of [targets, table, graph, mistake, schemes, phone]) await part(page);
});
if (refused === 0) {
  console.error("the bad query was not refused");
  process.exit(1);
}
console.log(`${steps} checks`);
