// The palette keeps what theme.css promises: contrast in both schemes, and lines that colour-blind people tell apart.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

type Rgb = [number, number, number];
const css = readFileSync(new URL("./theme.css", import.meta.url), "utf8");

const pairs = [...css.matchAll(/(--[\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);/g)];
const light: Record<string, string> = Object.fromEntries(pairs.map((match) => [match[1], match[2]]));
const dark: Record<string, string> = Object.fromEntries(pairs.map((match) => [match[1], match[3]]));

function rgb(scheme: Record<string, string>, name: string): Rgb {
  const hex = scheme[name];
  if (hex === undefined) throw new Error(`no ${name}`);
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255) as Rgb;
}

const linear = (c: number): number => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const toLinear = (color: Rgb): Rgb => color.map(linear) as Rgb;
const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((n, x, i) => n + x * (b[i] ?? 0), 0);
const luminance = (color: Rgb): number => dot([0.2126, 0.7152, 0.0722], toLinear(color));

/** WCAG 2 contrast ratio, 1..21. */
function contrast(a: Rgb, b: Rgb): number {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/** Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB. */
const VISION: Record<string, number[][]> = {
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

function lab(color: Rgb): Rgb {
  const matrix = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]];
  const white = [0.95047, 1, 1.08883];
  const f = (t: number): number => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const [x, y, z] = matrix.map((row, i) => f(dot(row, color) / (white[i] as number))) as Rgb;
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const clamp = (color: number[]): Rgb => color.map((c) => Math.min(1, Math.max(0, c))) as Rgb;

function distance(a: Rgb, b: Rgb, vision: number[][] | null): number {
  const seen = (color: Rgb): Rgb => lab(vision === null ? toLinear(color) : clamp(vision.map((row) => dot(row, toLinear(color)))));
  const [p, q] = [seen(a), seen(b)];
  return Math.hypot(...p.map((x, i) => x - (q[i] as number)));
}

const PLOT = Object.keys(light).filter((name) => name.startsWith("--c-"));

test("every colour has both schemes", () => {
  expect(css.match(/#[0-9a-f]{3,}/g)).toHaveLength(2 * pairs.length);
  expect(PLOT).toHaveLength(8);
});

describe.each([["light", light], ["dark", dark]] as const)("%s", (_name, scheme) => {
  const at = (name: string): Rgb => rgb(scheme, name);

  test("text has 4.5:1 on every ground it stands on", () => {
    for (const ground of ["--bg", "--surface", "--sunken", "--info-ground", "--warn-ground", "--bad-ground"]) {
      for (const text of ["--text", "--text-muted"]) expect(contrast(at(text), at(ground)), `${text} on ${ground}`).toBeGreaterThanOrEqual(4.5);
    }
    for (const text of ["--accent", "--bad", "--good", "--warn"]) {
      for (const ground of ["--bg", "--surface"]) expect(contrast(at(text), at(ground)), `${text} on ${ground}`).toBeGreaterThanOrEqual(4.5);
    }
    for (const name of Object.keys(light).filter((one) => one.startsWith("--syn-"))) {
      expect(contrast(at(name), at("--surface")), name).toBeGreaterThanOrEqual(4.5);
    }
    expect(contrast(at("--bad"), at("--bad-ground"))).toBeGreaterThanOrEqual(4.5);
    expect(contrast(at("--accent-text"), at("--accent"))).toBeGreaterThanOrEqual(4.5);
  });

  test("lines have 3:1 on their ground", () => {
    for (const name of PLOT) expect(contrast(at(name), at("--surface")), name).toBeGreaterThanOrEqual(3);
  });

  test("pairs drawn together stay apart for every kind of colour vision", () => {
    // CPU's order in its stack, memory's, the two directions, load, and the first series of a query.
    const stacks = [
      ["--c-orange", "--c-blue", "--c-sky", "--c-red", "--c-purple", "--c-yellow"],
      ["--c-blue", "--c-sky", "--c-grey"],
      ["--c-blue", "--c-orange", "--c-green"],
      ["--c-blue", "--c-orange", "--c-green", "--c-purple", "--c-sky", "--c-red"],
    ];
    for (const [kind, matrix] of [["full", null], ...Object.entries(VISION)] as [string, number[][] | null][]) {
      for (const stack of stacks) {
        stack.slice(1).forEach((name, i) => {
          const below = stack[i] as string;
          expect(distance(at(name), at(below), matrix), `${below} ${name} ${kind}`).toBeGreaterThanOrEqual(15);
        });
      }
    }
  });
});
