//! A disk that another host has, and whose cache is copied from there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use borrowing::Run;
use cache::Tenure;
use shard::{DiskSpec, Offer, ShardHandle};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use support::{DISK, Lab, PATIENCE, ask, stop};
use units::BlockIndex;

/// How often the disk is attached and detached.
const ROUNDS: u64 = 100;

fn stands_by(lab: &Lab, shard: &ShardHandle) -> DiskSpec {
    let spec = DiskSpec {
        tenure: Tenure::Standby,
        ..lab.spec()
    };
    let offer = Offer {
        name: spec.name.clone(),
        size: DISK,
        read_only: false,
        can_discard: true,
    };
    shard.roam(spec.id, offer, Arc::new(|_| {}));
    spec
}

#[test]
fn what_the_other_host_says_while_the_disk_is_detached_is_too_late() {
    let lab = Lab::new();
    let shard = lab.spawn();
    let spec = stands_by(&lab, &shard);
    for round in 0..ROUNDS {
        ask(|reply| shard.stand(spec.clone(), None, reply)).unwrap();
        let (gone, has_gone) = mpsc::channel();
        let run = Run {
            first: BlockIndex::new(round),
            count: 1,
        };
        shard.stand_down(spec.id, Box::new(move |result| gone.send(result).unwrap()));
        let result = loop {
            if let Ok(result) = has_gone.try_recv() {
                break result;
            }
            let (said, answer) = mpsc::channel();
            let said = Box::new(move |result: Result<(), _>| said.send(result.is_ok()).unwrap());
            shard.ahead().stale(spec.id, run, said);
            answer.recv_timeout(PATIENCE).unwrap();
            std::thread::sleep(Duration::from_micros(10 * (round % 20)));
        };
        result.unwrap();
    }
    stop(shard);
}
