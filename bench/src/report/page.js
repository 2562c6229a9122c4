// Draws the plots. Colours come from the page's style when a plot is drawn, so that light, dark and paper differ.
const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3], [12, 4], [4, 4]];
const color = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const all = JSON.parse(document.getElementById("plots").textContent);
const drawn = all.map(draw);

for (const time of document.querySelectorAll("time")) {
  time.textContent = new Date(time.dataset.seconds * 1000).toISOString().slice(0, 10);
}
for (const query of ["print", "(prefers-color-scheme: dark)"]) {
  matchMedia(query).addEventListener("change", () => drawn.forEach((plot) => plot.redraw(false, true)));
}

// Each nine of a percentile is as wide as the one before; 100 % is half a nine behind the last share.
function percentiles(plot) {
  const shares = plot.lines.flatMap((line) => line.x).filter((share) => share < 1);
  const nines = (share) => -Math.log10(1 - share);
  const last = Math.max(0.9, ...shares);
  const place = (share) => (share < 1 ? nines(share) : nines(last) + 0.5);
  const ticks = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999].filter((share) => share <= last).concat(1);
  const share = (x) => (x > nines(last) + 0.25 ? 1 : 1 - 10 ** -x);
  const percent = (x) => +(share(x) * 100).toPrecision(7);
  return {
    place,
    label: "% of requests that took no longer",
    legend: "%",
    value: (x) => percent(x),
    axis: { splits: () => ticks.map(place), values: (u, at) => at.map(percent) },
  };
}

function time(plot) {
  const last = Math.max(...plot.lines.flatMap((line) => line.x));
  const [unit, name] = last > 10800 ? [3600, "hours"] : last > 180 ? [60, "minutes"] : [1, "seconds"];
  const label = name + " since the start";
  return { place: (x) => x / unit, label, legend: name, value: (x) => x.toFixed(unit > 1 ? 2 : 1), axis: {} };
}

// Axes begin at zero; latencies that differ by more than a factor of thirty get a logarithmic one.
function heights(plot) {
  const same = all.filter((other) => other.key === plot.key && other.axis === plot.axis);
  const values = same.flatMap((other) => other.lines).flatMap((line) => line.y);
  const most = Math.max(...values, Number.MIN_VALUE);
  const least = Math.min(...values.filter((value) => value > 0));
  return plot.unit === "ms" && least * 30 < most
    ? { distr: 3, range: [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most))] }
    : { range: [0, most * 1.05] };
}

// Lines have readings at times of their own: what is shown is each line's nearest one.
function nearest(u, series, at) {
  const values = u.data[series];
  for (let by = 0; by < values.length; by++) {
    if (values[at - by] != null) return at - by;
    if (values[at + by] != null) return at + by;
  }
  return at;
}

function draw(plot, at) {
  const place = document.getElementById("plot-" + at);
  const x = plot.axis === "time" ? time(plot) : percentiles(plot);
  const y = heights(plot);
  const axis = { stroke: color("--ink"), grid: { stroke: color("--rule"), width: 1 }, ticks: { show: false } };
  const show = (value) => (value == null ? "" : +value.toPrecision(3) + " " + plot.unit);
  const size = () => ({ width: Math.max(place.clientWidth, 280), height: 240 });
  const lines = plot.lines.map((line) => ({
    label: line.label,
    // The values of further repetitions would fill the legend.
    ...(line.faint && plot.axis === "time" && { class: "repeated" }),
    stroke: color("--c" + line.style),
    width: line.faint ? 1 : 2,
    alpha: line.faint ? 0.55 : 1,
    dash: DASHES[line.style],
    spanGaps: true,
    points: { show: line.x.length < 2 },
    value: (u, value) => show(value),
  }));
  const options = {
    ...size(),
    cursor: { dataIdx: nearest, drag: { x: false, y: false } },
    scales: { x: { time: false }, y },
    axes: [
      { ...axis, ...x.axis, label: x.label, labelSize: 22, size: 34 },
      { ...axis, size: 62, label: y.distr ? "logarithmic" : undefined, labelSize: 18 },
    ],
    series: [{ label: x.legend, value: (u, value) => (value == null ? "" : x.value(value)) }, ...lines],
  };
  if (y.distr) options.axes[1].values = (u, ticks) => ticks.map((tick) => (Number.isInteger(+Math.log10(tick).toFixed(6)) ? tick : null));
  const tables = plot.lines.map((line) => [line.x.map(x.place), line.y]);
  const u = new uPlot(options, uPlot.join(tables), place);
  new ResizeObserver(() => u.setSize(size())).observe(place);
  return u;
}
