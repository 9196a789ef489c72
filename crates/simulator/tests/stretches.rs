//! Requests for one block each are counted the same by stretches of them and one by one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use simulator::{Interval, Policy, Study, Warmup, WriteMiss, WritePolicy};
use std::num::NonZeroUsize;
use std::path::Path;
use trace::Options;
use units::Bytes;

const TRACE: &str = "gen:zipf,blocks=400,requests=6000,reads=0.7,size=4KiB,seed=3";

/// A study whose runs look at each request if there is an interval at whose ends they take samples.
fn study(write_policy: WritePolicy, write_miss: WriteMiss, interval: Option<Interval>) -> Study {
    Study {
        policies: Policy::parse_list("lru,fifo,arc,s3-fifo").unwrap(),
        sizes: vec!["20blk".parse().unwrap(), "150blk".parse().unwrap()],
        tiers: Vec::new(),
        block: Bytes::kib(4),
        write_policy,
        write_miss: Some(write_miss),
        warmup: Warmup::None,
        interval,
        latency: None,
        heat: false,
        seed: 0,
        threads: NonZeroUsize::new(2).unwrap(),
    }
}

#[test]
fn stretches_of_single_blocks_count_as_their_requests_do() {
    use WriteMiss::{Allocate, Bypass};
    use WritePolicy::{Around, Back, Through};
    let writes = [
        (Through, Allocate),
        (Through, Bypass),
        (Around, Bypass),
        (Back, Allocate),
    ];
    for (write_policy, write_miss) in writes {
        let run = |interval| {
            let mut open = || Ok(trace::open(Path::new(TRACE), &Options::default())?.reader);
            let study = study(write_policy, write_miss, interval);
            study.run(TRACE, &mut open, &mut |_| {}).unwrap().runs
        };
        let stretches = run(None);
        let requests = run(Some(Interval::Accesses(500)));
        assert_eq!(stretches.len(), 8);
        for (one, other) in stretches.iter().zip(&requests) {
            assert!(one.counters.read_hits > 0 && one.counters.write_requests > 1000);
            assert_eq!(one.counters, other.counters, "{}", one.policy);
            assert_eq!(one.used.end, other.used.end, "{}", one.policy);
            assert_eq!(one.used.dirty_end, other.used.dirty_end, "{}", one.policy);
        }
    }
}
