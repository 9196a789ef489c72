//! What is wrong with `[link]` and `[[peer]]`.

use crate::fault::{Fault, absolute};
use crate::model::Config;
use crate::text::Switch;
use std::collections::BTreeMap;

/// Bytes of the longest DNS name.
const DNS_NAME_BYTES_MAX: usize = 253;
/// Bytes of the longest part of one between its dots.
const LABEL_BYTES_MAX: usize = 63;

/// What is wrong with the link and all peers together.
pub(super) fn faults(config: &Config, faults: &mut Vec<Fault>) {
    let link = &config.link;
    let files = [
        ("link.certificate", &link.certificate),
        ("link.key", &link.key),
        ("link.authority", &link.authority),
    ];
    for (key, path) in files {
        absolute(path, key, faults);
    }
    if matches!(link.address.0, Switch::On(_)) && config.peers.is_empty() {
        let message = "lets nobody in: name the hosts that may connect in [[peer]] sections";
        faults.push(Fault::new("link.address", message));
    }
    let mut names = BTreeMap::new();
    for (at, peer) in config.peers.iter().enumerate() {
        let key = |key: &str| format!("peer[{at}].{key}");
        if !is_dns_name(&peer.name) {
            let message = "must be a DNS name in the peer's certificate, such as node-b.example";
            faults.push(Fault::new(key("name"), message));
        }
        if let Some(other) = names.insert(peer.name.to_ascii_lowercase(), at) {
            let message = format!("is the name of peer[{other}] too");
            faults.push(Fault::new(key("name"), message));
        }
        if !is_host_and_port(&peer.address) {
            let message = "must be a host and a port, such as 10.0.0.3:9810";
            faults.push(Fault::new(key("address"), message));
        }
    }
}

fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        (1..=LABEL_BYTES_MAX).contains(&bytes.len())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= DNS_NAME_BYTES_MAX && name.split('.').all(is_label)
}

fn is_host_and_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    !host.is_empty()
        && (is_bracketed || !host.contains(':'))
        && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_what_the_link_takes() {
        for name in ["node-b", "node_b.example", "a.b.c", "7"] {
            assert!(is_dns_name(name), "{name}");
        }
        for name in [
            "",
            "node b",
            ".b",
            "b.",
            "-b",
            "b-",
            "10.0.0.3:1",
            &"b".repeat(64),
        ] {
            assert!(!is_dns_name(name), "{name}");
        }
        for address in ["10.0.0.3:9810", "node-b:1", "[fe80::1]:65535"] {
            assert!(is_host_and_port(address), "{address}");
        }
        for address in [
            "",
            "node-b",
            "node-b:",
            ":9810",
            "node-b:0",
            "node-b:65536",
            "fe80::1:80",
        ] {
            assert!(!is_host_and_port(address), "{address}");
        }
    }
}
