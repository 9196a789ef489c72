//! The disks that roam: whether this host has each of them or another one does is known to its [`Gate`], which
//! says what becomes of its clients' requests.
//!
//! Invariants:
//! - A request is in the gate until it is answered, or passed to the cache: never both.
//! - A disk in a slot of the cache has a gate that is here, or one that is about to: its clients are in that slot.

use crate::borrowed::{AskTell, BorrowedOrigin, Loans};
use crate::client::Place;
use crate::clients::Clients;
use crate::disk::RequestKind;
use crate::disks::Disks;
use crate::images::Images;
use crate::others_origin::{OriginBeside, OthersOrigin};
use block_io::{IoError, OriginGeometry, Payload, Verb};
use borrowing::{Ask, Changes, Run};
use frontend::{Incoming, Offer, RequestKey, Reservation};
use handoff::{Accepts, Evidence, Gate, Hold, IncomingClient, Look, Notice, Passage, Wants};
use origin::Origin;
use std::sync::Arc;
use units::{BLOCK_BYTES, Bytes, DiskId, DiskSlot, Duration, Instant, Map, Offset};

/// What a roaming disk needs of the other host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandbyNeeds {
    /// Its clients need something.
    Client(Notice),
    /// It was there before: its origin's reads need something that is cached there.
    Loan(Ask),
}

/// Tells what a roaming disk needs, from the shard's thread: it should do no more than pass that on.
pub type StandbyTell = Arc<dyn Fn(StandbyNeeds) + Send + Sync>;

/// A request that was passed to the cache and is answered.
pub(crate) struct Answered {
    /// Whose it was.
    pub(crate) request: (usize, RequestKey),
    pub(crate) failed: bool,
}

/// Requests that are to be made once more, and their clients.
type Again = Vec<(usize, Incoming)>;

/// What is noted for another host that copies blocks of a disk which is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// What guests change: it copies from the cache.
    Guests,
    /// What changes at the origin, whoever does that: it copies from there.
    Origin,
}

/// Another host copies blocks of a disk.
struct Watch {
    /// Where the disk was then.
    slot: DiskSlot,
    /// What has the changes at its origin, if these are noted.
    origin: Option<Loans>,
}

struct Standby {
    offer: Offer,
    tell: StandbyTell,
    gate: Gate<Incoming>,
    /// What lets the clients' rings run while the disk is here.
    reservation: Reservation,
    /// What it has borrowed since it came here, or while it stands by.
    loans: Option<Loans>,
    /// What its clients change here.
    changes: Changes<(usize, RequestKey)>,
    /// What the other host copies of it.
    watch: Option<Watch>,
}

impl Standby {
    fn tell(&self, notice: Option<Notice>) {
        if let Some(notice) = notice {
            (self.tell)(StandbyNeeds::Client(notice));
        }
    }
}

/// The disks that roam.
pub(crate) struct Standbys {
    disks: Map<DiskId, Standby>,
    /// How long a read waits for the other host.
    lend_timeout: Duration,
    /// How often a disk has come here.
    arrivals: u32,
    images: Images,
}

impl Standbys {
    /// Nothing roams yet. A read waits so long for the other host, before the origin answers it.
    pub(crate) fn new(lend_timeout: Duration) -> Self {
        Self {
            disks: Map::default(),
            lend_timeout,
            arrivals: 0,
            images: Images::default(),
        }
    }

    /// A disk roams from now on.
    pub(crate) fn enter(&mut self, disk: DiskId, offer: Offer, tell: StandbyTell, now: Instant) {
        let gate = Gate::new(Evidence::new(Accepts::default()), now);
        let reservation = Reservation::default();
        reservation.close();
        let standby = Standby {
            offer,
            tell,
            gate,
            reservation,
            loans: None,
            changes: Changes::default(),
            watch: None,
        };
        self.disks.insert(disk, standby);
    }

    pub(crate) fn has(&self, disk: DiskId) -> bool {
        self.disks.contains_key(&disk)
    }

    pub(crate) fn offer(&self, disk: DiskId) -> Option<&Offer> {
        self.disks.get(&disk).map(|standby| &standby.offer)
    }

    /// Base images whose caches follow their VMs.
    pub(crate) fn images(&mut self) -> &mut Images {
        &mut self.images
    }

    /// The origin of a disk that comes here: if it roams, something stands before it that may borrow.
    pub(crate) fn with_loans(&mut self, disk: DiskId, origin: Box<dyn Origin>) -> Box<dyn Origin> {
        let borrows = self.borrows(disk);
        let borrows = borrows.or_else(|| self.images.attached(disk, self.lend_timeout));
        match borrows {
            Some((loans, tell)) => Box::new(BorrowedOrigin::new(origin, loans, tell)),
            None => origin,
        }
    }

    /// What is in the place of the origin of a disk that another host has; its reads go to `beside`, if that is given.
    pub(crate) fn others_origin(
        &mut self,
        disk: DiskId,
        beside: Option<Box<dyn Origin>>,
    ) -> Option<Box<dyn Origin>> {
        let geometry = OriginGeometry {
            size: self.offer(disk)?.size,
            sector: Bytes::new(BLOCK_BYTES),
            can_discard: true,
            read_only: false,
        };
        let (loans, tell) = self.borrows(disk)?;
        if let Some(origin) = beside {
            return Some(Box::new(OriginBeside::new(origin)));
        }
        Some(Box::new(OthersOrigin::new(geometry, loans, tell)))
    }

    /// A disk borrows from now on, if it roams.
    fn borrows(&mut self, disk: DiskId) -> Option<(Loans, AskTell)> {
        let standby = self.disks.get_mut(&disk)?;
        self.arrivals += 1;
        let loans = Loans::new(u64::from(self.arrivals) << 32, self.lend_timeout);
        standby.loans = Some(loans.clone());
        let tell = standby.tell.clone();
        Some((loans, Arc::new(move |ask| tell(StandbyNeeds::Loan(ask)))))
    }

    /// The other host begins to copy blocks of a disk in this slot, of whose origin so many flushes have failed.
    pub(crate) fn watch(
        &mut self,
        disk: DiskId,
        what: Watched,
        (slot, failed_flushes): (DiskSlot, u64),
    ) {
        self.unwatch(disk);
        let Some(standby) = self.disks.get_mut(&disk) else {
            return;
        };
        let origin = match what {
            Watched::Guests => {
                standby.changes.watch(failed_flushes);
                None
            }
            Watched::Origin => {
                let loans = standby.loans.clone();
                loans.inspect(|loans| loans.watch(failed_flushes))
            }
        };
        standby.watch = Some(Watch { slot, origin });
    }

    /// It ends.
    pub(crate) fn unwatch(&mut self, disk: DiskId) {
        let standby = self.disks.get_mut(&disk);
        let watch = standby.and_then(|standby| {
            standby.changes.unwatch();
            standby.watch.take()
        });
        if let Some(origin) = watch.and_then(|watch| watch.origin) {
            origin.unwatch();
        }
    }

    /// What has changed since the last time, if everything of it is known.
    pub(crate) fn take_changes(
        &mut self,
        disk: DiskId,
        most: usize,
        failed_flushes: impl FnOnce(DiskSlot) -> u64,
    ) -> Option<Vec<Run>> {
        let standby = self.disks.get_mut(&disk)?;
        let watch = standby.watch.as_ref()?;
        let failed_flushes = failed_flushes(watch.slot);
        match &watch.origin {
            Some(origin) => origin.take_changes(most, failed_flushes),
            None => standby.changes.take(most, failed_flushes),
        }
    }

    /// What a disk has borrowed since it came here.
    pub(crate) fn loans(&self, disk: DiskId) -> Option<&Loans> {
        match self.disks.get(&disk) {
            Some(standby) => standby.loans.as_ref(),
            None => self.images.loans(disk),
        }
    }

    /// What the clients of a disk that roams reserve.
    pub(crate) fn reservation(&self, disk: DiskId) -> Option<Reservation> {
        let standby = self.disks.get(&disk);
        standby.map(|standby| standby.reservation.clone())
    }

    fn gate(&mut self, disk: DiskId) -> Option<&mut Gate<Incoming>> {
        self.disks.get_mut(&disk).map(|standby| &mut standby.gate)
    }

    /// A client has come.
    pub(crate) fn client_came(&mut self, disk: DiskId, client: usize) {
        if let Some(standby) = self.disks.get_mut(&disk) {
            let notice = standby.gate.client_came(client);
            standby.tell(notice);
        }
    }

    /// A client has gone, while requests of it may be carried out: those that wait fail, and nobody hears of that.
    pub(crate) fn client_hung_up(
        &mut self,
        disk: DiskId,
        client: usize,
        clients: &mut Clients,
    ) -> Again {
        let waiting = self.gate(disk).map(|gate| gate.hung_up(client));
        let waiting = waiting.unwrap_or_default().into_iter();
        fail(waiting.map(|request| (client, request)).collect(), clients)
    }

    /// A client has gone.
    pub(crate) fn client_gone(&mut self, disk: DiskId, client: usize, now: Instant) {
        if let Some(standby) = self.disks.get_mut(&disk) {
            let notice = standby.gate.client_gone(client, now);
            standby.tell(notice);
        }
    }

    /// A client has a request: the one that comes back is for the cache.
    pub(crate) fn request(
        &mut self,
        disk: DiskId,
        client: usize,
        incoming: Incoming,
        clients: &mut Clients,
        now: Instant,
    ) -> Option<Incoming> {
        let Some(standby) = self.disks.get_mut(&disk) else {
            return Some(incoming);
        };
        let mut incoming = incoming;
        loop {
            let wants = wants(&incoming.verb);
            let (answered, result) = match standby.gate.request(client, wants, incoming, now) {
                Passage::Serve(passed) => {
                    if let Some((offset, length)) = changed(&passed.verb) {
                        let request = (client, passed.key);
                        standby.changes.begins(request, offset, length);
                    }
                    return Some(passed);
                }
                Passage::Wait(notice) => {
                    standby.tell(notice);
                    return None;
                }
                Passage::Done(done) => (done, Ok(Payload::new())),
                Passage::Fail(failed) => (failed, Err(IoError::Failed)),
            };
            incoming = clients.answer(client, answered.key, result)?;
            let kind = RequestKind::of(&incoming.verb);
            clients.get_mut(client).begin(incoming.key, kind, now);
        }
    }

    /// A client was polled: its rings may have started or stopped, or wait to be started.
    pub(crate) fn look_at_rings(&mut self, disk: DiskId, client: usize, clients: &mut Clients) {
        let Some(standby) = self.disks.get_mut(&disk) else {
            return;
        };
        standby.gate.do_rings_run(standby.reservation.is_taken());
        if standby.reservation.take_wanted() {
            let (may_start, notice) = standby.gate.rings_wait(client);
            standby.tell(notice);
            if may_start {
                let own = Reservation::default();
                clients.get_mut(client).connection_mut().reserve_in(own);
                clients.touch(client);
            }
        }
    }

    /// A request that was passed to the cache is answered.
    pub(crate) fn answered(&mut self, disk: DiskId, answered: &Answered, now: Instant) {
        if let Some(standby) = self.disks.get_mut(&disk) {
            standby.gate.answered(now);
            standby.changes.ends(&answered.request, answered.failed);
        }
    }

    /// What is seen of a disk's clients.
    pub(crate) fn look(&mut self, disk: DiskId, now: Instant) -> Option<Look> {
        self.gate(disk).map(|gate| gate.look(now))
    }

    /// The slot of a disk that is here, and whose clients are served.
    pub(crate) fn served(&self, disk: DiskId, disks: &Disks) -> Option<DiskSlot> {
        let slot = disks.serving(disk).ok()?;
        let standby = self.disks.get(&disk)?;
        standby.gate.is_serving().then_some(slot)
    }

    /// The owner's bytes have come, or do not come: the read is answered, if it still waits.
    pub(crate) fn answer_read(
        &mut self,
        disk: DiskId,
        ticket: u64,
        result: Result<Payload, IoError>,
        clients: &mut Clients,
    ) -> Again {
        let read = self.gate(disk).and_then(|gate| gate.take_read(ticket));
        let more = read.and_then(|(client, read)| {
            let more = clients.answer(client, read.key, result)?;
            Some((client, more))
        });
        more.into_iter().collect()
    }

    /// What is seen of the other host's client.
    pub(crate) fn incoming(&mut self, disk: DiskId, seen: IncomingClient, now: Instant) {
        if let Some(gate) = self.gate(disk) {
            gate.incoming(seen, now);
        }
    }

    /// Lets requests wait from now on, and rings, if that is right.
    pub(crate) fn hold(&mut self, disk: DiskId, why: Hold, now: Instant) -> bool {
        let Some(standby) = self.disks.get_mut(&disk) else {
            return false;
        };
        let may = standby.gate.hold(why, now);
        if may {
            standby.reservation.close();
        }
        may
    }

    /// Lets requests be served from now on, if the disk is here.
    pub(crate) fn release(&mut self, disk: DiskId) -> Again {
        let Some(standby) = self.disks.get_mut(&disk) else {
            return Vec::new();
        };
        let waiting = standby.gate.release();
        if standby.gate.is_serving() {
            standby.reservation.open();
        }
        waiting
    }

    /// The disk has come here. What waits, if it roams.
    pub(crate) fn taken(&mut self, disk: DiskId) -> Option<Again> {
        let standby = self.disks.get_mut(&disk)?;
        standby.reservation.open();
        Some(standby.gate.taken())
    }

    /// The disk goes elsewhere, if it is not served: what waits.
    pub(crate) fn given(&mut self, disk: DiskId) -> Option<Again> {
        let standby = self.disks.get_mut(&disk)?;
        if standby.gate.is_serving() {
            return None;
        }
        standby.loans = None;
        Some(standby.gate.given())
    }

    /// What waits fails.
    pub(crate) fn fail(&mut self, disk: DiskId, clients: &mut Clients) -> Again {
        let Some(standby) = self.disks.get_mut(&disk) else {
            return Vec::new();
        };
        let (waiting, notice) = standby.gate.fail();
        standby.tell(notice);
        fail(waiting, clients)
    }

    /// The clients that a disk was taken from get errors for ever.
    pub(crate) fn end_old(&mut self, disk: DiskId, clients: &mut Clients) -> Again {
        let Some(standby) = self.disks.get_mut(&disk) else {
            return Vec::new();
        };
        let (ended, notice) = standby.gate.end_old();
        standby.tell(notice);
        clients.touch_all_of(Place::Standby(disk));
        fail(ended, clients)
    }

    /// The shard stops: the clients of disks that are elsewhere go.
    pub(crate) fn end(&mut self, clients: &mut Clients, farewell: Instant) {
        for (disk, standby) in &mut self.disks {
            clients.close(Place::Standby(*disk), farewell);
            // A connection that closes asks nothing more.
            let (waiting, _) = standby.gate.fail();
            let _ = fail(waiting, clients);
        }
    }
}

fn fail(waiting: Again, clients: &mut Clients) -> Again {
    let answer = |(client, request): (usize, Incoming)| {
        let more = clients.answer(client, request.key, Err(IoError::Failed))?;
        Some((client, more))
    };
    waiting.into_iter().filter_map(answer).collect()
}

/// What a request changes, if it changes anything.
fn changed(verb: &Verb) -> Option<(Offset, Bytes)> {
    match verb {
        Verb::Write { offset, data, .. } => Some((*offset, Bytes::new(data.len() as u64))),
        Verb::Discard { offset, length } | Verb::WriteZeroes { offset, length, .. } => {
            Some((*offset, *length))
        }
        Verb::Read { .. } | Verb::Flush | Verb::Prefetch { .. } => None,
    }
}

fn wants(verb: &Verb) -> Wants {
    match verb {
        Verb::Read { offset, length } => Wants::Read {
            offset: *offset,
            length: *length,
        },
        Verb::Write { .. } | Verb::Discard { .. } | Verb::WriteZeroes { .. } => Wants::Change,
        Verb::Flush => Wants::Flush,
        Verb::Prefetch { .. } => Wants::Hint,
    }
}
