//! Counters of InfiniBand ports.
//!
//! Invariant: data counters are exported in octets; the hardware counts groups of four.

use std::path::{Path, PathBuf};

use crate::board::{Decode, Describe, OnBoard, Plan};
use crate::config::{self, HostConfig};
use crate::error::HostError;
use crate::filter::Filter;
use crate::kind::CollectorKind;
use crate::scan::{float, number};
use crate::sink::Desc;
use crate::sysdir;

const INFO: Desc<'static> = Desc::gauge(
    "node_infiniband_info",
    "Non-numeric data from /sys/class/infiniband/<device>, value is always 1.",
);
const STATE: Desc<'static> = Desc::gauge(
    "node_infiniband_state_id",
    "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)",
);
const PHYSICAL_STATE: Desc<'static> = Desc::gauge(
    "node_infiniband_physical_state_id",
    "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, 3: disable, 4: shift, 5: link up, \
     6: link error recover, 7: phytest)",
);
const RATE: Desc<'static> = Desc::gauge(
    "node_infiniband_rate_bytes_per_second",
    "Maximum signal transfer rate",
);
const LIFESPAN: Desc<'static> = Desc::gauge(
    "node_infiniband_lifespan_seconds",
    "The maximum period in ms which defines the aging of the counter reads. Two consecutive reads within this \
     period might return the same values.",
);

/// A file below a port, the factor of its number, and the family.
type Counter = (&'static str, f64, Desc<'static>);

const COUNTERS: [Counter; 59] = [
    (
        "counters_ext/port_multicast_rcv_packets",
        1.0,
        Desc::counter(
            "node_infiniband_legacy_multicast_packets_received_total",
            "Number of multicast packets received",
        ),
    ),
    (
        "counters_ext/port_multicast_xmit_packets",
        1.0,
        Desc::counter(
            "node_infiniband_legacy_multicast_packets_transmitted_total",
            "Number of multicast packets transmitted",
        ),
    ),
    (
        "counters_ext/port_rcv_data_64",
        4.0,
        Desc::counter(
            "node_infiniband_legacy_data_received_bytes_total",
            "Number of data octets received on all links",
        ),
    ),
    (
        "counters_ext/port_rcv_packets_64",
        1.0,
        Desc::counter(
            "node_infiniband_legacy_packets_received_total",
            "Number of data packets received on all links",
        ),
    ),
    (
        "counters_ext/port_unicast_rcv_packets",
        1.0,
        Desc::counter(
            "node_infiniband_legacy_unicast_packets_received_total",
            "Number of unicast packets received",
        ),
    ),
    (
        "counters_ext/port_unicast_xmit_packets",
        1.0,
        Desc::counter(
            "node_infiniband_legacy_unicast_packets_transmitted_total",
            "Number of unicast packets transmitted",
        ),
    ),
    (
        "counters_ext/port_xmit_data_64",
        4.0,
        Desc::counter(
            "node_infiniband_legacy_data_transmitted_bytes_total",
            "Number of data octets transmitted on all links",
        ),
    ),
    (
        "counters_ext/port_xmit_packets_64",
        1.0,
        Desc::counter(
            "node_infiniband_legacy_packets_transmitted_total",
            "Number of data packets received on all links",
        ),
    ),
    (
        "counters/excessive_buffer_overrun_errors",
        1.0,
        Desc::counter(
            "node_infiniband_excessive_buffer_overrun_errors_total",
            "Number of times that OverrunErrors consecutive flow control update periods occurred, each having at \
             least one overrun error.",
        ),
    ),
    (
        "counters/link_downed",
        1.0,
        Desc::counter(
            "node_infiniband_link_downed_total",
            "Number of times the link failed to recover from an error state and went down",
        ),
    ),
    (
        "counters/link_error_recovery",
        1.0,
        Desc::counter(
            "node_infiniband_link_error_recovery_total",
            "Number of times the link successfully recovered from an error state",
        ),
    ),
    (
        "counters/local_link_integrity_errors",
        1.0,
        Desc::counter(
            "node_infiniband_local_link_integrity_errors_total",
            "Number of times that the count of local physical errors exceeded the threshold specified by \
             LocalPhyErrors.",
        ),
    ),
    (
        "counters/multicast_rcv_packets",
        1.0,
        Desc::counter(
            "node_infiniband_multicast_packets_received_total",
            "Number of multicast packets received (including errors)",
        ),
    ),
    (
        "counters/multicast_xmit_packets",
        1.0,
        Desc::counter(
            "node_infiniband_multicast_packets_transmitted_total",
            "Number of multicast packets transmitted (including errors)",
        ),
    ),
    (
        "counters/port_rcv_constraint_errors",
        1.0,
        Desc::counter(
            "node_infiniband_port_constraint_errors_received_total",
            "Number of packets received on the switch physical port that are discarded",
        ),
    ),
    (
        "counters/port_xmit_constraint_errors",
        1.0,
        Desc::counter(
            "node_infiniband_port_constraint_errors_transmitted_total",
            "Number of packets not transmitted from the switch physical port",
        ),
    ),
    (
        "counters/port_rcv_data",
        4.0,
        Desc::counter(
            "node_infiniband_port_data_received_bytes_total",
            "Number of data octets received on all links",
        ),
    ),
    (
        "counters/port_xmit_data",
        4.0,
        Desc::counter(
            "node_infiniband_port_data_transmitted_bytes_total",
            "Number of data octets transmitted on all links",
        ),
    ),
    (
        "counters/port_rcv_discards",
        1.0,
        Desc::counter(
            "node_infiniband_port_discards_received_total",
            "Number of inbound packets discarded by the port because the port is down or congested",
        ),
    ),
    (
        "counters/port_xmit_discards",
        1.0,
        Desc::counter(
            "node_infiniband_port_discards_transmitted_total",
            "Number of outbound packets discarded by the port because the port is down or congested",
        ),
    ),
    (
        "counters/port_rcv_errors",
        1.0,
        Desc::counter(
            "node_infiniband_port_errors_received_total",
            "Number of packets containing an error that were received on this port",
        ),
    ),
    (
        "counters/port_rcv_packets",
        1.0,
        Desc::counter(
            "node_infiniband_port_packets_received_total",
            "Number of packets received on all VLs by this port (including errors)",
        ),
    ),
    (
        "counters/port_xmit_packets",
        1.0,
        Desc::counter(
            "node_infiniband_port_packets_transmitted_total",
            "Number of packets transmitted on all VLs from this port (including errors)",
        ),
    ),
    (
        "counters/port_xmit_wait",
        1.0,
        Desc::counter(
            "node_infiniband_port_transmit_wait_total",
            "Number of ticks during which the port had data to transmit but no data was sent during the entire tick",
        ),
    ),
    (
        "counters/unicast_rcv_packets",
        1.0,
        Desc::counter(
            "node_infiniband_unicast_packets_received_total",
            "Number of unicast packets received (including errors)",
        ),
    ),
    (
        "counters/unicast_xmit_packets",
        1.0,
        Desc::counter(
            "node_infiniband_unicast_packets_transmitted_total",
            "Number of unicast packets transmitted (including errors)",
        ),
    ),
    (
        "counters/port_rcv_remote_physical_errors",
        1.0,
        Desc::counter(
            "node_infiniband_port_receive_remote_physical_errors_total",
            "Number of packets marked with the EBP (End of Bad Packet) delimiter received on the port.",
        ),
    ),
    (
        "counters/port_rcv_switch_relay_errors",
        1.0,
        Desc::counter(
            "node_infiniband_port_receive_switch_relay_errors_total",
            "Number of packets that could not be forwarded by the switch.",
        ),
    ),
    (
        "counters/symbol_error",
        1.0,
        Desc::counter(
            "node_infiniband_symbol_error_total",
            "Number of minor link errors detected on one or more physical lanes.",
        ),
    ),
    (
        "counters/VL15_dropped",
        1.0,
        Desc::counter(
            "node_infiniband_vl15_dropped_total",
            "Number of incoming VL15 packets dropped due to resource limitations.",
        ),
    ),
    (
        "hw_counters/duplicate_request",
        1.0,
        Desc::counter(
            "node_infiniband_duplicate_requests_packets_total",
            "The number of received packets. A duplicate request is a request that had been previously executed.",
        ),
    ),
    (
        "hw_counters/implied_nak_seq_err",
        1.0,
        Desc::counter(
            "node_infiniband_implied_nak_seq_errors_total",
            "The number of time the requested decided an ACK. with a PSN larger than the expected PSN for an RDMA \
             read or response.",
        ),
    ),
    (
        "hw_counters/local_ack_timeout_err",
        1.0,
        Desc::counter(
            "node_infiniband_local_ack_timeout_errors_total",
            "The number of times QP's ack timer expired for RC, XRC, DCT QPs at the sender side. The QP retry \
             limit was not exceed, therefore it is still recoverable error.",
        ),
    ),
    (
        "hw_counters/np_cnp_sent",
        1.0,
        Desc::counter(
            "node_infiniband_np_cnp_packets_sent_total",
            "The number of CNP packets sent by the Notification Point when it noticed congestion experienced in \
             the RoCEv2 IP header (ECN bits). The counters was added in MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/np_ecn_marked_roce_packets",
        1.0,
        Desc::counter(
            "node_infiniband_np_ecn_marked_roce_packets_received_total",
            "The number of RoCEv2 packets received by the notification point which were marked for experiencing \
             the congestion (ECN bits where '11' on the ingress RoCE traffic) . The counters was added in \
             MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/out_of_buffer",
        1.0,
        Desc::counter(
            "node_infiniband_out_of_buffer_drops_total",
            "The number of drops occurred due to lack of WQE for the associated QPs.",
        ),
    ),
    (
        "hw_counters/out_of_sequence",
        1.0,
        Desc::counter(
            "node_infiniband_out_of_sequence_packets_received_total",
            "The number of out of sequence packets received.",
        ),
    ),
    (
        "hw_counters/packet_seq_err",
        1.0,
        Desc::counter(
            "node_infiniband_packet_sequence_errors_total",
            "The number of received NAK sequence error packets. The QP retry limit was not exceeded.",
        ),
    ),
    (
        "hw_counters/req_cqe_error",
        1.0,
        Desc::counter(
            "node_infiniband_req_cqes_errors_total",
            "The number of times requester detected CQEs completed with errors. The counters was added in \
             MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/req_cqe_flush_error",
        1.0,
        Desc::counter(
            "node_infiniband_req_cqes_flush_errors_total",
            "The number of times requester detected CQEs completed with flushed errors. The counters was added in \
             MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/req_remote_access_errors",
        1.0,
        Desc::counter(
            "node_infiniband_req_remote_access_errors_total",
            "The number of times requester detected remote access errors. The counters was added in MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/req_remote_invalid_request",
        1.0,
        Desc::counter(
            "node_infiniband_req_remote_invalid_request_errors_total",
            "The number of times requester detected remote invalid request errors. The counters was added in \
             MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/resp_cqe_error",
        1.0,
        Desc::counter(
            "node_infiniband_resp_cqes_errors_total",
            "The number of times responder detected CQEs completed with errors. The counters was added in \
             MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/resp_cqe_flush_error",
        1.0,
        Desc::counter(
            "node_infiniband_resp_cqes_flush_errors_total",
            "The number of times responder detected CQEs completed with flushed errors. The counters was added in \
             MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/resp_local_length_error",
        1.0,
        Desc::counter(
            "node_infiniband_resp_local_length_errors_total",
            "The number of times responder detected local length errors. The counters was added in MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/resp_remote_access_errors",
        1.0,
        Desc::counter(
            "node_infiniband_resp_remote_access_errors_total",
            "The number of times responder detected remote access errors. The counters was added in MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/rnr_nak_retry_err",
        1.0,
        Desc::counter(
            "node_infiniband_rnr_nak_retry_packets_received_total",
            "The number of received RNR NAK packets. The QP retry limit was not exceeded.",
        ),
    ),
    (
        "hw_counters/roce_adp_retrans",
        1.0,
        Desc::counter(
            "node_infiniband_roce_adp_retransmits_total",
            "The number of adaptive retransmissions for RoCE traffic. The counter was added in MLNX_OFED rev \
             5.0-1.0.0.0 and kernel v5.6.0",
        ),
    ),
    (
        "hw_counters/roce_adp_retrans_to",
        1.0,
        Desc::counter(
            "node_infiniband_roce_adp_retransmits_timeout_total",
            "The number of times RoCE traffic reached timeout due to adaptive retransmission. The counter was \
             added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0",
        ),
    ),
    (
        "hw_counters/roce_slow_restart",
        1.0,
        Desc::counter(
            "node_infiniband_roce_slow_restart_used_total",
            "The number of times RoCE slow restart was used. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 \
             and kernel v5.6.0",
        ),
    ),
    (
        "hw_counters/roce_slow_restart_cnps",
        1.0,
        Desc::counter(
            "node_infiniband_roce_slow_restart_cnps_total",
            "The number of times RoCE slow restart generated CNP packets. The counter was added in MLNX_OFED rev \
             5.0-1.0.0.0 and kernel v5.6.0",
        ),
    ),
    (
        "hw_counters/roce_slow_restart_trans",
        1.0,
        Desc::counter(
            "node_infiniband_roce_slow_restart_total",
            "The number of times RoCE slow restart changed state to slow restart. The counter was added in \
             MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0",
        ),
    ),
    (
        "hw_counters/rp_cnp_handled",
        1.0,
        Desc::counter(
            "node_infiniband_rp_cnp_packets_handled_total",
            "The number of CNP packets handled by the Reaction Point HCA to throttle the transmission rate. The \
             counters was added in MLNX_OFED 4.1",
        ),
    ),
    (
        "hw_counters/rp_cnp_ignored",
        1.0,
        Desc::counter(
            "node_infiniband_rp_cnp_ignored_packets_received_total",
            "The number of CNP packets received and ignored by the Reaction Point HCA. This counter should not \
             raise if RoCE Congestion Control was enabled in the network. If this counter raise, verify that ECN \
             was enabled on the adapter.",
        ),
    ),
    (
        "hw_counters/rx_atomic_requests",
        1.0,
        Desc::counter(
            "node_infiniband_rx_atomic_requests_total",
            "The number of received ATOMIC request for the associated QPs.",
        ),
    ),
    (
        "hw_counters/rx_dct_connect",
        1.0,
        Desc::counter(
            "node_infiniband_rx_dct_connect_requests_total",
            "The number of received connection requests for the associated DCTs.",
        ),
    ),
    (
        "hw_counters/rx_read_requests",
        1.0,
        Desc::counter(
            "node_infiniband_rx_read_requests_total",
            "The number of received READ requests for the associated QPs.",
        ),
    ),
    (
        "hw_counters/rx_write_requests",
        1.0,
        Desc::counter(
            "node_infiniband_rx_write_requests_total",
            "The number of received WRITE requests for the associated QPs.",
        ),
    ),
    (
        "hw_counters/rx_icrc_encapsulated",
        1.0,
        Desc::counter(
            "node_infiniband_rx_icrc_encapsulated_errors_total",
            "The number of RoCE packets with ICRC errors. This counter was added in MLNX_OFED 4.4 and kernel 4.19",
        ),
    ),
];

pub(crate) struct Infiniband {
    directory: PathBuf,
    devices: Filter,
}

impl Infiniband {
    pub(crate) fn new(config: &HostConfig) -> Result<OnBoard<Self>, HostError> {
        Ok(OnBoard::new(Self {
            directory: config.sysfs.join("class/infiniband"),
            devices: config.infiniband.compile(&config::INFINIBAND_DEVICE)?,
        }))
    }
}

impl Describe for Infiniband {
    const KIND: CollectorKind = CollectorKind::Infiniband;

    fn describe(&self, plan: &mut Plan<'_>) -> Result<(), HostError> {
        for device in sysdir::list(&self.directory)? {
            if !self.devices.keeps(device.as_bytes()) {
                continue;
            }
            let directory = self.directory.join(&device);
            let mut label = |file: &str| plan.label(&directory.join(file)).unwrap_or_default();
            let labels = [
                ("device", device.as_str()),
                ("board_id", &label("board_id")),
                ("firmware_version", &label("fw_ver")),
                ("hca_type", &label("hca_type")),
            ];
            plan.fixed(&INFO, &labels, 1.0);
            let ports = directory.join("ports");
            for port in sysdir::list(&ports).unwrap_or_default() {
                describe_port(&device, &port, &ports.join(&port), plan);
            }
        }
        Ok(())
    }
}

fn describe_port(device: &str, port: &str, directory: &Path, plan: &mut Plan<'_>) {
    let labels = [("device", device), ("port", port)];
    let mut file = |desc, name: &str, decode| {
        plan.file(desc, &labels, &directory.join(name), decode);
    };
    file(&STATE, "state", Decode::With(state));
    file(&PHYSICAL_STATE, "phys_state", Decode::With(state));
    file(&RATE, "rate", Decode::With(rate));
    for (name, factor, desc) in &COUNTERS {
        file(desc, name, Decode::Times(*factor));
    }
    // Whole seconds, as node_exporter divides.
    let seconds = |text: &[u8]| number(text).map(|milliseconds| (milliseconds / 1000) as f64);
    file(&LIFESPAN, "hw_counters/lifespan", Decode::With(seconds));
}

/// Reads the number of `4: ACTIVE`.
pub(crate) fn state(text: &[u8]) -> Option<f64> {
    let at = memchr::memchr(b':', text)?;
    number(text[..at].trim_ascii()).map(|id| id as f64)
}

/// Reads `100 Gb/sec (4X EDR)` as bytes a second.
pub(crate) fn rate(text: &[u8]) -> Option<f64> {
    const BYTES_PER_GIGABIT: f64 = 125_000_000.0;
    let at = memchr::memchr(b' ', text)?;
    // node_exporter reads 32 bits of it and cuts the fraction off.
    let gigabits = float(&text[..at])? as f32;
    Some((f64::from(gigabits) * BYTES_PER_GIGABIT).trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_rates() {
        assert_eq!(state(b"4: ACTIVE"), Some(4.0));
        assert_eq!(rate(b"40 Gb/sec (4X QDR)"), Some(5e9));
        assert_eq!(rate(b"2.5 Gb/sec (1X SDR)"), Some(312_500_000.0));
        assert_eq!((state(b"ACTIVE"), rate(b"fast")), (None, None));
    }
}
