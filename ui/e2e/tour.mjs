// Uses every view of the page as a person does: `node e2e/tour.mjs <base URL> [directory for screenshots]`.
// Needs a server with at least one target that answers. Fails like page.mjs; the one refused request is the tour's own bad query.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./browser.mjs";

const [base, shots] = process.argv.slice(2);
if (base === undefined) {
  console.error("usage: node e2e/tour.mjs <base URL> [directory for screenshots]");
  process.exit(2);
}

const BAD_QUERY = "sum(up";
const DESK = { width: 1280, height: 900 };
const PHONE = { width: 375, height: 812 };
/** What shows that a view is there, not only its frame. */
const VIEWS = {
  "": ".plot:not([data-points='0'])",
  "query?g0.expr=up": ".results tbody tr",
  "query?g0.expr=scrape_duration_seconds&g0.tab=graph": ".graph .plot",
  "query?g0.expr=scrape_duration_seconds&g0.tab=explain": ".flame-bar",
  alerts: ".alerts tbody tr",
  rules: ".rule-list tbody tr",
  targets: ".targets tbody .health-up",
  "service-discovery": ".discovered tbody tr",
  segments: ".segments tbody tr",
  status: ".info dl dd",
  "tsdb-status": ".top-table tbody tr",
  config: ".yaml-line, .no-config",
  flags: ".flags tbody tr",
};
let steps = 0;

function check(condition, what) {
  if (!condition) throw new Error(`not so: ${what}`);
  steps++;
}

const open = (page, address) => page.goto(new URL(address, base).href);
const param = (page, name) => page.evaluate((key) => new URLSearchParams(location.search).get(key), name);
const shoot = (page, name) => (shots === undefined ? undefined : page.screenshot({ path: join(shots, `${name}.png`), fullPage: true }));
const editorText = (page) => page.locator(".cm-content").first().innerText();

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
  await open(page, "targets");
  await page.waitForSelector(VIEWS.targets);
  const health = await page.locator(".targets tbody .health").allTextContents();
  check(health.some((text) => text === "up"), "a target is up");
  await page.getByRole("button", { name: "Duration" }).first().click();
  check((await page.locator('th[aria-sort="ascending"]').count()) === 1, "a table is sorted by one column");
  await page.locator(".expander").first().click();
  check(/Before relabelling/.test(await page.locator(".target-more").first().innerText()), "a target shows its labels before relabelling");
  await shoot(page, "targets");
  const pool = page.locator(".pool").first();
  await pool.locator("summary").click();
  check((await pool.getAttribute("open")) === null, "a pool folds up");
  await page.getByLabel("Filter targets").fill("no such target");
  check((await page.locator(".targets tbody tr").count()) === 0, "the filter filters");
  check((await param(page, "search")) === "no such target", "the filter is in the address");
  await page.getByRole("navigation", { name: "Targets" }).getByText("Service discovery").click();
  await page.waitForSelector(VIEWS["service-discovery"]);
  check(/job=/.test(await page.locator(".discovered").first().innerText()), "labels are listed");
}

/** What a server with rules answered once: what fires would differ from run to run. */
async function recordRules(page) {
  const recorded = readFileSync(new URL("rules.json", import.meta.url), "utf8");
  await page.route("**/api/v1/rules*", (route) => route.fulfill({ contentType: "application/json", body: recorded }));
  const managers = JSON.stringify({ status: "success", data: { activeAlertmanagers: [], droppedAlertmanagers: [] } });
  await page.route("**/api/v1/alertmanagers", (route) => route.fulfill({ contentType: "application/json", body: managers }));
}

/** What a server answered whose workers come, go and break; switching is only noted. */
async function recordSegments(page) {
  const recorded = readFileSync(new URL("segments.json", import.meta.url), "utf8");
  await page.route("**/api/v1/segments", (route) => route.fulfill({ contentType: "application/json", body: recorded }));
  await page.route("**/api/v1/segments/switch*", (route) =>
    route.fulfill({ contentType: "application/json", body: JSON.stringify({ status: "success", data: { segments: 1 } }) }),
  );
}

async function segments(page) {
  await open(page, "segments");
  await page.waitForSelector(VIEWS.segments);
  const headings = await page.locator(".segment-app h2").allInnerTexts();
  check(headings.join("; ") === "shop 1 of 2 alive; Unreadable 0 of 1 alive", `applications are told apart: ${headings.join("; ")}`);
  check(/shorter than 4096 bytes/.test(await page.locator(".segments").last().innerText()), "a broken segment says why");
  const asked = page.waitForRequest((request) => request.method() === "POST");
  await page.getByRole("switch", { name: "Count shop_requests_total" }).click();
  const { pathname, search } = new URL((await asked).url());
  check(pathname.endsWith("/api/v1/segments/switch") && search === "?app=shop&metric=shop_requests_total&state=off", `a switch acts: ${search}`);
  check((await page.getByRole("switch", { name: "Count shop_seconds" }).getAttribute("aria-checked")) === "false", "what is off is shown as off");
}

async function alerts(page) {
  await open(page, "alerts");
  await page.waitForSelector(VIEWS.alerts);
  const rules = () => page.locator(".pool h2").allTextContents();
  check((await rules()).join() === "TargetDown,ManyGoroutines", "what fires comes first");
  check(/sent nowhere/.test(await page.locator(".summary").first().innerText()), "alerts without an Alertmanager are told");
  check(/cannot scrape 127\.0\.0\.1:1: up is 0/.test(await page.locator(".alerts").first().innerText()), "annotations are shown");
  check((await page.locator(".alerts a").first().getAttribute("href")) === "https://wiki.example.com/TargetDown", "addresses in them are links");
  await page.getByText("Pending 1", { exact: true }).click();
  check((await rules()).join() === "ManyGoroutines" && (await param(page, "state")) === "pending", "alerts are filtered by state");
  await page.getByText("All", { exact: true }).click();
  await page.getByLabel("Filter alerts").fill("avail_bytes");
  check((await rules()).length === 0 && (await page.locator(".rule-list tbody tr").count()) === 1, "words are found in inactive rules");
  await page.getByLabel("Filter alerts").fill("severity=page");
  await page.getByRole("link", { name: "up == 0" }).click();
  await page.waitForSelector(".cm-editor");
  check((await param(page, "g0.expr")) === "up" && (await param(page, "g0.threshold")) === "== 0", "an expression leads to its graph, with the threshold");
  await page.waitForSelector(".graph .plot:not([data-points='0'])");
  check(/thresholds == 0$/.test(await page.locator(".graph .plot").getAttribute("aria-label")), "the threshold is drawn");
  await page.getByRole("textbox", { name: "Threshold" }).fill("< 0.5, > 2");
  await page.getByRole("textbox", { name: "Threshold" }).press("Enter");
  await page.waitForFunction(() => new URLSearchParams(location.search).get("g0.threshold") === "< 0.5, > 2");
  await page.waitForFunction(() => /thresholds < 0.5, > 2$/.test(document.querySelector(".graph .plot")?.getAttribute("aria-label") ?? ""));
  await shoot(page, "threshold");

  await open(page, "alerts");
  await page.getByRole("navigation", { name: "Alerts" }).getByText("Rules").click();
  await page.waitForSelector(VIEWS.rules);
  check((await rules()).join() === "requests,targets", "rules are listed by group");
  await page.getByText("Failing 1", { exact: true }).click();
  check((await page.locator(".rule-list tbody tr").count()) === 1, "rules are filtered by health");
  check(/many-to-many matching/.test(await page.locator(".rule-error").innerText()), "the error is told");
}

/** From a few letters to a table, with the keyboard alone. */
async function table(page) {
  await page.getByRole("navigation", { name: "Pages" }).getByText("Query").click();
  await page.waitForSelector(".cm-editor");
  const editor = page.locator(".cm-content");
  await editor.focus();
  await editor.pressSequentially("scrape_dur");
  await page.getByRole("option", { name: /^scrape_duration_seconds\b/ }).first().waitFor();
  await shoot(page, "completion");
  // The list takes no key in its first moment, so that nobody chooses what they have not seen.
  await page.waitForTimeout(500);
  await editor.press("Tab");
  check((await editorText(page)) === "scrape_duration_seconds", "Tab completes the name");
  await editor.press("Enter");
  await page.waitForSelector(".results tbody tr");
  check((await param(page, "g0.expr")) === "scrape_duration_seconds", "the query is in the address");
  check(/^\d+ series · /.test(await page.locator(".cost-line").innerText()), "what it cost is told");

  await editor.press("End");
  await editor.pressSequentially("{jo");
  await page.getByRole("option", { name: "job", exact: true }).waitFor();
  await editor.press("Escape");
  await page.locator(".cm-lintRange-error, .cm-lintPoint-error").first().waitFor({ state: "attached" });
  check((await page.locator(".about-problem").innerText()) !== "", "the mistake is told while it is typed");
  await editor.press("Shift+Enter");
  check((await editorText(page)).includes("\n"), "Shift and Enter start a new line");
}

async function graph(page) {
  // Moving and zooming leaves out the newest 25 s of what is plotted first.
  await answered(page, "scrape_duration_seconds offset 40s");
  await open(page, "graph?g0.expr=scrape_duration_seconds&g0.tab=0&g0.range_input=30m");
  await page.waitForSelector(".graph .plot:not([data-points='0'])");
  check((await page.locator('input[aria-label="Range"]').inputValue()) === "30m", "a link made for Prometheus sets the range");
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
  await page.waitForFunction(() => location.search.includes("end_input="));
  check(/^\dm/.test(await param(page, "g0.range_input")), "dragging zooms");
  await shoot(page, "graph");
  await page.goBack();
  check((await param(page, "g0.end_input")) === null, "back undoes the zoom");
  await mouse(page);
  await files(page);
}

/** Waits until a query has a result: a server that has just been started does not know much. */
async function answered(page, query) {
  const url = new URL(`api/v1/query?query=${encodeURIComponent(query)}`, base).href;
  for (let tries = 0; tries < 120; tries++) {
    const { data } = await (await page.request.get(url)).json();
    if (data.result.length > 0) return;
    await page.waitForTimeout(500);
  }
  check(false, `${query} has a result within a minute`);
}

/** Moving and zooming by mouse and keys; each is a step in the history. */
async function mouse(page) {
  const range = () => param(page, "g0.range_input");
  const changed = async (before) => {
    await page.waitForFunction((old) => location.search !== old, before);
    await settled();
  };
  // The plot of the range before stays until there is another.
  const settled = async () => {
    await page.waitForTimeout(200);
    await page.waitForFunction(() => document.querySelector('[aria-busy="true"]') === null);
  };
  await settled();
  const search = () => page.evaluate(() => location.search);
  let before = await search();
  let box = await steadyBox(page, ".graph .u-over");
  await page.mouse.move(box.x + box.width * 0.3, box.y + 50);
  await page.keyboard.down("Shift");
  await page.mouse.down();
  // Not far: a server that has just been started has only the newest minutes.
  await page.mouse.move(box.x + box.width * 0.31, box.y + 50, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await changed(before);
  check((await param(page, "g0.end_input")) !== null && (await range()) === "30m", "Shift and dragging moves the range");

  before = await search();
  box = await steadyBox(page, ".graph .u-over");
  await page.mouse.move(box.x + box.width * 0.99, box.y + 50);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -100);
  await page.mouse.wheel(0, -100);
  await page.keyboard.up("Control");
  await changed(before);
  check(/^19m/.test(await range()), `the wheel zooms: ${await range()}`);

  before = await search();
  await page.locator(".graph .plot").press("-");
  await changed(before);
  check(/^38m/.test(await range()), `keys zoom: ${await range()}`);
  for (let i = 0; i < 3; i++) await page.goBack();
  check((await range()) === "30m" && (await param(page, "g0.end_input")) === null, "back undoes all of it");
}

async function files(page) {
  await page.waitForSelector(".graph .plot:not([data-points='0'])");
  for (const [button, name, first] of [["CSV", "scrape-duration-seconds.csv", "time,"], ["PNG", "scrape-duration-seconds.png", "\x89PNG"]]) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: button }).click()]);
    check(download.suggestedFilename() === name, `a file is named ${name}`);
    const content = readFileSync(await download.path(), "latin1");
    check(content.startsWith(first) && content.length > 100, `${name} has content`);
  }
}

/** What a trace shows, and a heat map of the server's own histogram with an exemplar. */
async function insight(page) {
  await open(page, "query?g0.expr=sum(scrape_duration_seconds)&g0.tab=explain");
  await page.waitForSelector(".flame-bar");
  const operations = await page.locator(".flame-bar:not(.flame-phase)").evaluateAll((bars) => bars.map((bar) => bar.getAttribute("aria-label").split(": ")[0]));
  check(operations.join("; ") === "sum(scrape_duration_seconds); sum(scrape_duration_seconds); scrape_duration_seconds", `operations: ${operations.join("; ")}`);
  const phases = await page.locator(".explain-phases tr td:first-child").allInnerTexts();
  check(["parse", "read", "compute"].every((phase) => phases.some((text) => text.includes(phase))), "phases are told");
  await page.getByText("Plan", { exact: true }).click();
  check(/aggregate sum by/.test(await page.locator(".plan").innerText()), "the plan is shown");

  await page.route("**/api/v1/query_exemplars*", (route) => {
    const exemplars = [{ labels: { trace_id: "abc" }, value: "0.01", timestamp: Date.now() / 1000 - 60 }];
    const data = [{ seriesLabels: { __name__: "scrape_duration_seconds" }, exemplars }];
    return route.fulfill({ contentType: "application/json", body: JSON.stringify({ status: "success", data }) });
  });
  await open(page, "query?g0.expr=scrape_duration_seconds&g0.tab=graph&g0.range_input=10m");
  await page.getByLabel("exemplars").check();
  await page.getByText("1 exemplar").click();
  check(/trace_id="abc"/.test(await page.locator(".exemplars").innerText()), "exemplars are listed");
  check((await param(page, "g0.show_exemplars")) === "1", "exemplars are in the address");

  const rates = "sum by (le) (rate(narthex_query_duration_seconds_bucket[1m]))";
  // Its series begin with the first query, and a rate with the second scrape of them.
  await answered(page, rates);
  await open(page, `query?g0.expr=${encodeURIComponent(rates)}&g0.tab=graph&g0.range_input=10m`);
  await page.getByLabel("heat map").check();
  await page.waitForSelector(".heat:not([data-cells='0'])");
  check((await param(page, "g0.display_mode")) === "heatmap", "the heat map is in the address");
  await shoot(page, "heat");
}

/** The first page of a server that watches no host. */
async function alone(page) {
  const empty = JSON.stringify({ status: "success", data: { resultType: "vector", result: [] } });
  // The question that finds hosts names their metrics in one pattern.
  const isDiscovery = (url) => url.pathname.endsWith("/api/v1/query") && /node_\(|__name__=~"node_/.test(url.searchParams.get("query") ?? "");
  await page.route(isDiscovery, (route) => route.fulfill({ contentType: "application/json", body: empty }));
  await page.route("**/api/v1/targets*", async (route) => {
    const response = await route.fetch();
    const whole = await response.json();
    whole.data.activeTargets = whole.data.activeTargets.filter((target) => target.labels.job !== "node");
    await route.fulfill({ response, json: whole });
  });
  await open(page, "");
  await page.waitForSelector(".tiles .tile");
  await page.waitForFunction(() => /\d/.test(document.querySelector(".tiles .tile dd").innerText));
  check((await page.locator(".overview-list tbody tr").count()) > 0, "the largest metrics are listed");
  check(/Targets\s+\d+ of \d+ up/.test((await page.locator(".tiles").innerText()).replace(/\n+/g, " ")), "targets are counted");
  await shoot(page, "overview-alone");
  await page.unroute(isDiscovery);
  await page.unroute("**/api/v1/targets*");
}

async function panels(page) {
  await page.getByRole("button", { name: "Add query" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".query-panel").length === 2);
  const second = page.locator(".query-panel").nth(1);
  await second.getByRole("button", { name: "Metrics" }).click();
  await page.getByLabel("Search metrics").fill("samples_scraped");
  await page.locator(".metric-row", { hasText: /^scrape_samples_scraped/ }).waitFor();
  await shoot(page, "metrics");
  await page.locator(".metric-row", { hasText: /^scrape_samples_scraped/ }).click();
  await page.waitForSelector(".dialog", { state: "detached" });
  await second.getByRole("button", { name: "Run" }).click();
  await page.waitForFunction(() => new URLSearchParams(location.search).get("g1.expr") === "scrape_samples_scraped");
  await second.getByRole("button", { name: "Remove this query" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".query-panel").length === 1);
  check((await param(page, "g0.expr")) === "scrape_duration_seconds" && (await param(page, "g1.expr")) === null, "the other panel stays");
  await page.getByRole("button", { name: "History" }).click();
  check((await page.locator(".past-row").allTextContents()).includes("scrape_samples_scraped"), "history knows what was asked");
  await page.locator(".dialog[open]").waitFor();
  await page.keyboard.press("Escape");
  await page.waitForSelector(".dialog", { state: "detached" });
}

async function format(page) {
  await open(page, "query?g0.expr=sum(up)by(job)");
  await page.waitForSelector(".cm-editor");
  await page.getByRole("button", { name: "Format" }).click();
  await page.waitForFunction(() => document.querySelector(".editor > div").shadowRoot.querySelector(".cm-content").innerText === "sum by (job) (up)");
  check(true, "the query is laid out");
}

async function mistake(page) {
  await open(page, `query?g0.expr=${encodeURIComponent(BAD_QUERY)}`);
  await page.getByRole("alert").waitFor();
  await page.locator(".cm-lintRange-error, .cm-lintPoint-error").first().waitFor({ state: "attached" });
  check(/line 1, column \d+/.test(await page.getByRole("alert").innerText()), "the error's place is told");
  await shoot(page, "error");
  const editor = page.locator(".cm-content");
  await editor.press("End");
  await editor.press(")");
  await page.waitForFunction(() => document.querySelector(".editor > div").shadowRoot.querySelector(".cm-lintRange-error, .cm-lintPoint-error") === null);
  check(true, "the underline goes with the text it was about");
}

async function schemes(page) {
  await open(page, "");
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
  await button.click();
}

/** Every view, in both schemes, on a desk and on a phone: there, and no wider than the screen. */
async function everywhere(page) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const [device, size] of Object.entries({ desk: DESK, phone: PHONE })) {
      await page.setViewportSize(size);
      for (const [view, sign] of Object.entries(VIEWS)) {
        await open(page, view);
        await page.waitForSelector(sign);
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        check(wider === 0, `${view} fits a ${device} (${wider} px too wide)`);
        await shoot(page, `${view.replace(/[^a-z-].*/, "") || "overview"}${/graph|explain/.exec(view)?.[0] ?? ""}-${colorScheme}-${device}`);
      }
    }
  }
}

/** Only the bad query is refused. */
let refused = 0;
const expected = (response) => {
  const { searchParams } = new URL(response.url());
  const bad = response.status() === 400 && searchParams.get("query") === BAD_QUERY;
  if (bad) refused++;
  return bad;
};
await run(base, DESK, { expected }, async (page) => {
  await recordRules(page);
  await recordSegments(page);
  for (const part of [targets, segments, alerts, table, graph, panels, insight, alone, format, mistake, schemes, everywhere]) await part(page);
});
if (refused === 0) {
  console.error("the bad query was not refused");
  process.exit(1);
}
console.log(`${steps} checks`);
