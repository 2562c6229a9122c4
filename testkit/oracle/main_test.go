package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestAnswers shows each kind of request with the answer that clients rely on, byte for byte.
func TestAnswers(t *testing.T) {
	load := `"load": "load 15s\n  a{x=\"1\"} 0+1x10\n  a{x=\"2\"} 0 NaN Inf"`
	for _, c := range []struct{ name, request, want string }{
		{"print", `{"expr": "sum(up)by(job)"}`, `{"ok":true,"string":"sum by (job) (up)","type":"vector"}`},
		{"experimental", `{"expr": "limitk(2, up)"}`, `{"ok":true,"string":"limitk(2, up)","type":"vector"}`},
		{"error", `{"id": 7, "expr": "sum("}`, `{"id":7,"ok":false,"error":"1:5: parse error: unclosed left parenthesis"}`},
		{
			"instant", `{"expr": "a", ` + load + `, "time_ms": 30000}`,
			`{"ok":true,"type":"vector","result":[` +
				`{"metric":{"__name__":"a","x":"1"},"value":[30,"2"]},` +
				`{"metric":{"__name__":"a","x":"2"},"value":[30,"+Inf"]}]}`,
		},
		{
			"sorted", `{"expr": "(sort_desc(a))", ` + load + `, "time_ms": 30000}`,
			`{"ok":true,"type":"vector","result":[` +
				`{"metric":{"__name__":"a","x":"2"},"value":[30,"+Inf"]},` +
				`{"metric":{"__name__":"a","x":"1"},"value":[30,"2"]}]}`,
		},
		{
			"range", `{"expr": "rate(a{x=\"1\"}[1m])", ` + load + `, "start_ms": 60000, "end_ms": 90000, "step_ms": 15000}`,
			`{"ok":true,"type":"matrix","result":[{"metric":{"x":"1"},"values":[` +
				`[60,"0.06666666666666665"],[75,"0.06666666666666665"],[90,"0.06666666666666665"]]}],` +
				`"infos":["PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"a\" (1:6)"]}`,
		},
		{
			"exact", `{"expr": "a + 0.1", "exact": true, ` + load + `, "time_ms": 15000}`,
			`{"ok":true,"type":"vector","result":[` +
				`{"labels":{"x":"1"},"points":[{"ms":15000,"text":"1.1"}]},` +
				`{"labels":{"x":"2"},"points":[{"ms":15000,"text":"NaN"}]}]}`,
		},
		{
			"features", `{"expr": "sum by (__name__) (rate(a{x=\"1\"}[1m]))", "features": {"delayed_name_removal": true}, ` +
				load + `, "time_ms": 60000}`,
			`{"metric":{},"value":[60,"0.06666666666666665"]}`,
		},
		{
			"histogram", `{"expr": "h", "exact": true, "load": "load 15s\n  h {{count:3 sum:2.5 buckets:[1 2]}}", "time_ms": 0}`,
			`"points":[{"ms":0,"text":"{{count:3 sum:2.5 buckets:[1 2]}}"}]`,
		},
		{"numbers", `{"numbers": {"function": "exp", "args": ["3ff0000000000000"]}}`, `{"ok":true,"result":["4005bf0a8b145769"]}`},
		{
			"regexp", `{"regexp": {"pattern": "a(.*)", "form": "anchored", "texts": ["ab", "b"], "template": "$1"}}`,
			`{"ok":true,"result":{"matches":[true,false],"expanded":["b",null]}}`,
		},
		{
			"matcher", `{"regexp": {"pattern": "a(", "form": "matcher"}}`,
			`{"ok":false,"error":"error parsing regexp: missing closing ): ` + "`a(`" + `"}`,
		},
		{
			"relabel", `{"relabel": {"rules": "- action: labelmap\n  regex: (.)_.*", "labels": {"a_b": "c"}}}`,
			`{"ok":true,"result":{"keep":true,"labels":{"a":"c","a_b":"c"}}}`,
		},
		{"bad load", `{"expr": "a", "load": "load x"}`, `"ok":false,"error":`},
		{"bad request", `{`, `"error":"bad request: `},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := serve(strings.NewReader(c.request+"\n"), &out); err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(out.String()); !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
