//! Fuzz targets: plain functions over untrusted bytes.

use crate::config::{Config, Features};
use std::path::Path;

/// Parses bytes as a configuration. The printed form of an accepted one must be accepted, and must print the same from
/// then on.
///
/// The first printing may change the meaning: like Prometheus it omits switches that are off, even if they default to
/// on.
///
/// # Panics
/// Panics when this does not hold, which is what fuzzing looks for.
pub fn fuzz_config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // Skipped: such files would be looked up on this machine, and `$$` is printed as `$`, which begins a variable.
    if text.contains("scrape_config_files") || text.contains("$$") {
        return;
    }
    let read =
        |text: &str| Config::parse(text, Path::new("/nowhere"), &|_| None, Features::default());
    let config = match read(&text) {
        Ok(config) => config,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let again = |shown: &str| read(shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
    let second = again(&config.shown);
    assert_eq!(second.jobs.len(), config.jobs.len());
    assert_eq!(again(&second.shown).shown, second.shown);
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::{corpora, mutate::Mutator};

    const FILES: &[&[u8]] = &[
        b"global: {scrape_interval: 5s, external_labels: {a: '${B}'}}\nscrape_configs:\n- job_name: a\n  static_configs: [{targets: ['h:1'], labels: {x: y}}]\n",
        b"scrape_configs:\n  - job_name: \"b\"\n    kubernetes_sd_configs: [{role: pod, api_server: 'http://k', namespaces: {names: [a]}}]\n    relabel_configs:\n    - &r {source_labels: [a, b], regex: '(.+);x', replacement: '$1', target_label: t}\n    - *r\n",
        b"a: |\n  x\n  y\nb: >-\n  z\n? c\n: [1, ~, true, 0x1F, 1_000, .inf, 2024-01-01, !!binary aGk=]\n---\n",
        b"storage: {tsdb: {out_of_order_time_window: 1h, retention: {time: 1d, size: 1GB}}}\nscrape_configs: [{job_name: a, body_size_limit: 1MB, basic_auth: {username: u, password: p}}]\n",
    ];

    /// Files of the reference corpus, if present, and our own.
    fn with_corpus(run: impl FnOnce(&[&[u8]])) {
        let files: Vec<Vec<u8>> = corpora::dir("prometheus-config")
            .into_iter()
            .flat_map(|dir| corpora::files(&dir, "yml"))
            .filter_map(|file| std::fs::read(file).ok())
            .collect();
        let all: Vec<&[u8]> = FILES
            .iter()
            .copied()
            .chain(files.iter().map(Vec::as_slice))
            .collect();
        run(&all);
    }

    #[test]
    fn mutated_configurations_are_read_or_refused() {
        with_corpus(|files| {
            Mutator::new(0xc0)
                .max_len(4096)
                .run(files, 4_000, fuzz_config);
        });
    }
}
