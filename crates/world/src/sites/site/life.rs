//! What ends with the process of a host: its cache, what the host knows of the disk, and what is under way.

use super::borrowing::Arrival;
use super::lending::Lending;
use super::noted::Noted;
use super::shipping::Ships;
use super::standing::StandsBy;
use super::{Asker, Life, Step, Work};
use crate::process::Process;
use crate::sites::clients::Clients;
use crate::state_directory::StateDirectory;
use block_io::Verb;
use cache::{Request, RequestId};
use handoff::Ownership;
use std::collections::BTreeMap;
use units::{DiskSlot, Instant};

impl Work {
    /// When it goes on by itself; that may be when no request is under way.
    pub(super) fn next(self, is_idle: bool) -> Option<Instant> {
        match self.step {
            Step::At(at) => Some(at),
            Step::InFlight => is_idle.then_some(Instant::ZERO),
            Step::Commanded(_) => None,
            Step::Ghosts => Some(Instant::ZERO),
            Step::Shipped(until) => Some(until),
        }
    }
}

impl Life {
    pub(super) fn new(crash_at: Option<u64>, now: Instant) -> Self {
        Self {
            process: Process::new(1, crash_at),
            state_directory: StateDirectory::default(),
            ownership: None,
            opened: None,
            work: None,
            is_held: false,
            asked: BTreeMap::new(),
            clients: Clients::new(now),
            waits_since: None,
            retry_at: None,
            are_returns: true,
            arrival: Arrival::default(),
            borrowing: None,
            lending: Lending::default(),
            ships: Ships::default(),
            noted: Noted::default(),
            stands_by: StandsBy::default(),
        }
    }

    /// The disk, while it is here.
    pub(super) fn slot(&self) -> Option<DiskSlot> {
        self.process.disk(0).served_as()
    }

    /// Whether changes of guests are carried out.
    pub(super) fn serves(&self) -> bool {
        let serves = self.ownership.as_ref().is_some_and(Ownership::serves);
        serves && !self.is_held && self.slot().is_some()
    }

    /// The cache is asked, which has the disk.
    pub(super) fn ask_cache(&mut self, id: RequestId, asker: Asker, verb: Verb, now: Instant) {
        let disk = self.slot().expect("the disk is here");
        self.ask_standby(id, asker, (disk, verb), now);
    }

    /// The cache is asked about the disk of this slot, which may be the other host's.
    pub(super) fn ask_standby(
        &mut self,
        id: RequestId,
        asker: Asker,
        (disk, verb): (DiskSlot, Verb),
        now: Instant,
    ) {
        self.asked.insert(id, asker);
        let cache = self.process.cache_mut().expect("it serves");
        let vm = cache.facts().tenant_of(disk).expect("the disk is served");
        let request = Request { id, disk, vm, verb };
        cache.request(request, now);
    }
}
