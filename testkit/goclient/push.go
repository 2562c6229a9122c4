package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"
	"github.com/prometheus/common/expfmt"
)

// pushAll pushes metrics of every type to a gateway in every way the client has: replaced, added, as messages and as
// text, with labels that have to be escaped, and deleted.
func pushAll(gateway string) error {
	registry := prometheus.NewRegistry()
	register(registry)
	text := expfmt.NewFormat(expfmt.TypeTextPlain)
	calls := []struct {
		name string
		do   func() error
	}{
		{"push", push.New(gateway, "go").Gatherer(registry).Push},
		{"push again", push.New(gateway, "go").Gatherer(registry).Push},
		{"add", push.New(gateway, "added").Gatherer(registry).Grouping("zone", "a").Add},
		{"text", push.New(gateway, "text").Format(text).Gatherer(registry).Push},
		{"slash", push.New(gateway, "a/b").Grouping("dir", "/var/tmp").Grouping("empty", "").Gatherer(registry).Push},
		{"to be deleted", push.New(gateway, "gone").Gatherer(registry).Push},
		{"delete", push.New(gateway, "gone").Delete},
	}
	for _, call := range calls {
		if err := call.do(); err != nil {
			return fmt.Errorf("%s: %w", call.name, err)
		}
		fmt.Println("ok", call.name)
	}
	return nil
}
