// Package summary makes Summaries that cost a few nanoseconds an observation.
//
// [New] and [NewVec] take client_golang's options and return client_golang's types: change the constructor and keep
// registry, handler and dashboards. [NewFastVec] is a vector of our own whose look-up takes no lock; it satisfies
// prometheus.ObserverVec.
//
//	latency := summary.New(prometheus.SummaryOpts{
//		Name:       "request_seconds",
//		Help:       "Time to answer.",
//		Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
//	})
//
// Quantiles cover the last MaxAge, less up to one AgeBuckets-th of it. They are exact while a window has up to 512
// observations, and for values that repeat; otherwise they come from cells whose width follows the data. Sum and
// count cover the life of the process. NaNs count, make the sum NaN and have no rank; infinities have one. BufCap has
// no effect. The errors that Objectives allow are not used: the answers are as good as memory permits, see the README.
//
// Everything here is safe for concurrent use.
//
// Invariant: what an observation that returned has added is in what is collected later.
package summary
