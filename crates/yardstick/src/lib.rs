//! The replacement policies on the real traces, without the simulator around them: what the golden tests
//! and the speed table share.
//!
//! `policy` is pure and reads no files, so its proof on traces is here.

#![forbid(unsafe_code)]

pub mod admission;

use std::path::Path;
use std::sync::Arc;

use policy::replacement::belady::next_uses;
use policy::replacement::{Capacity, Dense, Replacement, Setup, Spec};
use trace::{Batch, Options, Records, Splitter};
use units::Bytes;

/// Keys that a policy is given in one call.
pub const BATCH_KEYS: usize = 1 << 13;

/// A trace's block accesses, numbered from 0 in order of first access.
///
/// # Panics
/// If the trace cannot be read.
pub fn keys_of(path: &Path) -> Vec<u32> {
    let mut opened = trace::open(path, &Options::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut splitter = Splitter::new(Bytes::kib(4));
    let (mut records, mut batch, mut keys) = (Records::new(), Batch::default(), Vec::new());
    while opened
        .reader
        .read_batch(&mut records)
        .expect("a good trace")
    {
        splitter.split(&records, &mut batch).expect("a good trace");
        keys.extend_from_slice(&batch.keys);
    }
    keys
}

/// A policy with an empty cache of `blocks`, told the future of `keys` if it must know it.
///
/// # Panics
/// If `blocks` is no capacity.
pub fn build(spec: &Spec, blocks: u64, keys: &[u32]) -> Box<dyn Replacement<u32> + Send> {
    let mut setup = Setup::new(Capacity::new(blocks).expect("a capacity"), Dense::new());
    if spec.about().knows_future {
        setup.future = Some(Arc::from(next_uses(keys)));
    }
    spec.build(setup)
}

/// Misses of a policy over all of `keys`.
pub fn misses(policy: &mut dyn Replacement<u32>, keys: &[u32]) -> u64 {
    let mut hits = vec![0; BATCH_KEYS];
    keys.chunks(BATCH_KEYS)
        .map(|batch| {
            let hits = &mut hits[..batch.len()];
            policy.run(batch, hits);
            let hits: u64 = hits.iter().map(|hit| u64::from(*hit)).sum();
            batch.len() as u64 - hits
        })
        .sum()
}
