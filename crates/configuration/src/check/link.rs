//! What is wrong with `[link]` and `[[peer]]`.

use crate::fault::{Fault, absolute};
use crate::link::LinkConfig;
use crate::migration::{Dirty, MigrationConfig, Strategy};
use crate::model::{Config, DiskConfig};
use crate::origins::OriginConfig;
use crate::text::{Auto, Switch};
use std::collections::BTreeMap;
use units::{Bytes, Duration};

/// Bytes of the longest DNS name.
const DNS_NAME_BYTES_MAX: usize = 253;
/// Bytes of the longest part of one between its dots.
const LABEL_BYTES_MAX: usize = 63;

/// Disks of a VM that move together at most: as many as the hosts name in a message.
pub const MOVE_TOGETHER_MAX: usize = 64;

/// Longest that a read may wait for a host that lends.
const LEND_TIMEOUT_MAX: Duration = Duration::from_secs(60);

const NO_RATE: Auto<Bytes> = Auto::Fixed(Bytes::ZERO);

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
    of_link(link, faults);
    if let Some(name) = &link.name
        && !is_dns_name(name)
    {
        let message = "must be a DNS name in this host's certificate, such as node-a.example";
        faults.push(Fault::new("link.name", message));
    }
    for (at, disk) in config.disks.iter().enumerate() {
        if !disk.roams {
            if disk.migration != MigrationConfig::default() {
                let message = "is for a disk that roams: set roams = true, or leave this out";
                faults.push(Fault::new(format!("disk[{at}].migration"), message));
            }
            continue;
        }
        if disk.migration.strategy == Strategy::Piggyback {
            let message = "\"piggyback\" is for storage that is copied with its VM, and a disk that roams has one origin: \
                choose \"hotlist\"";
            faults.push(Fault::new(
                format!("disk[{at}].migration.strategy"),
                message,
            ));
        }
        if disk.migration.rate.0 == NO_RATE {
            let message = "must be more than 0, or \"auto\"";
            faults.push(Fault::new(format!("disk[{at}].migration.rate"), message));
        }
        if disk.follows() {
            of_image(at, disk, faults);
        } else if disk.migration.dirty.0 == Auto::Fixed(Dirty::Ship)
            && !disk.migration.strategy.copies_ahead()
        {
            let message = "\"ship\" goes with a cache that is copied from the other host ahead of its disk: \
                choose strategy = \"live\", or \"drain\" here";
            faults.push(Fault::new(format!("disk[{at}].migration.dirty"), message));
        }
        if let Some(message) = cannot_roam(config, disk) {
            faults.push(Fault::new(format!("disk[{at}].roams"), message));
        }
        let is_file = matches!(disk.origin, OriginConfig::File { .. });
        if !is_file && disk.moves() && disk.migration.strategy == Strategy::Proactive {
            let message = "\"proactive\" reads the origin while the other host writes it, which only a file takes: choose \
                \"live\"";
            faults.push(Fault::new(
                format!("disk[{at}].migration.strategy"),
                message,
            ));
        }
    }
    of_units(config, faults);
    of_peers(config, faults);
}

/// What is wrong with how the cache of a base image follows its VMs.
fn of_image(at: usize, disk: &DiskConfig, faults: &mut Vec<Fault>) {
    let MigrationConfig {
        strategy, dirty, ..
    } = &disk.migration;
    if *strategy != Strategy::Live && *strategy != Strategy::Piggyback {
        let message = "a base image is served by both hosts all the time, and its cache follows as under \"live\": leave \
            this out, or leave roams out if it is to stay";
        faults.push(Fault::new(
            format!("disk[{at}].migration.strategy"),
            message,
        ));
    }
    if dirty.0 != Auto::Auto {
        let message = "is for disks that are written: leave this out";
        faults.push(Fault::new(format!("disk[{at}].migration.dirty"), message));
    }
}

/// What is wrong with the disks that VMs have together.
fn of_units(config: &Config, faults: &mut Vec<Fault>) {
    let mut counts = BTreeMap::new();
    for (at, disk) in config.disks.iter().enumerate() {
        if !disk.moves() {
            continue;
        }
        let count: &mut usize = counts.entry(disk.tenant()).or_default();
        *count += 1;
        if *count == MOVE_TOGETHER_MAX + 1 {
            let message = format!(
                "is one more than the {MOVE_TOGETHER_MAX} disks that a VM can move with: give some another vm, or leave \
                 roams out"
            );
            faults.push(Fault::new(format!("disk[{at}].roams"), message));
        }
    }
}

/// What is wrong with how fast blocks come, and how long they may take.
fn of_link(link: &LinkConfig, faults: &mut Vec<Fault>) {
    if link.rate.0 == NO_RATE {
        let message = "must be more than 0, or \"auto\"";
        faults.push(Fault::new("link.rate", message));
    }
    if link.lend_timeout.0 == Duration::ZERO || link.lend_timeout.0 > LEND_TIMEOUT_MAX {
        let message =
            "must be more than 0, and 60 s at most: a read waits so long for a host that hangs";
        faults.push(Fault::new("link.lend_timeout", message));
    }
}

/// What is wrong with the peers.
fn of_peers(config: &Config, faults: &mut Vec<Fault>) {
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

/// Why a disk cannot roam, if it cannot.
fn cannot_roam(config: &Config, disk: &DiskConfig) -> Option<&'static str> {
    if config.peers.is_empty() {
        Some("needs a [[peer]]: another host that lists the disk")
    } else if config.link.name.is_none() {
        Some("needs link.name: what the peer calls this host")
    } else if disk.id.is_none() {
        Some("needs the key id, the same on both hosts")
    } else if disk.moves()
        && !matches!(disk.origin, OriginConfig::File { .. })
        && config.daemon.owners_dir.is_none()
        && !config.store.is_on()
    {
        Some(
            "needs daemon.owners_dir, a folder that both hosts share, or [store], for the record of who has the disk: only a file has it beside itself",
        )
    } else if disk.read_only && !disk.shared {
        Some(
            "is for disks that are written: several hosts may read this one as it is; a base image, which has shared = true, may have it",
        )
    } else {
        None
    }
}

pub(super) fn is_dns_name(name: &str) -> bool {
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

pub(super) fn is_host_and_port(address: &str) -> bool {
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

    fn faults_of(text: &str) -> Vec<String> {
        let found = crate::parse(text).err().unwrap_or_default();
        let words = |fault: Fault| format!("{}: {}", fault.key, fault.message);
        found.into_iter().map(words).collect()
    }

    const CACHE: &str = "[[cache]]\nname = \"c\"\npath = \"/c\"\n";
    const LINK: &str = "[link]\naddress = \"10.0.0.2:9810\"\nname = \"node-a\"\n";
    const PEER: &str = "[[peer]]\nname = \"node-b\"\naddress = \"10.0.0.3:9810\"\n";
    const DISK: &str = "[[disk]]\nname = \"d\"\nroams = true\n";
    const ID: &str = "id = \"00112233445566778899aabbccddeeff\"\n";
    const FILE: &str = "origin = { file = \"/o\" }\n";

    #[test]
    fn a_disk_roams_among_hosts_that_reach_its_file() {
        let sound = [CACHE, LINK, PEER, DISK, ID, FILE].concat();
        assert_eq!(faults_of(&sound), [""; 0]);
        let third = "[[peer]]\nname = \"node-c\"\naddress = \"10.0.0.4:9810\"\n";
        let among_three = [CACHE, LINK, PEER, third, DISK, ID, FILE].concat();
        assert_eq!(faults_of(&among_three), [""; 0]);
        let encrypted = "encryption = { key_file = \"/etc/hearth/d.key\" }\n";
        let sealed = [CACHE, LINK, PEER, DISK, ID, FILE, encrypted].concat();
        assert_eq!(faults_of(&sealed), [""; 0]);
        let nbd = "origin = { nbd = \"nbd://h/e\" }\n";
        let shared = "[daemon]\nowners_dir = \"/shared\"\n";
        let sound = [shared, CACHE, LINK, PEER, DISK, ID, nbd].concat();
        assert_eq!(faults_of(&sound), [""; 0]);
        for (text, remedy) in [
            (vec![CACHE, LINK, DISK, ID, FILE], "[[peer]]"),
            (vec![CACHE, PEER, DISK, ID, FILE], "link.name"),
            (vec![CACHE, LINK, PEER, DISK, FILE], "the key id"),
            (vec![CACHE, LINK, PEER, DISK, ID, nbd], "daemon.owners_dir"),
            (
                vec![CACHE, LINK, PEER, DISK, ID, "read_only = true\n", FILE],
                "as it is",
            ),
        ] {
            let faults = faults_of(&text.concat());
            let is_told =
                |fault: &String| fault.starts_with("disk[0].roams: ") && fault.contains(remedy);
            assert!(faults.iter().any(is_told), "{remedy}: {faults:?}");
        }
    }

    #[test]
    fn a_read_waits_for_a_lender_but_not_for_ever() {
        let with = |timeout: &str| {
            let key = format!("lend_timeout = \"{timeout}\"\n");
            faults_of(&[CACHE, LINK, &key, PEER, DISK, ID, FILE].concat())
        };
        assert_eq!(with("60s"), [""; 0]);
        for timeout in ["0s", "61s"] {
            let faults = with(timeout);
            let is_told = |fault: &String| fault.starts_with("link.lend_timeout: ");
            assert!(faults.iter().any(is_told), "{timeout}: {faults:?}");
        }
    }

    #[test]
    fn the_cache_of_a_base_image_follows_its_vms_without_a_record() {
        let image = "[[disk]]\nname = 'd'\nroams = true\nshared = true\n";
        let nbd = "origin = { nbd = \"nbd://h/e\" }\n";
        let with = |more: &str| faults_of(&[CACHE, LINK, PEER, image, ID, nbd, more].concat());
        assert_eq!(with(""), [""; 0]);
        assert_eq!(with("migration = { rate = '1MiB' }\n"), [""; 0]);
        for (text, key, remedy) in [
            (
                "migration = { strategy = 'none' }\n",
                "strategy",
                "leave roams out",
            ),
            (
                "migration = { dirty = 'ship' }\n",
                "dirty",
                "leave this out",
            ),
        ] {
            let faults = with(text);
            let key = format!("disk[0].migration.{key}: ");
            let is_told = |fault: &String| fault.starts_with(&key) && fault.contains(remedy);
            assert!(
                faults.iter().any(is_told) && faults.len() == 1,
                "{faults:?}"
            );
        }
        for (text, remedy) in [
            (vec![CACHE, LINK, image, ID, nbd], "[[peer]]"),
            (vec![CACHE, LINK, PEER, image, nbd], "the key id"),
        ] {
            let faults = faults_of(&text.concat());
            let is_told =
                |fault: &String| fault.starts_with("disk[0].roams: ") && fault.contains(remedy);
            assert!(faults.iter().any(is_told), "{remedy}: {faults:?}");
        }
    }

    #[test]
    fn a_vm_moves_with_as_many_disks_as_a_message_names() {
        let with = |count: usize| {
            let disks = (0..count).map(|number| {
                format!(
                    "[[disk]]\nname = 'd{number}'\nid = '{number:032x}'\nvm = 'web'\nroams = true\n\
                     origin = {{ file = '/o{number}' }}\n"
                )
            });
            faults_of(&[CACHE, LINK, PEER, &disks.collect::<String>()].concat())
        };
        assert_eq!(with(MOVE_TOGETHER_MAX), [""; 0]);
        let faults = with(MOVE_TOGETHER_MAX + 1);
        let is_told = |fault: &String| fault.contains("give some another vm");
        assert!(faults.iter().any(is_told), "{faults:?}");
    }

    #[test]
    fn how_a_cache_moves_is_said_of_a_disk_that_roams() {
        for strategy in ["none", "hotlist", "on-demand"] {
            let moves = format!("migration = {{ strategy = '{strategy}' }}\n");
            let sound = [CACHE, LINK, PEER, DISK, ID, &moves, FILE].concat();
            assert_eq!(faults_of(&sound), [""; 0]);
        }
        let ships = |strategy: &str| {
            let moves = format!("migration = {{ dirty = 'ship', strategy = '{strategy}' }}\n");
            faults_of(&[CACHE, LINK, PEER, DISK, ID, &moves, FILE].concat())
        };
        assert_eq!(ships("live"), [""; 0]);
        let faults = ships("on-demand");
        let is_told = |fault: &String| {
            fault.starts_with("disk[0].migration.dirty: ") && fault.contains("choose strategy")
        };
        assert!(faults.iter().any(is_told), "{faults:?}");
        let shared = "[daemon]\nowners_dir = \"/shared\"\n";
        let nbd = "origin = { nbd = \"nbd://h/e\" }\nmigration = { strategy = 'proactive' }\n";
        let faults = faults_of(&[shared, CACHE, LINK, PEER, DISK, ID, nbd].concat());
        let is_told = |fault: &String| fault.starts_with("disk[0].migration.strategy: ");
        assert!(faults.iter().any(is_told), "{faults:?}");
        let moves = "migration = { strategy = 'none' }\n";
        let stays = [CACHE, "[[disk]]\nname = \"d\"\n", moves, FILE].concat();
        let faults = faults_of(&stays);
        let is_told = |fault: &String| fault.starts_with("disk[0].migration: ");
        assert!(faults.iter().any(is_told), "{faults:?}");
    }
}
