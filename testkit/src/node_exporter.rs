//! What the pages of two runs of node_exporter never agree in.

/// Families whose values depend on when and where a page is printed.
pub const VOLATILE: [&str; 9] = [
    "node_exporter_build_info",
    "node_network_receive_bytes_total",
    "node_network_receive_packets_total",
    "node_network_transmit_bytes_total",
    "node_network_transmit_packets_total",
    "node_scrape_collector_duration_seconds",
    "node_textfile_mtime_seconds",
    "node_time_seconds",
    "node_time_zone_offset_seconds",
];

/// Beginnings of the names of this host's loopback counters, which netlink gives: whoever tests here makes the device drop
/// packets. Their series can be compared, not their values.
pub const OF_THIS_HOST: [&str; 2] = ["node_network_receive_", "node_network_transmit_"];
