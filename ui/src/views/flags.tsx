// The flags the server runs with.
import { flags } from "../api";
import { Loaded } from "../components/loaded";
import { Filter, Page } from "../components/page";
import { isSet } from "../lib/info";
import { usePoll } from "../lib/poll";
import { route } from "../lib/router";
import { useStore } from "../lib/store";
import { hasWords } from "../lib/targets";
import { formatCount } from "../lib/units";

export default function FlagsView() {
  const { params } = useStore(route);
  const search = params["search"] ?? "";
  const polled = usePoll("flags", flags, 0);
  return (
    <Page title="Flags">
      <Loaded polled={polled} what="its flags">
        {({ data }) => {
          const all = Object.entries(data).sort(([a], [b]) => a.localeCompare(b));
          const rows = all.filter(([name, value]) => hasWords([`--${name}=${value}`], search));
          return (
            <>
              <div class="toolbar">
                <Filter label="Filter flags" placeholder="Filter by name or value" />
                <p class="muted count" aria-live="polite">
                  {formatCount(rows.length)} of {formatCount(all.length)}
                </p>
              </div>
              {rows.length === 0 && <p class="awaiting">{all.length === 0 ? "The server names no flags." : "No flag matches the filter."}</p>}
              {rows.length > 0 && (
                <table class="table flags">
                  <thead>
                    <tr>
                      <th>Flag</th>
                      <th>Value</th>
                    </tr>
                  </thead>
                  <tbody>
                    {rows.map(([name, value]) => (
                      <tr key={name}>
                        <th scope="row">--{name}</th>
                        <td class={isSet(value) ? undefined : "muted"}>{value === "" ? "(empty)" : value}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              )}
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}
