package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
)

// notificationsRequest asks what is posted to the static targets of a configuration's Alertmanagers.
type notificationsRequest struct {
	Config string          `json:"config"`
	Alerts []notifiedAlert `json:"alerts"`
	// Posts is how many requests to wait for.
	Posts int `json:"posts"`
}

type notifiedAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAtMs   int64             `json:"starts_at_ms"`
	EndsAtMs     int64             `json:"ends_at_ms"`
	GeneratorURL string            `json:"generator_url"`
}

// notification is one request to an Alertmanager.
type notification struct {
	Method      string `json:"method"`
	URL         string `json:"url"`
	ContentType string `json:"content_type"`
	Body        string `json:"body"`
}

type notificationsResult struct {
	Active  []string       `json:"active"`
	Dropped []string       `json:"dropped"`
	Posts   []notification `json:"posts"`
}

func (req notificationsRequest) answer() (any, error) {
	logger := promslog.NewNopLogger()
	loaded, err := config.Load(req.Config, logger)
	if err != nil {
		return nil, err
	}
	posts := make(chan notification, 1000)
	manager := notifier.NewManager(&notifier.Options{
		QueueCapacity: 10_000,
		Do: func(_ context.Context, _ *http.Client, r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			posts <- notification{r.Method, r.URL.String(), r.Header.Get("Content-Type"), string(body)}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(nil))}, nil
		},
	}, model.UTF8Validation, logger)
	if err := manager.ApplyConfig(loaded); err != nil {
		return nil, err
	}
	sets := make(map[string][]*targetgroup.Group)
	for name, cfg := range loaded.AlertingConfig.AlertmanagerConfigs.ToMap() {
		for _, sd := range cfg.ServiceDiscoveryConfigs {
			if static, ok := sd.(discovery.StaticConfig); ok {
				sets[name] = append(sets[name], static...)
			}
		}
	}
	// Without a buffer: the second is taken once the first has been applied.
	updates := make(chan map[string][]*targetgroup.Group)
	var running sync.WaitGroup
	running.Go(func() { manager.Run(updates) })
	updates <- sets
	updates <- sets
	manager.Send(req.alerts()...)
	result := notificationsResult{Active: texts(manager.Alertmanagers()), Dropped: texts(manager.DroppedAlertmanagers())}
	deadline := time.After(10 * time.Second)
	for len(result.Posts) < req.Posts {
		select {
		case post := <-posts:
			result.Posts = append(result.Posts, post)
			continue
		case <-deadline:
		}
		break
	}
	manager.Stop()
	running.Wait()
	slices.SortFunc(result.Posts, func(a, b notification) int { return strings.Compare(a.URL, b.URL) })
	return result, nil
}

func (req notificationsRequest) alerts() []*notifier.Alert {
	var alerts []*notifier.Alert
	for _, alert := range req.Alerts {
		alerts = append(alerts, &notifier.Alert{
			Labels:       labels.FromMap(alert.Labels),
			Annotations:  labels.FromMap(alert.Annotations),
			StartsAt:     time.UnixMilli(alert.StartsAtMs),
			EndsAt:       time.UnixMilli(alert.EndsAtMs),
			GeneratorURL: alert.GeneratorURL,
		})
	}
	return alerts
}

func texts(urls []*url.URL) []string {
	found := []string{}
	for _, one := range urls {
		found = append(found, one.String())
	}
	slices.Sort(found)
	return found
}
