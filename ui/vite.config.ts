// Builds the page into crates/ui/dist, or into $NARTHEX_UI_OUT; serves it in front of a running server while working on it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const server = process.env["NARTHEX_URL"] ?? "http://127.0.0.1:9090";
const outDir = process.env["NARTHEX_UI_OUT"] ?? "../crates/ui/dist";
const csp = readFileSync(new URL("../crates/ui/csp.txt", import.meta.url), "utf8").trim();

/** Writes `<file>.gz` beside each file, which is what the server has of it and nearly every client takes. */
function precompress(): Plugin {
  return {
    name: "precompress",
    enforce: "post",
    apply: "build",
    // Of the files as written: the bundler still changes code after every plugin has seen it.
    writeBundle(options, bundle) {
      for (const fileName of Object.keys(bundle)) {
        const path = join(options.dir ?? outDir, fileName);
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  // Relative addresses: the page also works below a route prefix or behind a proxy that adds one.
  base: "./",
  plugins: [precompress()],
  build: {
    outDir,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { host: "127.0.0.1", proxy: { "/api": server } },
  preview: {
    host: "127.0.0.1",
    proxy: { "/api": server },
    headers: { "Content-Security-Policy": csp },
  },
});
