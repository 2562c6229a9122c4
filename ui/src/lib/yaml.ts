// Tells the parts of YAML apart, line by line, for reading: keys, comments, values. It follows what servers print, not all
// of YAML; what it doesn't know stays plain. Invariant: the parts of a line are the line.

export type PartKind = "key" | "comment" | "mark" | "string" | "number" | "plain";

export interface Part {
  kind: PartKind;
  text: string;
}

const NUMBER = /^(?:-?\d+(?:\.\d+)?(?:[a-z]{1,2}\d*)*|true|false|null|~)$/;

function valueKind(text: string): PartKind {
  if (/^["']/.test(text)) return "string";
  return NUMBER.test(text) ? "number" : "plain";
}

/** Parts of one line. */
export function partsOf(line: string): Part[] {
  const parts: Part[] = [];
  const push = (kind: PartKind, text: string): void => {
    if (text !== "") parts.push({ kind, text });
  };
  const lead = /^\s*(?:- +)*(?:-$)?/.exec(line)?.[0] ?? "";
  push("mark", lead);
  let rest = line.slice(lead.length);
  if (rest.startsWith("#")) {
    push("comment", rest);
    return parts;
  }
  const key = /^("[^"]*"|'[^']*'|[^\s"'#:][^:#]*?)(\s*:)(?=\s|$)/.exec(rest);
  if (key !== null) {
    push("key", key[1] ?? "");
    push("mark", key[2] ?? "");
    rest = rest.slice(key[0].length);
  }
  const quoted = /^\s*(?:"(?:[^"\\]|\\.)*"|'[^']*')/.exec(rest)?.[0] ?? "";
  const comment = /\s#.*$/.exec(rest.slice(quoted.length));
  const end = comment === null ? rest.length : quoted.length + comment.index;
  push(valueKind(rest.slice(0, end).trim()), rest.slice(0, end));
  push("comment", rest.slice(end));
  return parts;
}
