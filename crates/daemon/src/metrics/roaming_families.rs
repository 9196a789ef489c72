//! The metrics of disks that roam, and of the link that they roam over.

use super::encode::{BUCKET_SECONDS, Buckets, Number, Scrape};
use super::family::{Family, Read, Series};
use api::roaming::{PeerSession, RoamingRole};

const PEER: &[&str] = &["peer"];

/// A series of each peer.
fn peers<'a>(snapshot: &'a Scrape, out: &mut Vec<Series<'a>>, value: impl Fn(&PeerSession) -> u64) {
    for peer in &snapshot.roaming.peers {
        out.push(Series {
            labels: vec![("peer", peer.name.as_str())],
            value: Number::Whole(value(peer)),
        });
    }
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "link_session",
        unit: None,
        help: "1 if a session with the peer stands, over which disks can roam, and 0 otherwise",
        labels: PEER,
        read: Read::Gauge(|snapshot, out| peers(snapshot, out, |peer| u64::from(peer.stands))),
    },
    Family {
        name: "link_sessions",
        unit: None,
        help: "Sessions with the peer that began: a link that is lost again and again has many",
        labels: PEER,
        read: Read::Counter(|snapshot, out| peers(snapshot, out, |peer| peer.sessions)),
    },
    Family {
        name: "roaming_disks",
        unit: None,
        help: "Disks that roam, by what this host is to them: owner, standby, claiming, taking, granting, giving, in-doubt, split",
        labels: &["role"],
        read: Read::Gauge(|snapshot, out| {
            if snapshot.roaming.host.is_none() {
                return;
            }
            for role in RoamingRole::ALL {
                let disks = &snapshot.roaming.disks;
                let count = disks.iter().filter(|disk| disk.role == role).count();
                out.push(Series {
                    labels: vec![("role", role.word())],
                    value: Number::Whole(count as u64),
                });
            }
        }),
    },
    Family {
        name: "hand_overs",
        unit: None,
        help: "Hand-overs of the disk, by how they ended: taken (it came here), given (it went to the peer), kept (it was claimed and held, and stayed here), failed (a VM waited for it in vain)",
        labels: &["disk", "vm", "cache", "outcome"],
        read: Read::Counter(|snapshot, out| {
            for disk in &snapshot.roaming.disks {
                for ended in &disk.hand_overs {
                    out.push(Series {
                        labels: vec![
                            ("disk", disk.name.as_str()),
                            ("vm", disk.vm.as_str()),
                            ("cache", disk.cache.as_str()),
                            ("outcome", ended.outcome.word()),
                        ],
                        value: Number::Whole(ended.count),
                    });
                }
            }
        }),
    },
    Family {
        name: "roaming_shipped",
        unit: Some("bytes"),
        help: "What the origin of the disk lacked and went to the peer, or came from there, ahead of a hand-over (direction: out, in)",
        labels: &["disk", "vm", "cache", "direction"],
        read: Read::Counter(|snapshot, out| {
            for disk in &snapshot.roaming.disks {
                let Some(moves) = &disk.cache_move else {
                    continue;
                };
                for (direction, bytes) in [("out", moves.shipped_bytes), ("in", moves.kept_bytes)] {
                    out.push(Series {
                        labels: vec![
                            ("disk", disk.name.as_str()),
                            ("vm", disk.vm.as_str()),
                            ("cache", disk.cache.as_str()),
                            ("direction", direction),
                        ],
                        value: Number::Whole(bytes),
                    });
                }
            }
        }),
    },
    Family {
        name: "roaming_copied",
        unit: Some("bytes"),
        help: "Cached blocks of the disk that came from the peer, or were lent to it (direction: in, out); of a base image, whose vm is its own name, those that followed its VMs",
        labels: &["disk", "vm", "cache", "direction"],
        read: Read::Counter(|snapshot, out| {
            let disks = snapshot.roaming.disks.iter().filter_map(|disk| {
                let moves = disk.cache_move.as_ref()?;
                let (came, lent) = (moves.came_bytes, moves.lent_bytes);
                Some((&disk.name, &disk.vm, &disk.cache, came, lent))
            });
            let images = snapshot.roaming.images.iter().map(|image| {
                let (came, lent) = (image.came_bytes, image.lent_bytes);
                (&image.name, &image.name, &image.cache, came, lent)
            });
            for (disk, vm, cache, came, lent) in disks.chain(images) {
                for (direction, bytes) in [("in", came), ("out", lent)] {
                    out.push(Series {
                        labels: vec![
                            ("disk", disk.as_str()),
                            ("vm", vm.as_str()),
                            ("cache", cache.as_str()),
                            ("direction", direction),
                        ],
                        value: Number::Whole(bytes),
                    });
                }
            }
        }),
    },
    Family {
        name: "roaming_behind",
        unit: Some("bytes"),
        help: "What the owner of the disk has written and the host that stands by for it does not have yet; not there while nothing is shipped",
        labels: &["disk", "vm", "cache"],
        read: Read::Gauge(|snapshot, out| {
            for disk in &snapshot.roaming.disks {
                let moves = disk.cache_move.as_ref();
                if let Some(behind) = moves.and_then(|moves| moves.behind_bytes) {
                    out.push(Series {
                        labels: vec![
                            ("disk", disk.name.as_str()),
                            ("vm", disk.vm.as_str()),
                            ("cache", disk.cache.as_str()),
                        ],
                        value: Number::Whole(behind),
                    });
                }
            }
        }),
    },
    Family {
        name: "hand_over_held",
        unit: Some("seconds"),
        help: "Time for which hand-overs held requests of this host's VMs, by how they ended as hand_overs: at the host that takes a disk from the first request that waited, at the one that gives it from the claim on",
        labels: &["outcome"],
        read: Read::Histogram(|snapshot, out| {
            for ended in &snapshot.roaming.held {
                out.push(Series {
                    labels: vec![("outcome", ended.outcome.word())],
                    value: Buckets(&ended.held, &BUCKET_SECONDS),
                });
            }
        }),
    },
];
