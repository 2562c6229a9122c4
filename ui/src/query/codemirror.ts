// The PromQL editor: CodeMirror with Prometheus' grammar, completion and linter, in a chunk of its own.
// Invariant: it lives in a shadow root, where its style sheets are objects; in the page itself they would be inline
// styles, which the page's policy forbids. Prometheus' package is taken in parts: its whole brings an HTTP client with a
// cache, and this page has both.
import {
  acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, selectedCompletion,
  type Completion, type CompletionContext, type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, insertNewlineAndIndent } from "@codemirror/commands";
import { HighlightStyle, LRLanguage, LanguageSupport, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { forEachDiagnostic, forceLinting, lintKeymap, linter, type Diagnostic } from "@codemirror/lint";
import { EditorState, Prec, StateEffect, type Extension } from "@codemirror/state";
import { EditorView, drawSelection, keymap, placeholder, type ViewUpdate } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { HybridComplete } from "@prometheus-io/codemirror-promql/dist/esm/complete/hybrid";
import { Parser } from "@prometheus-io/codemirror-promql/dist/esm/parser/parser";
import { parser } from "@prometheus-io/lezer-promql";
import type { Remark } from "../lib/parse_error";
import { promqlClient } from "./promql_client";

export interface EditorOptions {
  text: string;
  label: string;
  onInput: (text: string) => void;
  onRun: (text: string) => void;
  /** What the linter finds wrong with the text, or null. */
  onProblem: (message: string | null) => void;
  /** Earlier queries, newest first. */
  history: () => readonly string[];
}

export interface EditorHandle {
  setText: (text: string) => void;
  /** Underlines what the server remarked on, until the text changes. */
  setRemarks: (remarks: readonly Remark[]) => void;
  /** Puts a name in place of the selection, apart from the words beside it. */
  insert: (text: string) => void;
  focus: () => void;
  destroy: () => void;
}

const SERVER = "server";
const OFFERED_QUERIES = 30;
const SHORT_QUERY = 80;

const language = LRLanguage.define({
  parser: parser.configure({ top: "PromQL" }),
  languageData: { closeBrackets: { brackets: ["(", "[", "{", "'", '"', "`"] }, commentTokens: { line: "#" } },
});
const completer = new HybridComplete(promqlClient, 10_000);

/** Prometheus' completion; where a query begins, also the queries asked before. */
async function complete(context: CompletionContext, past: readonly string[]): Promise<CompletionResult | null> {
  const found = await completer.promQL(context);
  const from = found?.from ?? context.pos;
  if (context.state.sliceDoc(0, from).trim() !== "") return found;
  const options = past.slice(0, OFFERED_QUERIES).map((query): Completion => {
    const short = query.length <= SHORT_QUERY ? query : `${query.slice(0, SHORT_QUERY - 1)}…`;
    return { label: short, apply: query, detail: "asked before", boost: -50, ...(short === query ? {} : { info: query }) };
  });
  if (found === null && options.length === 0) return null;
  return { from, options: [...(found?.options ?? []), ...options], validFor: /^[a-zA-Z0-9_:]*$/ };
}

/** Enter on a word that already is the chosen completion means the query, not the word. */
function alreadyTyped(view: EditorView): boolean {
  const chosen = selectedCompletion(view.state);
  if (chosen === null) return false;
  const { head } = view.state.selection.main;
  return view.state.sliceDoc(Math.max(0, head - chosen.label.length), head) === chosen.label;
}

function keys(options: EditorOptions): Extension {
  const run = (view: EditorView): boolean => {
    if (!alreadyTyped(view) && acceptCompletion(view)) return true;
    closeCompletion(view);
    options.onRun(view.state.doc.toString());
    return true;
  };
  return [
    Prec.highest(keymap.of([{ key: "Enter", run }, { key: "Shift-Enter", run: insertNewlineAndIndent }])),
    // Without a completion, Tab leaves the editor as it leaves any field.
    keymap.of([{ key: "Tab", run: acceptCompletion }]),
    keymap.of([...closeBracketsKeymap, ...defaultKeymap.filter((one) => one.key !== "Mod-/"), ...historyKeymap, ...lintKeymap]),
  ];
}

/** The server has said something: without a change of the text the linter would not look again. */
const answered = StateEffect.define<null>();

/** The linter knows the grammar and the types; the server knows everything, but only when asked. */
function problems(remarks: () => readonly Remark[]): Extension {
  const lint = (view: EditorView): Diagnostic[] => {
    const length = view.state.doc.length;
    if (view.state.doc.toString().trim() === "") return [];
    const local = new Parser(view.state);
    local.analyze();
    const found = local.getDiagnostics().filter((one) => one.from <= length);
    const said = remarks();
    if (said.length === 0) return [...found];
    return said.map(({ severity, message, start, end }) => {
      const from = Math.min(start, Math.max(0, length - 1));
      return { severity, message, source: SERVER, from, to: Math.min(Math.max(end, from + 1), length) };
    });
  };
  const needsRefresh = (update: ViewUpdate): boolean =>
    update.transactions.some(({ effects }) => effects.some((effect) => effect.is(answered)));
  return linter(lint, { delay: 400, needsRefresh });
}

const look = EditorView.theme({
  "&": {
    minHeight: "38px",
    maxHeight: "40vh",
    color: "var(--text)",
    backgroundColor: "var(--surface)",
    border: "1px solid var(--line-strong)",
    borderRadius: "5px",
    fontSize: "var(--editor-size)",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--text)" },
  ".cm-line": { padding: "0 11px" },
  ".cm-placeholder": { color: "var(--text-muted)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "color-mix(in srgb, var(--accent) 26%, transparent)",
  },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "color-mix(in srgb, var(--accent) 24%, transparent)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "color-mix(in srgb, var(--bad) 24%, transparent)" },
  // The stock underlines are images inside the style sheet, which the policy forbids.
  ".cm-lintRange": { backgroundImage: "none", paddingBottom: "0", textDecoration: "underline wavy var(--bad) 1px", textUnderlineOffset: "4px", textDecorationSkipInk: "none" },
  ".cm-lintRange-active": { backgroundColor: "var(--bad-ground)" },
  ".cm-lintRange-warning": { textDecorationColor: "var(--warn)" },
  ".cm-lintRange-info": { textDecorationColor: "var(--accent)" },
  ".cm-lintPoint::after": { borderBottomColor: "var(--bad)" },
  ".cm-tooltip": {
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
    backgroundColor: "var(--surface)",
    color: "var(--text)",
    boxShadow: "0 6px 20px rgb(0 0 0 / 16%)",
    overflow: "hidden",
  },
  ".cm-diagnostic": { padding: "6px 10px", borderLeft: "3px solid var(--bad)", fontFamily: "var(--sans)", fontSize: "13px" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--warn)" },
  ".cm-diagnostic-info": { borderLeftColor: "var(--accent)" },
  ".cm-diagnosticSource": { display: "none" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px", maxHeight: "17em", padding: "4px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { display: "flex", alignItems: "baseline", padding: "3px 8px", borderRadius: "4px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--accent-text)" },
  ".cm-completionLabel": { flex: "1", overflow: "hidden", textOverflow: "ellipsis" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-completionDetail": { marginLeft: "18px", fontFamily: "var(--sans)", fontSize: "12px", fontStyle: "normal", color: "var(--text-muted)" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-tooltip.cm-completionInfo": { maxWidth: "340px", padding: "6px 10px", fontSize: "13px", fontFamily: "var(--sans)" },
});

const colors = HighlightStyle.define([
  { tag: tags.labelName, color: "var(--syn-label)" },
  { tag: tags.string, color: "var(--syn-string)" },
  { tag: tags.number, color: "var(--syn-number)" },
  { tag: [tags.function(tags.variableName), tags.operatorKeyword], color: "var(--syn-function)" },
  { tag: [tags.modifier, tags.logicOperator], color: "var(--syn-keyword)" },
  { tag: tags.comment, color: "var(--text-muted)", fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

/** Puts an editor into `place`. */
export function mountEditor(place: HTMLElement, options: EditorOptions): EditorHandle {
  const box = document.createElement("div");
  const root = box.attachShadow({ mode: "open" });
  place.append(box);
  let remarks: readonly Remark[] = [];
  let silent = false;

  const watch = EditorView.updateListener.of((update) => {
    if (update.docChanged) {
      remarks = [];
      if (!silent) options.onInput(update.state.doc.toString());
    }
    let message: string | null = null;
    forEachDiagnostic(update.state, (one) => {
      if (one.source !== SERVER) message ??= one.message;
    });
    options.onProblem(message);
  });
  const state = EditorState.create({
    doc: options.text,
    selection: { anchor: options.text.length },
    extensions: [
      keys(options),
      history(),
      drawSelection(),
      bracketMatching(),
      closeBrackets(),
      autocompletion({ icons: false, defaultKeymap: true, override: [(context) => complete(context, options.history())] }),
      new LanguageSupport(language),
      problems(() => remarks),
      syntaxHighlighting(colors),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": options.label, autocapitalize: "off", autocorrect: "off", spellcheck: "false" }),
      placeholder("PromQL expression"),
      look,
      watch,
    ],
  });
  const view = new EditorView({ state, root, parent: root });

  return {
    setText(text) {
      if (text === view.state.doc.toString()) return;
      silent = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: text.length } });
      silent = false;
    },
    setRemarks(next) {
      if (remarks.length + next.length === 0) return;
      remarks = next;
      view.dispatch({ effects: answered.of(null) });
      forceLinting(view);
    },
    insert(text) {
      const { from, to } = view.state.selection.main;
      const before = /[\w:]$/.test(view.state.sliceDoc(Math.max(0, from - 1), from)) ? " " : "";
      const after = /^[\w:]/.test(view.state.sliceDoc(to, to + 1)) ? " " : "";
      view.dispatch(view.state.replaceSelection(before + text + after));
      view.focus();
    },
    focus: () => view.focus(),
    destroy() {
      view.destroy();
      box.remove();
    },
  };
}
