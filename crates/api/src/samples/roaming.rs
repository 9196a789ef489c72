//! Disks of a made-up daemon that roam.

use super::{latency, name};
use crate::roaming::{
    CacheMove, FollowingImage, HandOver, HandOverCount, HandOverOutcome, HeldTime, MovePhase,
    PeerSession, RoamingDisk, RoamingDisks, RoamingRole,
};
use configuration::{Auto, Dirty, Strategy, Text};

/// A host with a disk that roams, and one that stands by while the link is down.
pub fn roaming() -> RoamingDisks {
    let held = |outcome| HeldTime {
        outcome,
        held: latency(12),
    };
    let mut standby = RoamingDisk {
        name: name("db"),
        moves_with: vec![name("db-log")],
        role: RoamingRole::Standby,
        left_bytes: None,
        cache_move: None,
        held_seconds: None,
        last_hand_over: None,
        ..roaming_disk()
    };
    standby.peer.stands = false;
    standby.peer.problem = Some("10.0.0.3:9810 cannot be reached".to_owned());
    standby.peer.remedy = Some("see that the peer's daemon runs".to_owned());
    RoamingDisks {
        host: Some("node-a".to_owned()),
        peers: vec![roaming_disk().peer],
        disks: vec![standby, roaming_disk()],
        images: vec![following_image()],
        held: HandOverOutcome::ALL.map(held).to_vec(),
    }
}

/// A base image whose cache follows its VMs.
fn following_image() -> FollowingImage {
    FollowingImage {
        name: name("debian"),
        id: "ffeeddccbbaa99887766554433221100".to_owned(),
        cache: name("main"),
        peer: roaming_disk().peer,
        phase: MovePhase::Ahead,
        coming: vec![name("web-1")],
        problem: None,
        rate: Text(Auto::Auto),
        came_bytes: 24 << 20,
        lent_bytes: 0,
        expected_hit_ratio: Some(0.5),
    }
}

/// A disk that roams, and is here.
pub fn roaming_disk() -> RoamingDisk {
    let count = |(outcome, count)| HandOverCount { outcome, count };
    RoamingDisk {
        name: name("web-1"),
        id: "00112233445566778899aabbccddeeff".to_owned(),
        vm: name("web-1"),
        moves_with: Vec::new(),
        cache: name("main"),
        role: RoamingRole::Owner,
        epoch: Some(7),
        peer: PeerSession {
            name: "node-b".to_owned(),
            address: "10.0.0.3:9810".to_owned(),
            stands: true,
            for_seconds: 3700.0,
            version: Some(1),
            sessions: 3,
            problem: None,
            remedy: None,
        },
        problem: None,
        remedy: None,
        left_bytes: Some(12 << 20),
        cache_move: Some(CacheMove {
            phase: MovePhase::Behind,
            strategy: Strategy::Live,
            rate: Text(Auto::Auto),
            came_bytes: 3 << 30,
            lent_bytes: 0,
            dirty: Dirty::Ship,
            shipped_bytes: 16 << 20,
            kept_bytes: 0,
            behind_bytes: Some(256 << 10),
            expected_hit_ratio: Some(0.96),
        }),
        held_seconds: None,
        last_hand_over: Some(HandOver {
            outcome: HandOverOutcome::Taken,
            peer: "node-b".to_owned(),
            ago_seconds: 125.0,
            held_seconds: 0.0213,
        }),
        hand_overs: HandOverOutcome::ALL
            .into_iter()
            .zip([2, 1, 0, 0])
            .map(count)
            .collect(),
    }
}
