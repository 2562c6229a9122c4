// Builds the page into a temporary directory and fails when the committed build differs from it.
// Packed files are compared unpacked: zlib versions differ between Node releases, what they unpack to must not.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const ui = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(ui, "../crates/ui/dist");
const fresh = mkdtempSync(join(tmpdir(), "narthex-ui-"));

/** File contents by path from `root`. */
function contents(root) {
  const files = new Map();
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = readFileSync(path);
    files.set(path.slice(root.length + 1), path.endsWith(".gz") ? gunzipSync(bytes) : bytes);
  }
  return files;
}

try {
  execFileSync("npm", ["run", "--silent", "build"], {
    cwd: ui,
    env: { ...process.env, NARTHEX_UI_OUT: fresh },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [want, have] = [contents(fresh), contents(dist)];
  const wrong = [];
  for (const [path, bytes] of want) {
    if (!have.has(path)) wrong.push(`missing: ${path}`);
    else if (!have.get(path).equals(bytes)) wrong.push(`differs: ${path}`);
  }
  for (const path of have.keys()) if (!want.has(path)) wrong.push(`left over: ${path}`);
  if (wrong.length > 0) {
    console.error(`crates/ui/dist is stale; run \`npm run build\` in ui/ and commit it:\n  ${wrong.join("\n  ")}`);
    process.exitCode = 1;
  } else {
    console.log(`crates/ui/dist is the build of this source: ${want.size} files.`);
  }
} finally {
  rmSync(fresh, { recursive: true });
}
