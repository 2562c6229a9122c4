package main

import (
	"path/filepath"
	"testing"
)

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

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	if err := certificates(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := poolOf(filepath.Join(dir, "self.pem")); err != nil {
		t.Error(err)
	}
	if _, err := poolOf(filepath.Join(dir, "self.key")); err == nil {
		t.Error("a key is no certificate")
	}
	if version, err := versionOf("1.2"); err != nil || version == 0 {
		t.Error(version, err)
	}
}

func TestChains(t *testing.T) {
	for _, one := range chainCases() {
		made, err := one.make()
		if err != nil {
			t.Fatal(one.name, err)
		}
		made.judge()
		if made.OK != (made.Kind == "") || made.Kind == "malformed" {
			t.Errorf("%s: %+v", one.name, made.Error)
		}
	}
}
