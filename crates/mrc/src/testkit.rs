//! Requests with the traits of real ones, for the tests of this crate: skewed reuse, scans, writes,
//! discards, two volumes.

use crate::access::{Kind, Writes};
use crate::exact::Exact;
use policy::sampling::Run;
use units::{Map, Prng};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Access(Kind, Run),
    Discard(Run),
}

/// Requests that touch about 40 blocks each on average.
pub(crate) fn zipf_with_scans(seed: u64, count: usize) -> Vec<Request> {
    let mut dice = Prng::new(seed);
    let mut scan = 0;
    (0..count)
        .map(|_| {
            let volume = u32::from(dice.one_in(3));
            if dice.one_in(8) {
                scan += 256;
                let run = Run {
                    volume,
                    first: scan % 120_000,
                    count: 256,
                };
                return Request::Access(Kind::Read, run);
            }
            // The product of three dice is skewed towards zero.
            let first = dice.below(60) * dice.below(60) * dice.below(60);
            let run = Run {
                volume,
                first,
                count: 1 + dice.below(16),
            };
            if dice.one_in(50) {
                return Request::Discard(run);
            }
            let kind = if dice.one_in(3) {
                Kind::Write
            } else {
                Kind::Read
            };
            Request::Access(kind, run)
        })
        .collect()
}

/// The exact curve, over keys given out by first access.
pub(crate) fn exact(writes: Writes, requests: &[Request]) -> Exact {
    let mut exact = Exact::new(writes);
    let mut keys: Map<(u32, u64), u32> = Map::default();
    for request in requests {
        let (Request::Access(_, run) | Request::Discard(run)) = *request;
        let mut own = Vec::new();
        for block in run.first..run.first + run.count {
            let next = u32::try_from(keys.len()).unwrap();
            own.push(*keys.entry((run.volume, block)).or_insert(next));
        }
        match *request {
            Request::Access(kind, _) => exact.access(kind, &own),
            Request::Discard(_) => exact.remove(&own),
        }
    }
    exact
}
