// Results as files: comma-separated values as RFC 4180 has them, and pictures.
import type { Labels, QueryData } from "../api";
import type { Frame } from "./matrix";

const field = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
const row = (fields: readonly string[]): string => `${fields.map(field).join(",")}\r\n`;

/** Label names of all series: the metric's name first, then by the alphabet. */
function columns(metrics: readonly Labels[]): string[] {
  const names = [...new Set(metrics.flatMap(Object.keys))].sort();
  return names.includes("__name__") ? ["__name__", ...names.filter((name) => name !== "__name__")] : names;
}

/** One sample a line: labels, time and value, exactly as the server gave them. */
export function dataCsv(data: QueryData): string {
  if (data.resultType === "scalar" || data.resultType === "string") return row(["timestamp", "value"]) + row([String(data.result[0]), data.result[1]]);
  const names = columns(data.result.map((series) => series.metric));
  const line = (metric: Labels, time: number, value: string): string => row([...names.map((name) => metric[name] ?? ""), String(time), value]);
  const lines: string[] = [row([...names, "timestamp", "value"])];
  for (const series of data.result) {
    const one = "value" in series && series.value !== undefined ? [series.value] : [];
    const many = "values" in series ? (series.values ?? []) : [];
    for (const [time, value] of [...one, ...many]) lines.push(line(series.metric, time, value));
    const histogram = "histogram" in series && series.histogram !== undefined ? [series.histogram] : [];
    const histograms = "histograms" in series ? (series.histograms ?? []) : [];
    for (const [time, { count, sum }] of [...histogram, ...histograms]) lines.push(line(series.metric, time, `count ${count} sum ${sum}`));
  }
  return lines.join("");
}

/** One time a line, one column for each series: what spreadsheets plot. */
export function frameCsv(frame: Frame): string {
  const lines = [...frame.lines];
  const head = row(["time", ...lines.map(([name]) => name)]);
  const body = frame.times.map((time, i) => row([new Date(time * 1000).toISOString(), ...lines.map(([, line]) => String(line.values[i] ?? ""))]));
  return head + body.join("");
}

/** A name for a file that says what is in it. */
export function fileName(expr: string, ending: string): string {
  const words = expr.replace(/[^a-zA-Z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60);
  return `${words === "" ? "query" : words}.${ending}`;
}

export function save(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The download has begun when the click returns; its data stays until it is given back.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const saveText = (name: string, text: string): void => save(name, new Blob([text], { type: "text/csv;charset=utf-8" }));

/** A plot's canvas on its ground, with the expression above and the legend below. */
export function savePng(name: string, canvas: HTMLCanvasElement, title: string, legend: readonly (readonly [string, string])[], colors: { ground: string; text: string }): void {
  const scale = canvas.width / Math.max(1, canvas.clientWidth);
  const line = 18 * scale;
  const shown = legend.slice(0, 20);
  const picture = document.createElement("canvas");
  picture.width = canvas.width;
  picture.height = canvas.height + line * (shown.length + 2);
  const ctx = picture.getContext("2d");
  if (ctx === null) return;
  ctx.fillStyle = colors.ground;
  ctx.fillRect(0, 0, picture.width, picture.height);
  ctx.fillStyle = colors.text;
  ctx.font = `${12 * scale}px monospace`;
  ctx.textBaseline = "middle";
  ctx.fillText(title, 8 * scale, line * 0.7, picture.width - 16 * scale);
  ctx.drawImage(canvas, 0, line * 1.3);
  shown.forEach(([text, color], i) => {
    const y = line * 1.3 + canvas.height + line * (i + 0.4);
    ctx.fillStyle = color;
    ctx.fillRect(8 * scale, y - 1.5 * scale, 14 * scale, 3 * scale);
    ctx.fillStyle = colors.text;
    ctx.fillText(text, 28 * scale, y, picture.width - 36 * scale);
  });
  picture.toBlob((blob) => blob !== null && save(name, blob), "image/png");
}
