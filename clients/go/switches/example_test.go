// Examples that run.

package switches_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"narthex.dev/go/switches"
)

func Example() {
	set := switches.NewSet()
	queries := switches.WrapCounter(set.Switch("db_queries"),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "db_queries_total", Help: "Queries."}))

	queries.Inc()
	set.Override(switches.Rule{Pattern: "db_*", State: switches.Off})
	queries.Inc() // costs one load and counts nothing
	set.Override(switches.Rule{Pattern: "db_*", State: switches.On})
	queries.Inc()

	fmt.Println(testutil.ToFloat64(queries))
	// Output: 2
}

// Whoever may change switches is the application's business.
func ExampleSet_Handler() {
	set := switches.NewSet()
	set.Switch("http_latency")
	handler := set.Handler(func(r *http.Request) error {
		if r.Header.Get("Authorization") != "Bearer secret" {
			return errors.New("not you")
		}
		return nil
	})

	r := httptest.NewRequest("PUT", "/switches", strings.NewReader("http_* = 1/100"))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Print(w.Code, " ", w.Body)

	r = httptest.NewRequest("PUT", "/switches", strings.NewReader("http_* = 1/100"))
	r.Header.Set("Authorization", "Bearer secret")
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 403 not you
	// 200 http_latency = 1/100
}
