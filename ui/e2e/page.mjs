// Opens the page in headless Chromium and fails unless it moves: `node e2e/page.mjs <base URL> <screenshot.png>`.
// Within 15 s at least four plots must have drawn data, and their pixels and newest times must change afterwards;
// any console error, exception, failed or refused request fails the run. $CHROMIUM names the browser.
import { run } from "./browser.mjs";

const [base, screenshot] = process.argv.slice(2);
if (base === undefined || screenshot === undefined) {
  console.error("usage: node e2e/page.mjs <base URL> <screenshot.png>");
  process.exit(2);
}

const LEAST_PLOTS = 4;
const FIRST_DATA_MS = 15_000;
/** Two refreshes and some slack for a busy machine. */
const MOVE_MS = 15_000;
/** A line of a few points colours at least this many pixels. */
const LEAST_PIXELS = 20;

/** Runs in the page: of each plot its name, points, newest time, and what its canvas shows. */
function look() {
  return [...document.querySelectorAll(".plot")].map((plot) => {
    const canvas = plot.querySelector("canvas");
    let hash = 0;
    let colored = 0;
    if (canvas !== null && canvas.width > 0 && canvas.height > 0) {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) {
        const [r, g, b, a] = data.subarray(i, i + 4);
        hash = (Math.imul(hash, 31) + ((r << 24) | (g << 16) | (b << 8) | a)) | 0;
        // Grid and text are nearly grey; data is coloured.
        if (a > 128 && Math.max(r, g, b) - Math.min(r, g, b) > 60) colored++;
      }
    }
    return {
      name: (plot.getAttribute("aria-label") ?? "?").split(":")[0],
      points: Number(plot.getAttribute("data-points")),
      to: Number(plot.getAttribute("data-to")),
      hash,
      colored,
    };
  });
}

const drawn = (plots) => plots.filter((plot) => plot.points > 0 && plot.colored >= LEAST_PIXELS);

const moved = (before, after) =>
  after.filter((plot) => {
    const old = before.find((one) => one.name === plot.name);
    return old !== undefined && plot.hash !== old.hash && plot.to > old.to;
  });

await run(base, { width: 1280, height: 900 }, { strict: true }, async (page, problems) => {
  /** Looks until `enough` says so; the last look either way. */
  const until = async (deadlineMs, enough) => {
    const end = Date.now() + deadlineMs;
    for (;;) {
      const plots = await page.evaluate(look);
      if (enough(plots) || Date.now() >= end) return plots;
      await page.waitForTimeout(250);
    }
  };

  const began = Date.now();
  await page.goto(base, { waitUntil: "load" });
  const first = drawn(await until(FIRST_DATA_MS, (plots) => drawn(plots).length >= LEAST_PLOTS));
  const drawnMs = Date.now() - began;
  if (first.length < LEAST_PLOTS) {
    problems.push(`only ${first.length} plots have data after ${drawnMs} ms: ${first.map((plot) => plot.name).join(", ") || "none"}`);
  } else {
    const later = await until(MOVE_MS, (plots) => moved(first, drawn(plots)).length >= LEAST_PLOTS);
    const moving = moved(first, drawn(later));
    if (moving.length < LEAST_PLOTS) problems.push(`only ${moving.length} plots move: ${moving.map((plot) => plot.name).join(", ") || "none"}`);
    else console.log(`${moving.length} plots move (${moving.map((plot) => plot.name).join(", ")}); first drawn after ${drawnMs} ms`);
  }
  await page.screenshot({ path: screenshot, fullPage: true });
});
