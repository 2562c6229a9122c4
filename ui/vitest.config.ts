// Unit tests of what needs no browser: formatting, parsing, requests, derivations.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "node",
    include: ["src/**/*.test.ts"],
    // Times are shown in the browser's zone; the tests pin one with a half-hour offset.
    env: { TZ: "Asia/Kolkata" },
  },
});
