// A value that components can watch. Invariant: watchers run only when the value is replaced by a different one.
import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  /** Runs `watcher` after each change; returns the function that stops it. */
  watch(watcher: () => void): () => void;
}

export function createStore<T>(initial: T): Store<T> {
  let current = initial;
  const watchers = new Set<() => void>();
  return {
    get: () => current,
    set(value) {
      if (Object.is(value, current)) return;
      current = value;
      for (const watcher of [...watchers]) watcher();
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

/** A store whose value outlives the page as text, where the browser allows it; `read` is given null when there is none. */
export function createKept<T>(key: string, read: (text: string | null) => T, write: (value: T) => string): Store<T> {
  let text: string | null = null;
  try {
    text = localStorage.getItem(key);
  } catch {
    // Private windows may refuse storage: the value then lasts as long as the page.
  }
  const store = createStore(read(text));
  store.watch(() => {
    try {
      localStorage.setItem(key, write(store.get()));
    } catch {
      // As above.
    }
  });
  return store;
}

export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(store.get());
  useEffect(() => {
    // It may have changed between the first look and this effect.
    setValue(() => store.get());
    return store.watch(() => setValue(() => store.get()));
  }, [store]);
  return value;
}
