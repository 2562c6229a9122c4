//! Cost and gain of libdeflate's levels on our responses, and cost of decompressing them.
//!
//! `cargo bench -p narthex-net --bench gzip`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark reports on stdout and has nobody to hand errors to"
)]

use std::fmt::Write;
use std::time::Instant;

use libdeflater::{CompressionLvl, Compressor};
use narthex_net::{Encoding, PageCompressor, decompress};

const RUNS: usize = 41;

fn main() {
    println!(
        "{:12} {:>8} {:>9} {:>7} {:>16} {:>18}",
        "answer", "level", "bytes", "ratio", "compress MB/s", "decompress MB/s"
    );
    for (name, input) in [("query_range", query_range()), ("exposition", exposition())] {
        report_pages(name, &input);
        for level in [1, 2, 3, 6] {
            let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
            let mut packed = vec![0; compressor.gzip_compress_bound(input.len())];
            let mut length = 0;
            let pack_s = median(|| length = compressor.gzip_compress(&input, &mut packed).unwrap());
            let mut out = Vec::new();
            let unpack_s = median(|| {
                decompress(Encoding::Gzip, &packed[..length], 1 << 30, &mut out).unwrap();
            });
            assert_eq!(out, input);
            let bytes = input.len() as f64;
            println!(
                "{name:12} {level:>8} {length:>9} {:>7.1} {:>16.0} {:>18.0}",
                bytes / length as f64,
                bytes / pack_s / 1e6,
                bytes / unpack_s / 1e6
            );
        }
    }
}

/// Reports pages whose text is the last one's, as an exporter sends them.
fn report_pages(name: &str, input: &[u8]) {
    let mut compressor = PageCompressor::new();
    let first_s = median(|| drop(PageCompressor::new().gzip(input)));
    compressor.gzip(input).unwrap();
    let start = Instant::now();
    compressor.gzip(input).unwrap();
    let learn_s = start.elapsed().as_secs_f64();
    let mut length = 0;
    let pack_s = median(|| length = compressor.gzip(input).unwrap().len());
    println!(
        "{name:12} {:>8} {length:>9} {:>7.1} {:>16.0}   first {:.0}, second {:.0}",
        "page",
        input.len() as f64 / length as f64,
        input.len() as f64 / pack_s / 1e6,
        input.len() as f64 / first_s / 1e6,
        input.len() as f64 / learn_s / 1e6,
    );
}

fn median(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

/// Returns 40 series of 240 points, as requested by a dashboard.
fn query_range() -> Vec<u8> {
    let mut out =
        String::from("{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[");
    let mut state = 7_u64;
    for series in 0..40 {
        let comma = if series > 0 { "," } else { "" };
        write!(out, "{comma}{{\"metric\":{{\"instance\":\"node-{series}:9100\",\"job\":\"node\",\"mode\":\"user\"}},\"values\":[").unwrap();
        for point in 0..240_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let value = 0.2 + (state >> 40) as f64 / 1e8;
            let comma = if point > 0 { "," } else { "" };
            write!(out, "{comma}[{},\"{value}\"]", 1_790_000_000 + point * 15).unwrap();
        }
        out.push_str("]}");
    }
    out.push_str("]}}");
    out.into_bytes()
}

/// Returns 3,000 lines of counters.
fn exposition() -> Vec<u8> {
    let mut out = String::new();
    let mut state = 7_u64;
    for line in 0..3000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (le, path, value) = (line % 12, line / 12, state >> 44);
        writeln!(out, "http_request_duration_seconds_bucket{{handler=\"/api/v1/{path}\",method=\"GET\",code=\"200\",le=\"{le}\"}} {value}").unwrap();
    }
    out.into_bytes()
}
