package main

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/gogo/protobuf/proto"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
)

// written is a storage that holds what one remote write request brought.
type written struct {
	request string
	storage *teststorage.TestStorage
}

// of returns a storage with the samples of a request in base64, the last one again when the request is the same or empty.
func (w *written) of(request string) (storage.Queryable, error) {
	if w.storage != nil && (request == "" || w.request == request) {
		return w.storage, nil
	}
	body, err := base64.StdEncoding.DecodeString(request)
	if err != nil {
		return nil, err
	}
	var message prompb.WriteRequest
	if err := proto.Unmarshal(body, &message); err != nil {
		return nil, err
	}
	w.close()
	if w.storage, err = teststorage.NewWithError(); err != nil {
		return nil, err
	}
	w.request = request
	return w.storage, w.append(message.Timeseries)
}

func (w *written) append(all []prompb.TimeSeries) error {
	app := w.storage.Appender(context.Background())
	builder := labels.NewScratchBuilder(0)
	for _, series := range all {
		set := series.ToLabels(&builder, nil)
		for _, s := range series.Samples {
			if _, err := app.Append(0, set, s.Timestamp, s.Value); err != nil {
				return fmt.Errorf("%v at %d: %w", set, s.Timestamp, err)
			}
		}
		for _, h := range series.Histograms {
			var err error
			if h.IsFloatHistogram() {
				_, err = app.AppendHistogram(0, set, h.Timestamp, nil, h.ToFloatHistogram())
			} else {
				_, err = app.AppendHistogram(0, set, h.Timestamp, h.ToIntHistogram(), nil)
			}
			if err != nil {
				return fmt.Errorf("%v at %d: %w", set, h.Timestamp, err)
			}
		}
	}
	return app.Commit()
}

func (w *written) close() {
	if w.storage != nil {
		w.storage.Close()
		w.storage = nil
	}
}
