//! Sequential runs: how they are found, and a cut-off for them over any policy.
//!
//! ```text
//!   a request of a disk ─► Runs::note(offset, length) ─► length of its run ─► Access::run
//!
//!   stream 0  [──────────────►next          a request that begins at a stream's `next` lengthens it;
//!   stream 1        [──►next                any other begins a stream in place of the one
//!   ...                                     that was lengthened longest ago
//!
//!   missed ─► run > cutoff? ── yes ─► Refuse(Sequential): the policy below never hears of it
//!                 └─ no ─► the policy below
//! ```
//!
//! A disk serves long runs well and flash gains little by them; a backup would fill the cache with what is
//! read once a day. The cut-off is SSEQR of HEC (J. Yang, N. Plasson, G. Gillis, N. Talagala,
//! S. Sundararaman, R. Wood, "HEC: improving endurance of high performance flash-based cache devices",
//! SYSTOR 2013): a run longer than 4 MiB is not admitted. Several streams at once are told apart, as bcache
//! does, since guests read several files at a time.

use units::{Bytes, Offset};

use super::sizes::exactly;
use super::{Access, Admission, Fate, Reason, Share, Staged, Verdict};
use crate::replacement::{BadValue, Key, Parameter};

/// The parameter that every policy has.
pub const CUTOFF: Parameter = Parameter {
    name: "cutoff",
    meaning: "sequential runs longer than this are refused",
    takes: "a size such as 4MiB, or none",
};

/// Reads the parameter's value.
pub(super) fn parse_cutoff(text: &str) -> Result<Option<Bytes>, BadValue> {
    match text {
        "none" => Ok(None),
        size => size.parse().map(Some).map_err(|_| BadValue),
    }
}

/// Writes the parameter's value.
pub(super) fn write_cutoff(cutoff: Option<Bytes>) -> String {
    cutoff.map_or_else(|| "none".to_owned(), exactly)
}

/// Streams of a disk that are told apart: more than guests interleave, few enough to be searched
/// in one cache line after another.
pub const STREAMS: usize = 16;
const _: () = assert!(STREAMS.is_power_of_two());

/// Finds the sequential runs of one disk.
///
/// The streams are in a ring, from the one that was lengthened last to the one that waits longest: a request that
/// belongs to none of them takes the oldest's place by one step back, and nothing is moved.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Where each stream goes on.
    next: [u64; STREAMS],
    lengths: [u64; STREAMS],
    /// The stream that was lengthened last.
    newest: usize,
}

impl Default for Runs {
    fn default() -> Self {
        Self::new()
    }
}

impl Runs {
    /// A disk that nobody has used.
    pub fn new() -> Self {
        Self {
            // No request begins at the greatest number.
            next: [u64::MAX; STREAMS],
            lengths: [0; STREAMS],
            newest: 0,
        }
    }

    /// A request of this many bytes from `offset` on: how long its run is with it. A request that does not
    /// begin where another ended is a run of its own length.
    #[inline]
    pub fn note(&mut self, offset: Offset, length: Bytes) -> Bytes {
        let begins = offset.get();
        let before = if self.next.contains(&begins) {
            self.bring_forward(begins)
        } else {
            self.newest = self.newest.wrapping_sub(1) % STREAMS;
            0
        };
        let run = before.saturating_add(length.get());
        self.next[self.newest] = begins.saturating_add(length.get());
        self.lengths[self.newest] = run;
        Bytes::new(run)
    }

    /// Makes the latest stream that goes on there the newest, those that were newer one older; its length.
    fn bring_forward(&mut self, begins: u64) -> u64 {
        let at = |age: usize| (self.newest + age) % STREAMS;
        let age = (0..STREAMS).find(|&age| self.next[at(age)] == begins);
        let age = age.expect("a stream goes on there");
        let length = self.lengths[at(age)];
        for age in (0..age).rev() {
            let (from, to) = (at(age), at(age + 1));
            self.next[to] = self.next[from];
            self.lengths[to] = self.lengths[from];
        }
        length
    }
}

/// A policy that never hears of what belongs to a long run and missed.
#[derive(Debug)]
pub(super) struct Cutoff<A> {
    pub(super) over: Bytes,
    pub(super) policy: A,
}

impl<K: Key, A: Admission<K>> Admission<K> for Cutoff<A> {
    fn missed(&mut self, key: K, access: Access, left: &mut Vec<(K, Fate)>) -> Verdict {
        if access.run > self.over {
            return Verdict::Refuse(Reason::Sequential);
        }
        self.policy.missed(key, access, left)
    }

    fn staged_hit(&mut self, key: K, access: Access, left: &mut Vec<(K, Fate)>) -> Staged {
        self.policy.staged_hit(key, access, left)
    }

    fn hit(&mut self, key: K, access: Access) {
        self.policy.hit(key, access);
    }

    fn rewrites(&mut self, key: K, access: Access, was_read: bool) -> bool {
        self.policy.rewrites(key, access, was_read)
    }

    fn evicted(&mut self, key: K) {
        self.policy.evicted(key);
    }

    fn withheld(&mut self, key: K) {
        self.policy.withheld(key);
    }

    fn remove(&mut self, key: K) -> bool {
        self.policy.remove(key)
    }

    fn resize(&mut self, share: Share, left: &mut Vec<(K, Fate)>) {
        self.policy.resize(share, left);
    }

    fn memory(&self) -> Bytes {
        self.policy.memory()
    }
}
