// Label sets side by side.
import { expect, test } from "vitest";
import { commonLabels, without } from "./labels";

test("what all share is common, names never are", () => {
  const a = { __name__: "x", job: "j", cpu: "0" };
  const b = { __name__: "x", job: "j", cpu: "1" };
  expect(commonLabels([a, b])).toEqual({ job: "j" });
  expect(commonLabels([a])).toEqual({});
  expect(commonLabels([])).toEqual({});
  expect(commonLabels([a, { job: "j" }])).toEqual({ job: "j" });
  expect(without(a, { job: "j" })).toEqual({ __name__: "x", cpu: "0" });
});
