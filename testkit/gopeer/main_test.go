package main

import "testing"

func TestProxyOf(t *testing.T) {
	q := proxyQuestion{HTTP: "proxy:3128", NoProxy: "a.example"}
	for target, want := range map[string]string{
		"http://b.example/":   "http://proxy:3128",
		"http://x.a.example/": "",
		"http://127.0.0.1/":   "",
		"https://b.example/":  "",
	} {
		q.URL = target
		if got := proxyOf(q); got.Proxy != want || got.Error != "" {
			t.Errorf("%s: got %+v, want %q", target, got, want)
		}
	}
}
