//! Metrics a process reports about itself: counters, gauges, histograms.
