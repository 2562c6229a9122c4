//! How every server is told to scrape the fleet.

use std::{net::SocketAddrV4, time::Duration};

/// Returns the configuration by which every server scrapes the fleet; `labels_of` gives a target's own labels.
pub(crate) fn scrape_config(
    addresses: &[SocketAddrV4],
    interval: Duration,
    labels_of: impl Fn(usize) -> Vec<(String, String)>,
) -> String {
    let interval = interval.as_millis();
    let mut text = format!(
        "global:\n  scrape_interval: {interval}ms\n  scrape_timeout: {interval}ms\n\
         scrape_configs:\n  - job_name: fleet\n    static_configs:\n"
    );
    for (target, address) in addresses.iter().enumerate() {
        text.push_str(&format!("      - targets: [\"{address}\"]\n"));
        let labels = labels_of(target);
        if !labels.is_empty() {
            text.push_str("        labels:\n");
        }
        for (name, value) in labels {
            text.push_str(&format!("          {name}: \"{value}\"\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_lists_every_target() {
        let addresses = [
            "127.1.0.1:80".parse().unwrap(),
            "127.1.0.2:80".parse().unwrap(),
        ];
        let labels = |target| vec![("pod".to_owned(), format!("p{target}"))];
        let text = scrape_config(&addresses, Duration::from_millis(1500), labels);
        assert!(text.contains("scrape_interval: 1500ms\n"), "{text}");
        let second = "- targets: [\"127.1.0.2:80\"]\n        labels:\n          pod: \"p1\"\n";
        assert!(text.ends_with(second), "{text}");
    }
}
