package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
)

// scrapeRequest asks for the static targets of a configuration to be scraped, each at least so many times. Queries
// with "scraped" are about what that brought.
type scrapeRequest struct {
	Path   string `json:"path"`
	Rounds int    `json:"rounds"`
}

// scrapePatience is how long a scrape may take on a machine that does much else.
const scrapePatience = 2 * time.Minute

// scraped holds what was scraped last.
type scraped struct {
	storage *teststorage.TestStorage
}

type scrapeAnswer struct {
	Targets   []scrapedTarget    `json:"targets"`
	Exemplars []scrapedExemplars `json:"exemplars"`
}

// scrapedExemplars has the shape of the HTTP API's.
type scrapedExemplars struct {
	Series    labels.Labels     `json:"seriesLabels"`
	Exemplars []scrapedExemplar `json:"exemplars"`
}

type scrapedExemplar struct {
	Labels  labels.Labels `json:"labels"`
	Value   string        `json:"value"`
	Seconds float64       `json:"timestamp"`
}

type scrapedTarget struct {
	Labels   labels.Labels     `json:"labels"`
	Health   string            `json:"health"`
	Error    string            `json:"lastError"`
	Metadata []scrapedMetadata `json:"metadata"`
}

type scrapedMetadata struct {
	Metric string `json:"metric"`
	Type   string `json:"type"`
	Help   string `json:"help"`
	Unit   string `json:"unit"`
}

func (s *scraped) answer(req *scrapeRequest) (any, error) {
	loaded, err := config.LoadFile(req.Path, false, promslog.NewNopLogger())
	if err != nil {
		return nil, err
	}
	s.close()
	if s.storage, err = teststorage.NewWithError(); err != nil {
		return nil, err
	}
	options := &scrape.Options{
		DiscoveryReloadInterval:  model.Duration(50 * time.Millisecond),
		DiscoveryReloadOnStartup: true,
	}
	manager, err := scrape.NewManager(options, nil, nil, nil, s.storage, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	groups, count, err := staticGroups(loaded)
	if err != nil {
		return nil, err
	}
	if err := manager.ApplyConfig(loaded); err != nil {
		return nil, err
	}
	found := make(chan map[string][]*targetgroup.Group, 1)
	found <- groups
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(found) }()
	defer func() {
		manager.Stop()
		<-ended
	}()
	if err := s.wait(count, req.Rounds); err != nil {
		return nil, err
	}
	return s.found(manager)
}

// staticGroups returns the targets that a configuration lists, by job, and how many they are.
func staticGroups(loaded *config.Config) (map[string][]*targetgroup.Group, int, error) {
	all := map[string][]*targetgroup.Group{}
	count := 0
	jobs, err := loaded.GetScrapeConfigs()
	if err != nil {
		return nil, 0, err
	}
	for _, job := range jobs {
		for _, sd := range job.ServiceDiscoveryConfigs {
			static, ok := sd.(discovery.StaticConfig)
			if !ok {
				return nil, 0, fmt.Errorf("%s has other than static targets", job.JobName)
			}
			all[job.JobName] = append(all[job.JobName], static...)
			for _, group := range static {
				count += len(group.Targets)
			}
		}
	}
	return all, count, nil
}

// wait returns once so many series of up have so many samples.
func (s *scraped) wait(targets, rounds int) error {
	for end := time.Now().Add(scrapePatience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		done, err := s.done(rounds)
		if err != nil {
			return err
		}
		if done >= targets {
			return nil
		}
	}
	return errors.New("the targets were not all scraped in time")
}

// done counts the series of up that have so many samples.
func (s *scraped) done(rounds int) (int, error) {
	querier, err := s.storage.Querier(0, time.Now().Add(time.Hour).UnixMilli())
	if err != nil {
		return 0, err
	}
	defer querier.Close()
	up := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "up")
	set := querier.Select(context.Background(), false, nil, up)
	done := 0
	for set.Next() {
		samples := 0
		for it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone; {
			samples++
		}
		if samples >= rounds {
			done++
		}
	}
	return done, set.Err()
}

// found returns what there is beside samples.
func (s *scraped) found(manager *scrape.Manager) (*scrapeAnswer, error) {
	found := &scrapeAnswer{}
	for _, targets := range manager.TargetsActive() {
		for _, target := range targets {
			one := scrapedTarget{
				Labels:   target.Labels(labels.NewBuilder(labels.EmptyLabels())),
				Health:   string(target.Health()),
				Metadata: []scrapedMetadata{},
			}
			if err := target.LastError(); err != nil {
				one.Error = err.Error()
			}
			for _, m := range target.ListMetadata() {
				one.Metadata = append(one.Metadata, scrapedMetadata{m.MetricFamily, string(m.Type), m.Help, m.Unit})
			}
			found.Targets = append(found.Targets, one)
		}
	}
	var err error
	found.Exemplars, err = exemplarsOf(s.storage)
	return found, err
}

// exemplarsOf returns all exemplars of a storage.
func exemplarsOf(from *teststorage.TestStorage) ([]scrapedExemplars, error) {
	querier, err := from.ExemplarQuerier(context.Background())
	if err != nil {
		return nil, err
	}
	var found []scrapedExemplars
	named := []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotEqual, model.MetricNameLabel, "")}
	selected, err := querier.Select(0, time.Now().Add(time.Hour).UnixMilli(), named)
	for _, series := range selected {
		one := scrapedExemplars{Series: series.SeriesLabels}
		for _, e := range series.Exemplars {
			value := strconv.FormatFloat(e.Value, 'f', -1, 64)
			one.Exemplars = append(one.Exemplars, scrapedExemplar{e.Labels, value, float64(e.Ts) / 1000})
		}
		found = append(found, one)
	}
	return found, err
}

func (s *scraped) source() (storage.Queryable, error) {
	if s.storage == nil {
		return nil, errors.New("nothing was scraped")
	}
	return s.storage, nil
}

func (s *scraped) close() {
	if s.storage != nil {
		s.storage.Close()
		s.storage = nil
	}
}
