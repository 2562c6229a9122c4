package main

import (
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"

	// The mechanisms of discovery whose configuration can be asked about.
	_ "github.com/prometheus/prometheus/discovery/dns"
	_ "github.com/prometheus/prometheus/discovery/file"
	_ "github.com/prometheus/prometheus/discovery/http"
)

// configRequest asks whether a configuration file is valid, and what Prometheus would show of it.
type configRequest struct {
	Path string `json:"path"`
}

func (req configRequest) answer() (any, error) {
	loaded, err := config.LoadFile(req.Path, false, promslog.NewNopLogger())
	if err != nil {
		return nil, err
	}
	if _, err := loaded.GetScrapeConfigs(); err != nil {
		return nil, err
	}
	return loaded.String(), nil
}
