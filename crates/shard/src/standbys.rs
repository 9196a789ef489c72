//! The disks that roam: what is known of each whether this host has it or another one does, and which requests
//! wait for that to change.
//!
//! ```text
//!   standing by ── reads ──► told, answered by the owner's bytes
//!        │ ▲       changes ► parked, told
//!   taken│ │given
//!        ▼ │
//!   attached ── held: requests are parked, told ── served again ──► the cache
//! ```
//!
//! Invariants:
//! - A request is parked until it is answered, or passed to the cache: never both.
//! - The answer of the owner counts only while its read is parked: a read that was passed to the cache is
//!   answered by that.

use block_io::Verb;
use frontend::{Incoming, Offer};
use handoff::{Accepts, Evidence, Verdict};
use std::sync::Arc;
use units::{Bytes, DiskId, Duration, Instant, Map, Offset};

/// How long a client that has gone may take to connect again.
const RECONNECT_TIME: Duration = Duration::from_secs(1);

/// What a roaming disk's clients need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandbyWord {
    /// A client has a request that needs the disk to be here.
    Asked {
        /// Whether it was served when the disk was here last.
        is_old: bool,
    },
    /// A client of a standby reads.
    Read {
        /// Names the read in [`crate::ShardHandle::answer_read`].
        ticket: u64,
        /// From which byte.
        offset: Offset,
        /// How many bytes.
        length: Bytes,
    },
    /// The first client has come to the standby, or the last one has gone.
    Client {
        /// Whether one is there.
        is_there: bool,
    },
}

/// Tells what a roaming disk's clients need, from the shard's thread: it should do no more than pass that on.
pub type StandbyTell = Arc<dyn Fn(StandbyWord) + Send + Sync>;

/// What the owner of a roaming disk sees of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandbyLook {
    /// Whether the guest has evidently stopped.
    pub has_stopped: bool,
    /// Whether it has changed the disk since that came here.
    pub is_changed: bool,
}

/// What is seen of the client of the other host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingClient {
    /// It has connected.
    Came,
    /// It reads.
    Reads,
    /// It has gone.
    Gone,
}

/// A request that waits.
pub(crate) struct Parked {
    pub(crate) client: usize,
    pub(crate) incoming: Incoming,
    /// Of a read that the owner is asked for.
    ticket: Option<u64>,
}

struct Standby {
    offer: Offer,
    tell: StandbyTell,
    parked: Vec<Parked>,
    is_held: bool,
    is_changed: bool,
    clients: usize,
    evidence: Evidence,
    /// When the last client went.
    gone: Option<Instant>,
}

impl Standby {
    fn look(&mut self, now: Instant) -> StandbyLook {
        if self.gone.is_some_and(|gone| now >= gone + RECONNECT_TIME) {
            self.gone = None;
            self.evidence.client_gone();
        }
        StandbyLook {
            has_stopped: self.evidence.verdict(now) == Verdict::Stopped,
            is_changed: self.is_changed,
        }
    }
}

/// The disks that roam.
#[derive(Default)]
pub(crate) struct Standbys {
    disks: Map<DiskId, Standby>,
    tickets: u64,
}

impl Standbys {
    /// A disk roams from now on.
    pub(crate) fn enter(&mut self, disk: DiskId, offer: Offer, tell: StandbyTell) {
        let standby = Standby {
            offer,
            tell,
            parked: Vec::new(),
            is_held: false,
            is_changed: false,
            clients: 0,
            evidence: Evidence::new(Accepts::default()),
            gone: None,
        };
        self.disks.insert(disk, standby);
    }

    pub(crate) fn has(&self, disk: DiskId) -> bool {
        self.disks.contains_key(&disk)
    }

    pub(crate) fn offer(&self, disk: DiskId) -> Option<&Offer> {
        self.disks.get(&disk).map(|standby| &standby.offer)
    }

    /// The disks, by identity.
    pub(crate) fn all(&self) -> Vec<DiskId> {
        self.disks.keys().copied().collect()
    }

    fn get_mut(&mut self, disk: DiskId) -> Option<&mut Standby> {
        self.disks.get_mut(&disk)
    }

    /// A client has come.
    pub(crate) fn client_came(&mut self, disk: DiskId) {
        if let Some(standby) = self.get_mut(disk) {
            standby.clients += 1;
            standby.gone = None;
            standby.evidence.client_came();
            if standby.clients == 1 {
                (standby.tell)(StandbyWord::Client { is_there: true });
            }
        }
    }

    /// A client has gone.
    pub(crate) fn client_gone(&mut self, disk: DiskId, now: Instant) {
        if let Some(standby) = self.get_mut(disk) {
            standby.clients -= 1;
            if standby.clients == 0 {
                standby.gone = Some(now);
                (standby.tell)(StandbyWord::Client { is_there: false });
            }
        }
    }

    /// Something is seen of the other host's client.
    pub(crate) fn incoming(&mut self, disk: DiskId, seen: IncomingClient, now: Instant) {
        let Some(standby) = self.get_mut(disk) else {
            return;
        };
        match seen {
            IncomingClient::Came => standby.evidence.incoming_came(now),
            IncomingClient::Reads => standby.evidence.incoming_reads(now),
            IncomingClient::Gone => standby.evidence.incoming_gone(),
        }
    }

    /// A request of an attached disk has come: it comes back if the cache may have it.
    pub(crate) fn pass(
        &mut self,
        disk: DiskId,
        client: usize,
        incoming: Incoming,
        now: Instant,
    ) -> Option<Incoming> {
        let Some(standby) = self.get_mut(disk) else {
            return Some(incoming);
        };
        let is_flush = matches!(incoming.verb, Verb::Flush);
        if is_flush {
            standby.evidence.flush(now);
        } else {
            standby.evidence.request(now);
        }
        if standby.is_held {
            if !is_flush {
                (standby.tell)(StandbyWord::Asked { is_old: true });
            }
            let ticket = None;
            standby.parked.push(Parked {
                client,
                incoming,
                ticket,
            });
            return None;
        }
        let changes = match incoming.verb {
            Verb::Write { .. } | Verb::Discard { .. } | Verb::WriteZeroes { .. } => true,
            Verb::Read { .. } | Verb::Flush | Verb::Prefetch { .. } => false,
        };
        standby.is_changed |= changes;
        Some(incoming)
    }

    /// A request of a standby has come: it waits.
    pub(crate) fn park(&mut self, disk: DiskId, client: usize, incoming: Incoming, is_old: bool) {
        let ticket = self.tickets;
        let Some(standby) = self.disks.get_mut(&disk) else {
            return;
        };
        let ticket = match &incoming.verb {
            // One that was served before would go on over another guest's bytes.
            Verb::Read { offset, length } if !is_old => {
                self.tickets += 1;
                (standby.tell)(StandbyWord::Read {
                    ticket,
                    offset: *offset,
                    length: *length,
                });
                Some(ticket)
            }
            _ => {
                (standby.tell)(StandbyWord::Asked { is_old });
                None
            }
        };
        standby.parked.push(Parked {
            client,
            incoming,
            ticket,
        });
    }

    /// The read with this number, if it still waits.
    pub(crate) fn take_read(&mut self, disk: DiskId, ticket: u64) -> Option<Parked> {
        let standby = self.get_mut(disk)?;
        let mut parked = standby.parked.iter();
        let at = parked.position(|one| one.ticket == Some(ticket))?;
        Some(standby.parked.remove(at))
    }

    /// What waits and is chosen, in its order; it waits no more.
    pub(crate) fn take_parked(
        &mut self,
        disk: DiskId,
        mut is_chosen: impl FnMut(&Parked) -> bool,
    ) -> Vec<Parked> {
        let Some(standby) = self.get_mut(disk) else {
            return Vec::new();
        };
        let chosen = standby.parked.extract_if(.., |one| is_chosen(one));
        chosen.collect()
    }

    /// What the owner sees of its clients.
    pub(crate) fn look(&mut self, disk: DiskId, now: Instant) -> Option<StandbyLook> {
        self.get_mut(disk).map(|standby| standby.look(now))
    }

    /// Lets requests wait from now on. False if the guest runs, or, of a return, has changed the disk.
    pub(crate) fn hold(&mut self, disk: DiskId, is_return: bool, now: Instant) -> bool {
        let Some(standby) = self.get_mut(disk) else {
            return false;
        };
        let look = standby.look(now);
        let may = if is_return {
            !look.is_changed
        } else {
            look.has_stopped
        };
        standby.is_held |= may;
        may
    }

    pub(crate) fn is_held(&self, disk: DiskId) -> bool {
        self.disks.get(&disk).is_some_and(|standby| standby.is_held)
    }

    /// Lets requests pass from now on.
    pub(crate) fn release(&mut self, disk: DiskId) {
        if let Some(standby) = self.get_mut(disk) {
            standby.is_held = false;
        }
    }

    /// The disk has come here.
    pub(crate) fn taken(&mut self, disk: DiskId) {
        if let Some(standby) = self.get_mut(disk) {
            standby.is_held = false;
            standby.is_changed = false;
        }
    }
}
