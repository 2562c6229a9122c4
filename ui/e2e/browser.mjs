// A headless Chromium that notes everything a page must not do. $CHROMIUM names the browser.
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

/**
 * Runs `visit(page, problems)` on a new page and exits non-zero when it throws or any problem was noted: a console error,
 * an exception, a request that failed, was refused (unless `expected(response)`) or went to another host. With `strict`
 * also a request that was called off, as leaving a view does. Returns how many expected refusals there were.
 */
export async function run(base, viewport, { strict = false, expected = () => false }, visit) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
  const problems = [];
  let refused = 0;
  try {
    const page = await browser.newPage({ viewport });
    // A busy machine may stand still for a while; what is wrong fails all the same.
    page.setDefaultTimeout(60_000);
    page.on("response", (response) => {
      if (response.status() < 400) return;
      if (expected(response)) refused++;
      else problems.push(`${response.status()}: ${response.url()}`);
    });
    page.on("console", (message) => {
      // Chromium also reports each refused request on the console; those are judged above.
      if (message.type() === "error" && !/the server responded with a status of/.test(message.text())) {
        problems.push(`console: ${message.text()}`);
      }
    });
    page.on("pageerror", (error) => problems.push(`exception: ${error.message}`));
    page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText ?? "";
      if (why !== "net::ERR_ABORTED" || strict) problems.push(`failed: ${request.url()} ${why}`);
    });
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== new URL(base).origin) problems.push(`foreign request: ${request.url()}`);
    });
    await visit(page, problems);
  } catch (error) {
    problems.push(String(error instanceof Error ? error.message : error));
  } finally {
    await browser.close();
  }
  if (problems.length > 0) {
    console.error(problems.join("\n"));
    process.exit(1);
  }
  return refused;
}
