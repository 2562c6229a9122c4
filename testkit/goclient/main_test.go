package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// TestEveryCallCanFail shows that a server which knows nothing, and one which answers nonsense, fail every call.
func TestEveryCallCanFail(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"not found": http.NotFound,
		"empty": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(`{"status":"success","data":null}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			client, err := api.NewClient(api.Config{Address: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			prom := v1.NewAPI(client)
			if failed, all := run(prom, "up"), len(calls(prom, "up")); failed != all {
				t.Errorf("%d of %d calls failed", failed, all)
			}
		})
	}
}
