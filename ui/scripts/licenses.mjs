// Writes THIRD_PARTY.txt: every npm package that is part of the built page, with its licence.
// What is bundled is asked of the bundler, not guessed from package.json. `--check` only compares.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const ui = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(ui, "THIRD_PARTY.txt");

/** Package directories below node_modules that any module of the build came from. */
async function bundledPackages() {
  const found = new Set();
  await build({
    root: ui,
    logLevel: "error",
    build: { write: false },
    plugins: [
      {
        name: "collect-packages",
        // Every loaded module, also style sheets: their code does not appear in a chunk's module list.
        transform(_code, id) {
          const match = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id);
          if (match !== null) found.add(match[1]);
        },
      },
    ],
  });
  return [...found].sort();
}

function describe(directory) {
  const { name, version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
  if (typeof license !== "string") throw new Error(`${name}: package.json names no licence`);
  const file = readdirSync(directory)
    .filter((entry) => /^(licen[cs]e|copying)/i.test(entry))
    .sort()[0];
  if (file === undefined) throw new Error(`${name}: no licence file`);
  const text = readFileSync(join(directory, file), "utf8").replace(/\r\n/g, "\n").trim();
  return { name, version, license, text };
}

const packages = (await bundledPackages()).map(describe).sort((a, b) => (a.name < b.name ? -1 : 1));
const rule = "=".repeat(80);
const body = packages.map(({ name, version, license, text }) => `${rule}\n${name} ${version}\nLicence: ${license}\n${rule}\n\n${text}\n`);
const output = `npm packages that are part of the embedded web page.\nWritten by \`npm run licenses\` in ui/.\n\n${body.join("\n")}`;

if (process.argv.includes("--check")) {
  if (!existsSync(target) || readFileSync(target, "utf8") !== output) {
    console.error("ui/THIRD_PARTY.txt is stale; run `npm run licenses` in ui/ and commit it.");
    process.exitCode = 1;
  }
} else {
  writeFileSync(target, output);
  console.log(packages.map(({ name, version, license }) => `${name} ${version} (${license})`).join("\n"));
}
