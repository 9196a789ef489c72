//! Requests and the keys of their blocks, as the splitter hands them out.

use std::ops::Range;
use std::sync::Arc;

use crate::record::{Record, Role, VolumeIndex};
use crate::records::{Records, Stretch};

/// A record and the keys of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The record as it was read.
    pub record: Record,
    /// Its part of [`Batch::keys`].
    pub keys: Range<u32>,
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

    /// The blocks of the request at a place, whether the requests are there or not.
    ///
    /// # Panics
    /// If there are fewer requests.
    #[inline]
    pub(crate) fn keys_at(&self, place: usize) -> &[u32] {
        match self.requests.get(place) {
            Some(request) => self.keys_of(request),
            None => &self.keys[place..=place],
        }
    }

    /// Whose a volume of these requests is; its own if the splitter was told nothing
    /// ([`super::Splitter::know`]).
    #[inline]
    pub fn role(&self, volume: VolumeIndex) -> Role {
        let known = self.roles.get(volume.to_usize());
        known.copied().unwrap_or(Role::own(volume))
    }

    /// Empty, for these records of volumes with these roles.
    pub(super) fn begin(&mut self, records: &Records, roles: &Arc<[Role]>) {
        self.requests.clear();
        self.keys.clear();
        self.stretches.clear();
        if !Arc::ptr_eq(&self.roles, roles) {
            self.roles = Arc::clone(roles);
        }
        let times_us = records.times_us();
        self.times_us = times_us.first().copied().zip(times_us.last().copied());
        self.keys.reserve(records.len());
    }

    /// How many keys there are so far.
    pub(super) fn key_count(&self) -> u32 {
        u32::try_from(self.keys.len()).expect("a batch names few blocks")
    }

    /// Says that each request reads or writes one block.
    pub(super) fn set_stretches(&mut self, records: &Records) {
        let stretches = records.stretches().map(|(stretch, _)| *stretch);
        self.stretches.extend(stretches);
    }

    /// Adds requests that have one key each.
    pub(super) fn add_singles(&mut self, records: &Records) {
        let request = |(record, key)| Request {
            record,
            keys: key..key + 1,
        };
        self.requests.extend(records.iter().zip(0..).map(request));
    }

    /// Whose each volume is, by place; empty if the splitter was told nothing.
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }
}
