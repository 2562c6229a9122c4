package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
)

// receiver is Prometheus' own receiver of remote write, on a free port of this machine.
type receiver struct {
	storage *teststorage.TestStorage
	server  *http.Server
	url     string
	mutex   sync.Mutex
	// metadata has type, unit and help by labels.
	metadata map[string]string
	requests map[string]int
	refused  map[string]int
}

// receivedAnswer is all that came.
type receivedAnswer struct {
	URL string `json:"url"`
	// Requests counts requests by content type, Refused those answered with other than 2xx by status.
	Requests map[string]int `json:"requests"`
	Refused  map[string]int `json:"refused"`

	Series    []receivedSeries   `json:"series"`
	Exemplars []scrapedExemplars `json:"exemplars"`
}

type receivedSeries struct {
	Labels labels.Labels `json:"labels"`
	// Metadata has type, unit and help.
	Metadata string `json:"metadata"`
	// Samples have the time in milliseconds, and the bits of a float or the text of a histogram.
	Samples [][2]string `json:"samples"`
}

// answer starts the receiver unless it runs, and tells what came so far.
func (r *receiver) answer() (any, error) {
	if r.server == nil {
		if err := r.start(); err != nil {
			return nil, err
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	all := receivedAnswer{
		URL:      r.url,
		Requests: r.requests,
		Refused:  r.refused,
		Series:   []receivedSeries{},
	}
	querier, err := r.storage.Querier(0, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	defer querier.Close()
	named := labels.MustNewMatcher(labels.MatchNotEqual, model.MetricNameLabel, "")
	set := querier.Select(context.Background(), false, nil, named)
	for set.Next() {
		series := set.At()
		one := receivedSeries{Labels: series.Labels(), Metadata: r.metadata[series.Labels().String()]}
		it := series.Iterator(nil)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			time, text := it.AtT(), ""
			switch kind {
			case chunkenc.ValFloat:
				_, value := it.At()
				text = fmt.Sprintf("%016x", math.Float64bits(value))
			default:
				_, histogram := it.AtFloatHistogram(nil)
				text = histogram.String()
			}
			one.Samples = append(one.Samples, [2]string{fmt.Sprint(time), text})
		}
		all.Series = append(all.Series, one)
	}
	if err := set.Err(); err != nil {
		return nil, err
	}
	all.Exemplars, err = exemplarsOf(r.storage)
	return all, err
}

func (r *receiver) start() error {
	var err error
	if r.storage, err = teststorage.NewWithError(); err != nil {
		return err
	}
	r.metadata, r.requests, r.refused = map[string]string{}, map[string]int{}, map[string]int{}
	accepted := remoteapi.MessageTypes{remoteapi.WriteV1MessageType, remoteapi.WriteV2MessageType}
	handler := remote.NewWriteHandler(promslog.NewNopLogger(), prometheus.NewRegistry(), r, accepted, false, true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.url = fmt.Sprintf("http://%s/api/v1/write", listener.Addr())
	r.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		handler.ServeHTTP(status, req)
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.requests[req.Header.Get("Content-Type")]++
		if status.status/100 != 2 {
			r.refused[fmt.Sprint(status.status)]++
		}
	})}
	go r.server.Serve(listener)
	return nil
}

// AppenderV2 makes the receiver a storage that keeps metadata.
func (r *receiver) AppenderV2(ctx context.Context) storage.AppenderV2 {
	appender := r.storage.AppenderV2(ctx).(storage.ExemplarAppenderV2)
	return &metadataAppender{appender, r}
}

type metadataAppender struct {
	storage.ExemplarAppenderV2
	receiver *receiver
}

func (a *metadataAppender) Append(
	ref storage.SeriesRef, set labels.Labels, startMs, timeMs int64, value float64,
	h *histogram.Histogram, fh *histogram.FloatHistogram, options storage.AppendV2Options,
) (storage.SeriesRef, error) {
	if m := options.Metadata; !m.IsEmpty() {
		a.receiver.mutex.Lock()
		a.receiver.metadata[set.String()] = fmt.Sprintf("%s|%s|%s", m.Type, m.Unit, m.Help)
		a.receiver.mutex.Unlock()
	}
	return a.ExemplarAppenderV2.Append(ref, set, startMs, timeMs, value, h, fh, options)
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (r *receiver) close() {
	if r.server != nil {
		r.server.Close()
		r.storage.Close()
		r.server = nil
	}
}
