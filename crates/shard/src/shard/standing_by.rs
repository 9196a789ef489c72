//! Disks that roam: what [`RoamingWords`] leaves to the shard, and their clients.
//!
//! Invariant: a disk is attached as the other host's only while its clients stand by.

use super::Shard;
use crate::client::Place;
use crate::control::{Attached, Roaming};
use crate::error::{Reply, ShardError};
use crate::own_requests::OwnRequests;
use crate::roaming_words::{Next, RoamingWords};
use crate::spec::DiskSpec;
use cache::OfDirty;
use frontend::Incoming;
use origin::Opened;
use units::{DiskId, DiskSlot};

impl Shard {
    pub(super) fn about_roaming(&mut self, disk: DiskId, what: Roaming) {
        let holds = matches!(what, Roaming::Hold { .. });
        let words = RoamingWords::of(
            &mut self.cache,
            &mut self.standbys,
            &mut self.clients,
            &mut self.disks,
            &mut self.jobs,
            &self.pool,
            self.now,
        );
        match words.handle(disk, what) {
            Next::Nothing => {}
            Next::Again(requests) => self.request_again(requests),
            Next::Poll(slot) => self.poll_origin(slot),
            Next::Stand {
                spec,
                origin,
                reply,
            } => self.stand(*spec, origin.map(|opened| *opened), reply),
            Next::StandDown(slot, reply) => {
                self.poll_origin(slot);
                self.detach(slot, OfDirty::Keep, reply);
            }
        }
        if holds && let Some(slot) = self.disks.slot_of(disk) {
            self.requests().pass_all(slot);
        }
    }

    pub(super) fn own_requests(&mut self) -> OwnRequests<'_> {
        let (disks, jobs) = (&self.disks, &mut self.jobs);
        OwnRequests::of(&mut self.cache, disks, jobs, self.now)
    }

    pub(super) fn request_again(&mut self, requests: Vec<(usize, Incoming)>) {
        for (client, incoming) in requests {
            self.requests().request(client, incoming);
        }
    }

    /// A disk is attached: if it roams, its clients are served, and what waits.
    pub(super) fn seat_clients(&mut self, disk: DiskId, slot: DiskSlot) {
        let Some(waiting) = self.standbys.taken(disk) else {
            return;
        };
        let place = Place::Standby(disk);
        let vm = self.cache.facts().tenant_of(slot);
        let count = self.clients.of(place).count();
        self.clients.move_all(place, slot.into(), vm);
        let known = self.disks.get_mut(slot).expect("it is attached");
        known.connected_all(count);
        // Rings that waited start.
        self.clients.touch_all_of(slot);
        self.request_again(waiting);
    }

    /// Attaches a disk as the other host's; its clients stand by.
    fn stand(&mut self, spec: DiskSpec, origin: Option<Opened>, reply: Reply<Attached>) {
        if self.disks.has(spec.id) {
            return reply(Err(ShardError::AlreadyAttached));
        }
        let cipher = match spec.cipher() {
            Ok(cipher) => cipher,
            Err(error) => return reply(Err(error)),
        };
        if let (Some(opened), Some(expected)) = (&origin, spec.size)
            && opened.geometry().size != expected
        {
            let found = opened.geometry().size;
            return reply(Err(ShardError::Size { expected, found }));
        }
        let origin = origin.map(|opened| opened.start(&self.ring, &self.pool));
        match self.standbys.others_origin(spec.id, origin) {
            Some(origin) => self.begin_attach(spec, cipher, origin, reply),
            None => reply(Err(ShardError::NoSuchDisk)),
        }
    }
}
