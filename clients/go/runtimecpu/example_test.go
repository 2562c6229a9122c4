// An example that compiles; what it would print depends on the machine.

package runtimecpu_test

import (
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"narthex.dev/go/runtimecpu"
)

func Example() {
	if _, err := runtimecpu.Apply(runtimecpu.Options{}); err != nil {
		log.Print(err) // limits stay as they are
	}
	prometheus.MustRegister(runtimecpu.NewCollector())
}
