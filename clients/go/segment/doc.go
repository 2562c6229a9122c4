// Package segment publishes the metrics of a process in shared memory, where a Narthex server or agent reads them.
//
// Nothing has to be changed about the metrics: what a registry gathers is kept in a file on a memory file system, the
// segment of this process. No port is opened and no exposition is rendered. The server adds up the segments of all
// processes of an application, keeps the counts of those that ended, however they did, and can switch metrics off.
//
//	publisher, err := segment.Start(segment.Options{App: "shop"})
//	if err != nil {
//		log.Print(err) // the program goes on, without a segment
//	}
//	defer publisher.Close()
//
// # What it costs
//
// An observation costs what it did before: a goroutine gathers at every interval and stores numbers. Labels are written
// when a series appears. A series takes 8 bytes for each number and its labels; a Summary 8 KiB.
//
// # What it is not
//
//   - A process that is killed loses what it counted since the last interval.
//   - Quantiles are computed by the reader, from the buckets of Summaries that were made by package summary with
//     objectives. Of other Summaries sum and count are published. What such a Summary had forgotten before it was first
//     published is in count and sum alone.
//   - Native histograms are published with their classic buckets; those without have sum and count.
//   - A counter whose metric is off in the program, or that was deleted, keeps its last number; a gauge disappears.
//   - Exemplars and created timestamps are not published, nor names beyond [a-zA-Z0-9_:], which count as refused.
//   - Linux with 64 bits, little-endian, only. Elsewhere Start fails.
//
// The bytes are described in docs/format/segment.md.
//
// Invariant: one goroutine at a time writes to a segment, and what readers may have seen never changes its meaning.
package segment
