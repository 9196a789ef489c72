//! Requests and the keys of their blocks, as the splitter hands them out.

use std::ops::Range;
use std::sync::Arc;

use units::Bytes;

use crate::record::{Op, Record, Role, VolumeIndex};

/// A record and the keys of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The record as it was read.
    pub record: Record,
    /// Its part of [`Batch::keys`].
    pub keys: Range<u32>,
}

/// Requests that follow each other and differ only in time and place: reads or writes of one block each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Their volume.
    pub volume: VolumeIndex,
    /// What they ask, a read or a write.
    pub op: Op,
    /// The length of each.
    pub length: Bytes,
    /// How many there are, at least one.
    pub count: u32,
}

impl Stretch {
    fn has(&self, record: &Record) -> bool {
        self.volume == record.volume && self.op == record.op && self.length == record.length
    }
}

/// Requests with the blocks that they access, in the order of the trace.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The requests.
    pub requests: Vec<Request>,
    /// Their blocks, one after the other.
    pub keys: Vec<u32>,
    stretches: Vec<Stretch>,
    times_us: Option<(u64, u64)>,
    roles: Arc<[Role]>,
}

impl Batch {
    /// When the first request came and when the last, in microseconds; `None` without requests.
    pub fn times_us(&self) -> Option<(u64, u64)> {
        self.times_us
    }

    /// The requests by [`Stretch`], if each of them reads or writes one block: request n then has key n. Whoever needs
    /// neither times nor places is spared the requests. `None` if any request has no block, more, or is a discard.
    pub fn stretches(&self) -> Option<&[Stretch]> {
        let has_all = !self.stretches.is_empty();
        has_all.then_some(&self.stretches)
    }

    /// The blocks of one of this batch's requests.
    pub fn keys_of(&self, request: &Request) -> &[u32] {
        &self.keys[request.keys.start as usize..request.keys.end as usize]
    }

    /// Whose a volume of these requests is; its own if the splitter was told nothing
    /// ([`super::Splitter::know`]).
    #[inline]
    pub fn role(&self, volume: VolumeIndex) -> Role {
        let known = self.roles.get(volume.to_usize());
        known.copied().unwrap_or(Role::own(volume))
    }

    /// Notes a request for one block in the stretch that it goes on or begins.
    #[inline]
    pub(super) fn note(&mut self, record: &Record) {
        match self.stretches.last_mut() {
            Some(stretch) if stretch.has(record) => stretch.count += 1,
            _ => self.stretches.push(Stretch {
                volume: record.volume,
                op: record.op,
                length: record.length,
                count: 1,
            }),
        }
    }

    /// Empty, for these records of volumes with these roles.
    pub(super) fn begin(&mut self, records: &[Record], roles: &Arc<[Role]>) {
        self.requests.clear();
        self.keys.clear();
        self.stretches.clear();
        if !Arc::ptr_eq(&self.roles, roles) {
            self.roles = Arc::clone(roles);
        }
        let ends = records.first().zip(records.last());
        self.times_us = ends.map(|(first, last)| (first.time_us, last.time_us));
        self.keys.reserve(records.len());
    }

    /// How many keys there are so far.
    pub(super) fn key_count(&self) -> u32 {
        u32::try_from(self.keys.len()).expect("a batch names few blocks")
    }

    /// Says no more that each request reads or writes one block.
    pub(super) fn forget_stretches(&mut self) {
        self.stretches.clear();
    }

    /// Adds requests that have one key each.
    pub(super) fn add_singles(&mut self, records: &[Record]) {
        let request = |(record, key): (&Record, u32)| Request {
            record: *record,
            keys: key..key + 1,
        };
        self.requests.extend(records.iter().zip(0..).map(request));
    }

    /// Whose each volume is, by place; empty if the splitter was told nothing.
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }
}
