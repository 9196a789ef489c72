//! The limits of the disks of a shard, and the clients' requests that wait for them.
//!
//! ```text
//!  client ─► gate, if the disk roams ─► limits ─► cache
//! ```
//!
//! Invariants:
//! - A request waits here, or it is with the cache: never both. To its client and to the gate it is in flight.
//! - A flush never waits: what it makes durable was answered before it came.

use crate::deadlines::Deadlines;
use frontend::limits::weight_of_range;
use frontend::{Incoming, Verb};
use throttle::{Limits, Throttle, Throttled};
use units::{Bytes, DiskSlot, Instant, Map};

/// A request and its client.
pub(crate) type Asked = (usize, Incoming);

/// The disks that have limits, or had some since they were attached.
#[derive(Default)]
pub(crate) struct Throttles {
    disks: Map<DiskSlot, Throttle<Asked>>,
    deadlines: Deadlines,
}

impl Throttles {
    /// These limits hold for a disk from now on. What waits passes as they allow.
    pub(crate) fn set(&mut self, disk: DiskSlot, limits: Limits) {
        if let Some(throttle) = self.disks.get_mut(&disk) {
            throttle.set(limits);
            self.deadlines.set(disk, throttle.next_deadline());
        } else if limits.is_any() {
            self.disks.insert(disk, Throttle::new(limits));
        }
    }

    /// A disk is gone.
    pub(crate) fn forget(&mut self, disk: DiskSlot) {
        self.disks.remove(&disk);
        self.deadlines.clear(disk);
    }

    /// What holds for a disk, and what has waited.
    pub(crate) fn of(&self, disk: DiskSlot) -> (Limits, Throttled) {
        let throttle = self.disks.get(&disk);
        throttle.map_or_else(Default::default, |throttle| {
            (throttle.limits(), throttle.throttled())
        })
    }

    /// A client has a request: it comes back if it passes now.
    pub(crate) fn request(
        &mut self,
        disk: DiskSlot,
        client: usize,
        incoming: Incoming,
        now: Instant,
    ) -> Option<Incoming> {
        if self.disks.is_empty() {
            return Some(incoming);
        }
        let (Some(throttle), Some(bytes)) = (self.disks.get_mut(&disk), bytes_of(&incoming.verb))
        else {
            return Some(incoming);
        };
        let passed = throttle.request((client, incoming), bytes, now);
        self.deadlines.set(disk, throttle.next_deadline());
        passed.map(|(_, incoming)| incoming)
    }

    /// When the first request that waits may pass.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first()
    }

    /// A request that has waited and passes now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Asked> {
        let disk = self.deadlines.due(now)?;
        let throttle = self.disks.get_mut(&disk)?;
        let asked = throttle.take_due(now);
        self.deadlines.set(disk, throttle.next_deadline());
        asked
    }

    /// Takes out the requests of a disk, or of one of its clients, that wait.
    pub(crate) fn take_out(
        &mut self,
        disk: DiskSlot,
        client: Option<usize>,
        now: Instant,
    ) -> Vec<Asked> {
        let Some(throttle) = self.disks.get_mut(&disk) else {
            return Vec::new();
        };
        let is_meant = |asked: &Asked| client.is_none_or(|client| client == asked.0);
        let out = throttle.take_out(is_meant, now);
        self.deadlines.set(disk, throttle.next_deadline());
        out
    }
}

/// What a request counts as: its payload, and less of a range that is only erased or prefetched. None for
/// one that has no limit.
fn bytes_of(verb: &Verb) -> Option<Bytes> {
    match verb {
        Verb::Read { length, .. } => Some(*length),
        Verb::Write { data, .. } => Some(Bytes::new(data.len() as u64)),
        Verb::Discard { length, .. }
        | Verb::WriteZeroes { length, .. }
        | Verb::Prefetch { length, .. } => Some(weight_of_range(*length)),
        Verb::Flush => None,
    }
}
