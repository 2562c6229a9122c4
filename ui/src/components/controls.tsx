// Small controls used by several views.
import type { ComponentChildren, ComponentProps } from "preact";
import { useId } from "preact/hooks";

/** One of a few choices, as a row of radio buttons. */
export function Choice<T extends string>(props: {
  label: string;
  options: readonly (readonly [T, string])[];
  value: T;
  onChange: (value: T) => void;
}) {
  const name = useId();
  return (
    <fieldset class="choice">
      <legend class="sr-only">{props.label}</legend>
      {props.options.map(([value, text]) => (
        <label key={value} class="choice-option">
          <input type="radio" name={name} checked={value === props.value} onChange={() => props.onChange(value)} />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  );
}

export type Tone = "info" | "warn" | "error";

const ICONS: Readonly<Record<Tone, string>> = {
  info: "M8 7.2v4M8 4.7v.1",
  warn: "M8 5v3.6M8 11.2v.1",
  error: "M5.600 5.600l4.800 4.800M10.400 5.600l-4.800 4.800",
};

export function Icon({ path }: { path: string }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

/** A button: `look` is what sets it apart from others, `icon` stands in the place of words. */
export function Button({ look = "", icon, children, ...rest }: { look?: string; icon?: string } & ComponentProps<"button">) {
  return (
    <button type="button" class={`button ${look}`.trim()} {...rest}>
      {icon === undefined ? children : <Icon path={icon} />}
    </button>
  );
}

/** A message in the flow of the page; errors are announced. */
export function Notice(props: { tone: Tone; title: string; children?: ComponentChildren }) {
  return (
    <div class={`notice notice-${props.tone}`} role={props.tone === "error" ? "alert" : "status"}>
      <svg class="icon notice-icon" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6.6" />
        <path d={ICONS[props.tone]} />
      </svg>
      <div class="notice-text">
        <p class="notice-title">{props.title}</p>
        {props.children}
      </div>
    </div>
  );
}

/** A bar for a share of something that is also told in words. */
export function Meter({ share }: { share: number }) {
  return (
    <span class="bar" aria-hidden="true">
      <span style={{ width: `${share > 0 ? Math.min(100, Math.max(2, share * 100)) : 0}%` }} />
    </span>
  );
}
