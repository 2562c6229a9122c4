//! Host metrics with the names and labels of node_exporter.
