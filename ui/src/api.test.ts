// Envelopes, faults, escaping, and what goes over the wire.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ApiError, STATS, decode, labelValues, matcher, parseNumber, query, queryRange, seriesName, serverNow } from "./api";

describe("decode", () => {
  test("success with warnings", () => {
    const text = '{"status":"success","data":[1],"warnings":["w"],"infos":["i"]}';
    expect(decode(200, text)).toEqual({ data: [1], warnings: ["w"], infos: ["i"] });
    expect(decode(200, '{"status":"success","data":null}')).toEqual({ data: null, warnings: [], infos: [] });
  });

  const fault = (status: number, text: string): [string, string, boolean] => {
    try {
      decode(status, text);
    } catch (error) {
      if (error instanceof ApiError) return [error.fault, error.message, error.passing];
    }
    throw new Error("no ApiError");
  };

  test.each([
    [400, '{"status":"error","errorType":"bad_data","error":"1:5: parse error: x"}', ["bad_data", "1:5: parse error: x", false]],
    [503, '{"status":"error","errorType":"timeout","error":"query timed out"}', ["timeout", "query timed out", false]],
    [503, '{"status":"error","errorType":"unavailable","error":"replaying"}', ["starting", "replaying", true]],
    [503, "Service Unavailable", ["starting", "Service Unavailable", true]],
    [503, "", ["starting", "Service Unavailable", true]],
    [502, "<html>", ["unreachable", "a proxy answers 502", true]],
    [404, "404 page not found\n", ["missing", "this server has no such endpoint", false]],
    [404, '{"status":"error","errorType":"not_found","error":"no such pool"}', ["not_found", "no such pool", false]],
    [405, "no", ["protocol", "unexpected answer (HTTP 405): no", true]],
    [200, "<html>", ["protocol", "unexpected answer (HTTP 200)", true]],
    [200, "null", ["protocol", "unexpected answer (HTTP 200)", true]],
  ])("%d %s", (status, text, expected) => expect(fault(status, text)).toEqual(expected));
});

describe("requests", () => {
  const answer = (body: string, headers: Record<string, string> = {}) => new Response(body, { headers });
  const fetched = vi.fn<(url: URL, init: RequestInit) => Promise<Response>>();

  beforeEach(() => {
    vi.stubGlobal("document", { baseURI: "http://host:9090/prefix/query?g0.expr=up" });
    vi.stubGlobal("fetch", fetched);
    fetched.mockReset();
    fetched.mockImplementation(async () => answer('{"status":"success","data":{}}'));
  });
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });
  const last = (): { url: string; init: RequestInit } => {
    const call = fetched.mock.calls.at(-1);
    if (call === undefined) throw new Error("nothing was fetched");
    return { url: call[0].href, init: call[1] };
  };

  test("are relative to the page, without its parameters", async () => {
    await query("up", 12.5);
    expect(last().url).toBe("http://host:9090/prefix/api/v1/query?query=up&time=12.500");
    await queryRange("a b", 0, 10, 5);
    expect(last().url).toBe("http://host:9090/prefix/api/v1/query_range?query=a+b&start=0.000&end=10.000&step=5");
    await labelValues("a/ü");
    expect(last().url).toBe("http://host:9090/prefix/api/v1/label/a%2F%C3%BC/values");
    await labelValues("job", undefined, "up");
    expect(last().url).toBe("http://host:9090/prefix/api/v1/label/job/values?match%5B%5D=up");
    await query("up", undefined, undefined, STATS);
    expect(last().url).toBe("http://host:9090/prefix/api/v1/query?query=up&stats=true");
  });

  test("go as a form when long", async () => {
    await query("x".repeat(3000));
    expect(last().url).toBe("http://host:9090/prefix/api/v1/query");
    expect(last().init.method).toBe("POST");
    expect((last().init.body as URLSearchParams).get("query")).toHaveLength(3000);
  });

  test("without an answer are the server's fault", async () => {
    fetched.mockRejectedValue(new TypeError("Failed to fetch"));
    await expect(query("up")).rejects.toMatchObject({ fault: "unreachable", message: "host:9090: no connection", passing: true });
  });

  test("that were called off stay called off", async () => {
    const abort = new AbortController();
    abort.abort();
    fetched.mockRejectedValue(abort.signal.reason);
    await expect(query("up", undefined, abort.signal)).rejects.toMatchObject({ name: "AbortError" });
  });

  test("tell the server's clock when it really differs", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2026, 0, 1) });
    const date = (skewMs: number): Record<string, string> => ({ date: new Date(Date.now() + skewMs).toUTCString() });
    fetched.mockResolvedValue(answer('{"status":"success"}', date(90_000)));
    await query("up");
    expect(serverNow() - Date.now() / 1000).toBeCloseTo(90.5, 1);
    fetched.mockResolvedValue(answer('{"status":"success"}', date(-1000)));
    await query("up");
    expect(serverNow()).toBeCloseTo(Date.now() / 1000, 3);
  });
});

test("matchers escape what PromQL would read otherwise", () => {
  expect(matcher("a", 'x"y\\z\n')).toBe('a="x\\"y\\\\z\\n"');
  expect(matcher("a", "b.*", "=~")).toBe('a=~"b.*"');
});

test("series names", () => {
  expect(seriesName({ __name__: "up", job: "node" })).toBe('up{job="node"}');
  expect(seriesName({ __name__: "up" })).toBe("up");
  expect(seriesName({ job: "a" })).toBe('{job="a"}');
  expect(seriesName({})).toBe("{}");
});

test("numbers", () => {
  expect([parseNumber("+Inf"), parseNumber("-Inf"), parseNumber("1e3")]).toEqual([Infinity, -Infinity, 1000]);
  expect(parseNumber("NaN")).toBeNaN();
});
