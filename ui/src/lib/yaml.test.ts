// Parts of configuration lines.
import { expect, test } from "vitest";
import { partsOf } from "./yaml";

const told = (line: string): string => partsOf(line).filter(({ kind }) => kind !== "mark").map(({ kind, text }) => `${kind}:${text.trim()}`).join(" ");

test.each([
  ["global:", "key:global"],
  ["  scrape_interval: 15s", "key:scrape_interval number:15s"],
  ["- job_name: node # ours", "key:job_name plain:node comment:# ours"],
  ["  - - 'a#b'", "string:'a#b'"],
  ['  regex: "(.*):\\"x#y"  # z', 'key:regex string:"(.*):\\"x#y" comment:# z'],
  ["  url: http://host:9090/x#y", "key:url plain:http://host:9090/x#y"],
  ["# comment: here", "comment:# comment: here"],
  ["    honor_labels: true", "key:honor_labels number:true"],
  ["      - localhost:9090", "plain:localhost:9090"],
  ["", ""],
])("%s", (line, parts) => expect(told(line)).toBe(parts));

test("the parts of a line are the line", () => {
  for (const line of ["  - a: b # c", "\t- -", "::", '"unclosed: x', "a : b", "-", "- #x", "key:value"]) {
    expect(partsOf(line).map(({ text }) => text).join("")).toBe(line);
  }
});
