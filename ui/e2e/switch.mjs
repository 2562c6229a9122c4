// Switches a metric of a running program off and on: `node e2e/switch.mjs <base URL> <log> [directory for screenshots]`.
// The program counts pool_requests_total in a segment, and writes a byte to the log for each count it was asked for: what it
// does while the metric is off must be missing in the metric, and nothing else.
import { statSync } from "node:fs";
import { join } from "node:path";
import { run } from "./browser.mjs";

const [base, log, shots] = process.argv.slice(2);
if (base === undefined || log === undefined) {
  console.error("usage: node e2e/switch.mjs <base URL> <log> [directory for screenshots]");
  process.exit(2);
}

const METRIC = "pool_requests_total";
const TRIES = 300;

const asked = () => statSync(log).size;

/** Waits until `look` returns something. */
async function until(page, what, look) {
  for (let tries = 0; tries < TRIES; tries++) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await page.waitForTimeout(100);
  }
  throw new Error(`not within ${TRIES / 10} s: ${what}`);
}

await run(base, { width: 1280, height: 900 }, {}, async (page) => {
  /** What the server knows: undefined if the metric is not there. */
  const counted = async () => {
    const url = new URL(`api/v1/query?query=sum(${METRIC})`, base).href;
    const { data } = await (await page.request.get(url)).json();
    return data.result.length > 0 ? Number(data.result[0].value[1]) : undefined;
  };
  await page.goto(new URL("segments", base).href);
  const button = page.getByRole("switch", { name: `Count ${METRIC}` });
  const isOn = async () => (await button.getAttribute("aria-checked")) === "true";
  await button.waitFor();
  await until(page, "the metric is on and counted", async () => (await isOn()) && (await counted()) > 20);
  const before = asked();
  await button.click();
  await until(page, "the switch is shown as off", async () => !(await isOn()));
  await until(page, "the metric is gone", async () => (await counted()) === undefined);
  const off = asked();
  await until(page, "the program goes on", () => asked() > off + 500);
  if (shots !== undefined) await page.screenshot({ path: join(shots, "switched-off.png"), fullPage: true });
  const still = asked();
  await button.click();
  await until(page, "the switch is shown as on", isOn);
  const back = await until(page, "the metric is back", counted);
  const after = asked();
  await until(page, "it counts again", async () => (await counted()) > back + 200);
  const missing = asked() - (await counted());
  // The server has read a little less than the program has been asked for by now.
  if (missing < still - off || missing > after - before + 2000) {
    throw new Error(`${missing} are missing; it was off for ${still - off} to ${after - before}`);
  }
  console.log(`switched off and on: ${missing} of ${asked()} not counted`);
});
