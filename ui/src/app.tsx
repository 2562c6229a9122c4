// The frame around every page: name, navigation, connection, controls.
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { buildInfo, walReplay } from "./api";
import { Button, Notice } from "./components/controls";
import { formatAddress } from "./lib/address";
import { connection, paused, usePoll } from "./lib/poll";
import { go, route } from "./lib/router";
import { replayed } from "./lib/replay";
import { useStore } from "./lib/store";
import { theme, type Theme } from "./lib/theme";
import { formatClock } from "./lib/time";
import { EMPTY_PANEL, writePanels } from "./query/state";
import { SECTIONS, VIEWS, viewAt, type View } from "./views";

export function App() {
  const { path } = useStore(route);
  const state = useStore(connection);
  const view = viewAt(path);
  useEffect(() => {
    document.title = view === null || view.path === "/" ? "Narthex" : `${view.title} · Narthex`;
  }, [view]);
  const stale = state.state === "starting" || state.state === "unreachable";
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>
        Skip to content
      </a>
      <Header path={path} />
      <ConnectionBanner />
      <main id="main" tabIndex={-1} class={stale ? "stale" : undefined}>
        {view === null ? (
          <Notice tone="info" title="There is no such page">
            <p>
              <a href={formatAddress("/")}>Back to the overview</a>
            </p>
          </Notice>
        ) : (
          <>
            <Siblings view={view} />
            <ViewOf key={view.path} view={view} />
          </>
        )}
      </main>
      <Footer />
    </>
  );
}

/** The other views of the same section. */
function Siblings({ view }: { view: View }) {
  const all = VIEWS.filter(({ section }) => section === view.section);
  if (all.length < 2) return null;
  return (
    <nav class="siblings" aria-label={view.section}>
      {all.map((one) => (
        <a key={one.path} href={formatAddress(one.path)} aria-current={one === view ? "page" : undefined}>
          {one.title}
        </a>
      ))}
    </nav>
  );
}

/** Views that were fetched: coming back to one shows it at once. */
const fetched = new Map<View, ComponentType>();

function ViewOf({ view }: { view: View }) {
  const [component, setComponent] = useState<{ is: ComponentType | null }>({ is: view.present ?? fetched.get(view) ?? null });
  const [failed, setFailed] = useState<string | null>(null);
  useEffect(() => {
    if (component.is !== null) return;
    view.fetch().then(
      (module) => {
        fetched.set(view, module.default);
        setComponent({ is: module.default });
      },
      (error: unknown) => setFailed(error instanceof Error ? error.message : String(error)),
    );
  }, []);
  if (failed !== null) {
    return (
      <Notice tone="error" title="This part of the page could not be loaded">
        <p>{failed}. After an update of the server, loading the page again helps.</p>
      </Notice>
    );
  }
  return component.is === null ? null : <component.is />;
}

function Logo() {
  return (
    <svg class="logo" viewBox="0 0 24 24" aria-hidden="true">
      <path class="logo-stalk" d="M11 22.500 14 10M12.200 17.500c-2.200-.3-3.800-1.500-4.700-3.500" />
      <path class="logo-ember" d="M14.600 1.500c3.400 2.700 3.600 6.500-.3 9-3.300-1.600-3.600-4.900.3-9Z" />
    </svg>
  );
}

function Header({ path }: { path: string }) {
  return (
    <header class="top">
      <a class="brand" href={formatAddress("/")} aria-label="Narthex, overview">
        <Logo />
        <span>Narthex</span>
      </a>
      <nav aria-label="Pages">
        {SECTIONS.map((view) => (
          <a key={view.path} href={formatAddress(view.path)} aria-current={view.section === viewAt(path)?.section ? "true" : undefined}>
            {view.section}
          </a>
        ))}
      </nav>
      <div class="top-right">
        {path !== "/query" && <QuickQuery />}
        {viewAt(path)?.live === true && <LiveButton />}
        <ThemeButton />
      </div>
    </header>
  );
}

/** Asks from any page; `/` jumps here as in many tools. */
function QuickQuery() {
  const input = useRef<HTMLInputElement>(null);
  const [expr, setExpr] = useState("");
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const at = event.target as HTMLElement;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName)) return;
      // The editor lives in a shadow root, which keeps its own focus to itself.
      if (at.shadowRoot !== null) return;
      event.preventDefault();
      input.current?.focus();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return (
    <form
      class="quick"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        go("/query", writePanels([{ ...EMPTY_PANEL, expr: expr.trim() }]));
      }}
    >
      <input
        ref={input}
        class="input"
        aria-label="Quick query"
        placeholder="Query"
        spellcheck={false}
        autocomplete="off"
        value={expr}
        onInput={(event) => setExpr(event.currentTarget.value)}
      />
      <kbd aria-hidden="true">/</kbd>
    </form>
  );
}

function LiveButton() {
  const held = useStore(paused);
  const state = useStore(connection);
  const text = held ? "Paused" : state.state === "ok" ? "Live" : "Waiting";
  return (
    <Button
      look={`live live-${held ? "paused" : state.state}`}
      aria-pressed={held}
      title={held ? "Resume updates" : "Pause updates"}
      onClick={() => paused.set(!held)}
    >
      <span class="dot" aria-hidden="true" />
      {text}
    </Button>
  );
}

const NEXT_THEME: Readonly<Record<Theme, Theme>> = { auto: "light", light: "dark", dark: "auto" };
const THEME_ICON: Readonly<Record<Theme, string>> = {
  auto: "M8 2a6 6 0 1 0 0 12ZM8 2a6 6 0 0 1 0 12",
  light: "M8 5.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600ZM8 1.500v1.200M8 13.300v1.200M1.500 8h1.200M13.300 8h1.200M3.400 3.400l.8.8M11.800 11.800l.8.8M3.400 12.600l.8-.8M11.800 4.200l.8-.8",
  dark: "M13.500 9.500A5.800 5.800 0 0 1 6.500 2.500a5.800 5.800 0 1 0 7 7Z",
};

function ThemeButton() {
  const chosen = useStore(theme);
  const next = NEXT_THEME[chosen];
  const name = chosen === "auto" ? "as the system" : chosen;
  return (
    <Button
      look={`icon-button theme-${chosen}`}
      aria-label={`Colours: ${name}. Change to ${next === "auto" ? "as the system" : next}`}
      title={`Colours: ${name}`}
      icon={THEME_ICON[chosen]}
      onClick={() => theme.set(next)}
    />
  );
}

/** Says what is wrong with the server and that the page keeps trying. */
function ConnectionBanner() {
  const state = useStore(connection);
  if (state.state !== "starting" && state.state !== "unreachable") return null;
  const starting = state.state === "starting";
  return (
    <div class="banner">
      <Notice tone={starting ? "info" : "warn"} title={starting ? "The server is starting" : "The server doesn’t answer"}>
        <p>
          {starting ? `It isn’t ready yet: ${state.message}.` : `${state.message}.`} Since {formatClock(state.since / 1000)}; trying
          again every 3 s. {starting ? "" : "What is shown below is older."}
        </p>
        {starting && <ReplayProgress />}
      </Notice>
    </div>
  );
}

/** How much of its log a starting server has read. */
function ReplayProgress() {
  const [progress, setProgress] = useState<{ read: number; files: number } | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    // Not a poll: an answer to this says nothing about the server being ready.
    const look = (): void => {
      walReplay(abort.signal).then(({ data }) => setProgress(replayed(data)), () => setProgress(null));
    };
    look();
    const timer = window.setInterval(look, 1_000);
    return () => {
      abort.abort();
      window.clearInterval(timer);
    };
  }, []);
  if (progress === null) return null;
  const { read, files } = progress;
  return (
    <p>
      Replaying the log: file {read} of {files}. <progress value={read} max={files} aria-label="Replay of the log" />
    </p>
  );
}

function Footer() {
  const { data } = usePoll("buildinfo", buildInfo, 0);
  if (data === null) return <footer class="bottom" />;
  const { version, applicationVersion, revision } = data.data;
  return (
    <footer class="bottom">
      Narthex {applicationVersion ?? version}
      {revision !== undefined && revision !== "" && <span> ({revision.slice(0, 10)})</span>} · times in{" "}
      {Intl.DateTimeFormat().resolvedOptions().timeZone}
    </footer>
  );
}
