// Which metrics a search finds, and in which order; and what a metric without metadata of its own is.
import { expect, test } from "vitest";
import { metadataOf } from "../lib/names";
import { find } from "./metrics";

const entries = [
  { name: "http_request_size_bytes", type: "summary", help: "Sizes." },
  { name: "up", type: "gauge", help: "Whether the http request of a scrape succeeded." },
  { name: "http_requests_total", type: "counter", help: "" },
];

test("names come before help texts, every word counts", () => {
  expect(find(entries, "HTTP request", null).map((one) => one.name)).toEqual(["http_request_size_bytes", "http_requests_total", "up"]);
  expect(find(entries, " ", null)).toHaveLength(3);
  expect(find(entries, "http", "counter").map((one) => one.name)).toEqual(["http_requests_total"]);
  expect(find(entries, "http nothing", null)).toEqual([]);
});

test("parts of a family are described by it", () => {
  const about = { type: "histogram", help: "h", unit: "" };
  expect(metadataOf({ x_seconds: [about] }, "x_seconds_bucket")).toBe(about);
  expect(metadataOf({ x_seconds: [about] }, "x_seconds")).toBe(about);
  expect(metadataOf({ x_seconds: [about] }, "x")).toBeNull();
});
