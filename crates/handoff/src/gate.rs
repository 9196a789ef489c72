//! The requests of a disk's clients while the disk roams: which are carried out, which wait, and which fail.
//!
//! ```text
//!   elsewhere ── reads ────► wait for the owner's bytes
//!      │  ▲      changes ──► wait for the disk
//! taken│  │given
//!      ▼  │
//!     here ── served; while it is held requests wait for what becomes of the hand-over
//! ```
//!
//! Invariants:
//! - A request waits until it is taken out to be answered, or to be asked once more: never both.
//! - The owner's bytes answer a read only while that waits.
//! - The requests of a client that the disk was taken from do not read another owner's bytes: its guest goes on
//!   only with the disk as it left it.

use crate::event::Client;
use crate::evidence::{Evidence, Traces, Verdict, verdict_of};
use crate::guard::{Guard, holds};
use std::collections::{BTreeMap, BTreeSet};
use units::{Bytes, Duration, Instant, Offset};

/// How long a client that has gone may take to connect again.
const RECONNECT_TIME: Duration = Duration::from_secs(1);

/// What a request is to the disk's hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// It reads bytes.
    Read {
        /// From which byte.
        offset: Offset,
        /// How many.
        length: Bytes,
    },
    /// It changes bytes.
    Change,
    /// It flushes.
    Flush,
    /// It is a hint, which may be ignored.
    Hint,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage<R> {
    /// The cache carries it out; [`Gate::answered`] follows.
    Serve(R),
    /// Nothing is to be done for it.
    Done(R),
    /// It fails.
    Fail(R),
    /// It waits.
    Wait(Option<Notice>),
}

/// What the clients need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A client has a request that needs the disk to be here.
    Asked(Client),
    /// A client reads the disk, which is elsewhere.
    Read {
        /// Names the read in [`Gate::take_read`].
        ticket: u64,
        /// From which byte.
        offset: Offset,
        /// How many.
        length: Bytes,
    },
    /// The first client has come, or the last one has gone.
    Client {
        /// Whether one is there.
        is_there: bool,
    },
}

/// What is seen of the clients of a disk that is here, or of all disks of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether the guest has evidently stopped, or after what time it has, if it is silent until then.
    pub verdict: Verdict,
    /// When this was seen.
    pub now: Instant,
    /// Whether it has changed the disk since that came here.
    pub is_changed: bool,
    /// What says so.
    pub traces: Traces,
}

impl Look {
    /// What is seen of a VM whose disks look so: whether it has stopped, and whether it has changed one of them.
    ///
    /// `None` if it has no disk.
    pub fn of_vm(looks: &[Self]) -> Option<(Verdict, bool)> {
        let traces: Vec<_> = looks.iter().map(|look| look.traces).collect();
        let now = looks.iter().map(|look| look.now).max()?;
        let is_changed = looks.iter().any(|look| look.is_changed);
        Some((verdict_of(&traces, now), is_changed))
    }
}

/// Why requests are to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The disk goes back to whom it was taken from: right while it is unchanged.
    Return,
    /// The guest has evidently stopped: right while nothing else is seen of it.
    Stopped(Traces),
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
    /// Its daemon has died, and is back without it.
    Lost,
    /// None yet; but it was announced that the VM is about to move.
    Announced,
    /// That is withdrawn, or has ended.
    Withdrawn,
    /// Its guest asks for the disk, while the one here shows no sign that it has stopped.
    Runs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Elsewhere,
    Here {
        /// Requests wait for what becomes of the hand-over.
        is_held: bool,
        is_changed: bool,
    },
}

/// How a client stands to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It was not served before the disk was given away.
    New,
    /// It was; it is served again only if the disk comes back unchanged.
    Old,
    /// The disk was changed elsewhere since it was served.
    Ended,
}

#[derive(Debug)]
struct Waiting<R> {
    client: usize,
    request: R,
    /// Of a read that the owner is asked for.
    ticket: Option<u64>,
}

/// The clients of a disk that roams, and their requests `R`. Clients are named by numbers of the caller.
#[derive(Debug)]
pub struct Gate<R> {
    place: Place,
    clients: BTreeMap<usize, Standing>,
    waiting: Vec<Waiting<R>>,
    /// The clients whose rings wait to be started.
    rings_wait: BTreeSet<usize>,
    do_rings_run: bool,
    /// Requests that are being carried out.
    served: usize,
    tickets: u64,
    evidence: Evidence,
    /// When the last client went.
    gone: Option<Instant>,
}

impl<R> Gate<R> {
    /// A disk that is elsewhere. A client may have been there before this host's daemon was started: it has the time
    /// to connect again that one has which goes.
    pub fn new(mut evidence: Evidence, now: Instant) -> Self {
        evidence.client_came();
        Self {
            place: Place::Elsewhere,
            clients: BTreeMap::new(),
            waiting: Vec::new(),
            rings_wait: BTreeSet::new(),
            do_rings_run: false,
            served: 0,
            tickets: 0,
            evidence,
            gone: Some(now),
        }
    }

    /// A client has come.
    pub fn client_came(&mut self, client: usize) -> Option<Notice> {
        self.clients.insert(client, Standing::New);
        self.gone = None;
        self.evidence.client_came();
        let is_there = true;
        (self.clients.len() == 1).then_some(Notice::Client { is_there })
    }

    /// A client has gone. Nothing of it waits; what is being carried out for it may still be.
    pub fn client_gone(&mut self, client: usize, now: Instant) -> Option<Notice> {
        self.clients.remove(&client)?;
        self.rings_wait.remove(&client);
        let is_there = false;
        self.clients.is_empty().then(|| {
            self.gone = Some(now);
            // They were not stopped, which would prove something of who comes next.
            self.do_rings_run = false;
            self.evidence.rings_gone();
            Notice::Client { is_there }
        })
    }

    /// A client has gone, and requests of it may still be carried out; [`Gate::client_gone`] follows then. What waits is
    /// given back: nobody waits for the disk with it any more.
    pub fn hung_up(&mut self, client: usize) -> Vec<R> {
        let theirs = self.waiting.extract_if(.., |one| one.client == client);
        theirs.map(|one| one.request).collect()
    }

    /// Something is seen of the other host's client.
    pub fn incoming(&mut self, seen: IncomingClient, now: Instant) {
        match seen {
            IncomingClient::Came => self.evidence.incoming_came(now),
            IncomingClient::Reads => self.evidence.incoming_reads(now),
            IncomingClient::Announced => self.evidence.announced(),
            IncomingClient::Withdrawn => self.evidence.announcement_ended(),
            IncomingClient::Runs => self.evidence.incoming_runs(),
            IncomingClient::Gone => self.evidence.incoming_gone(),
            IncomingClient::Lost => self.evidence.incoming_lost(now),
        }
    }

    /// The rings of a client (vhost-user) are about to start; the caller lets them start only while the disk is here
    /// and not held, and asks again then. True if they may start nevertheless, since all that comes from them fails.
    ///
    /// # Panics
    ///
    /// If the client has not come.
    pub fn rings_wait(&mut self, client: usize) -> (bool, Option<Notice>) {
        let asker = match (self.clients[&client], self.place) {
            (Standing::Ended, _) => return (true, None),
            (_, Place::Here { .. }) | (Standing::Old, Place::Elsewhere) => Client::Old,
            (Standing::New, Place::Elsewhere) => Client::New,
        };
        let is_new = self.rings_wait.insert(client);
        (false, is_new.then_some(Notice::Asked(asker)))
    }

    /// Whether rings of a client (vhost-user) run.
    pub fn do_rings_run(&mut self, run: bool) {
        if std::mem::replace(&mut self.do_rings_run, run) != run {
            if run {
                self.evidence.ring_started();
            } else {
                self.evidence.rings_stopped();
            }
        }
    }

    /// A client has a request.
    ///
    /// # Panics
    ///
    /// If the client has not come.
    pub fn request(&mut self, client: usize, wants: Wants, request: R, now: Instant) -> Passage<R> {
        let standing = self.clients[&client];
        if standing == Standing::Ended {
            return Passage::Fail(request);
        }
        match &mut self.place {
            Place::Elsewhere => self.stand_by(client, standing, wants, request),
            Place::Here {
                is_held,
                is_changed,
            } => {
                if wants == Wants::Flush {
                    self.evidence.flush(now);
                } else {
                    self.evidence.request(now);
                }
                if *is_held && holds(Guard::HeldRequestsWait) {
                    // QEMU flushes when it stops a VM, and that may be now.
                    let notice = (wants != Wants::Flush).then_some(Notice::Asked(Client::Old));
                    self.wait(client, request, None);
                    Passage::Wait(notice)
                } else {
                    *is_changed |= wants == Wants::Change;
                    self.served += 1;
                    Passage::Serve(request)
                }
            }
        }
    }

    fn stand_by(
        &mut self,
        client: usize,
        standing: Standing,
        wants: Wants,
        request: R,
    ) -> Passage<R> {
        let is_old = standing == Standing::Old && holds(Guard::OldClientsWait);
        match wants {
            // What was written before is at the origin, or was not written here.
            Wants::Flush | Wants::Hint => Passage::Done(request),
            Wants::Read { offset, length } if !is_old => {
                let ticket = self.tickets;
                self.tickets += 1;
                self.wait(client, request, Some(ticket));
                Passage::Wait(Some(Notice::Read {
                    ticket,
                    offset,
                    length,
                }))
            }
            Wants::Read { .. } | Wants::Change => {
                self.wait(client, request, None);
                let client = if is_old { Client::Old } else { Client::New };
                Passage::Wait(Some(Notice::Asked(client)))
            }
        }
    }

    fn wait(&mut self, client: usize, request: R, ticket: Option<u64>) {
        self.waiting.push(Waiting {
            client,
            request,
            ticket,
        });
    }

    /// A request that was served is answered.
    pub fn answered(&mut self, now: Instant) {
        self.served -= 1;
        self.evidence.answered(now);
    }

    /// What is seen of the clients. A guest that waits for an answer has not stopped.
    pub fn look(&mut self, now: Instant) -> Look {
        if self.gone.is_some_and(|gone| now >= gone + RECONNECT_TIME) {
            self.gone = None;
            self.evidence.client_gone();
        }
        let waits = self.served > 0 || !self.waiting.is_empty();
        let traces = self.evidence.traces(waits);
        let is_changed = matches!(
            self.place,
            Place::Here {
                is_changed: true,
                ..
            }
        );
        Look {
            verdict: verdict_of(&[traces], now),
            now,
            is_changed,
            traces,
        }
    }

    /// Whether the disk is here, and requests are served.
    pub fn is_serving(&self) -> bool {
        matches!(self.place, Place::Here { is_held: false, .. })
    }

    /// Whether the disk is here, and requests wait.
    pub fn is_held(&self) -> bool {
        matches!(self.place, Place::Here { is_held: true, .. })
    }

    /// Lets requests wait from now on. False if that is not right any more, or if the disk is elsewhere.
    pub fn hold(&mut self, why: Hold, now: Instant) -> bool {
        let look = self.look(now);
        let Place::Here { is_held, .. } = &mut self.place else {
            return false;
        };
        let may = match why {
            Hold::Return => !look.is_changed,
            Hold::Stopped(traces) => look.traces == traces,
        };
        *is_held |= may;
        may
    }

    /// Lets requests be served from now on, if the disk is here. What waits is to be asked once more.
    pub fn release(&mut self) -> Vec<(usize, R)> {
        if let Place::Here { is_held, .. } = &mut self.place {
            *is_held = false;
        }
        self.rings_wait.clear();
        self.take_all()
    }

    /// The disk has come here. What waits is to be asked once more.
    pub fn taken(&mut self) -> Vec<(usize, R)> {
        self.place = Place::Here {
            is_held: false,
            is_changed: false,
        };
        self.change_standings(|standing| match standing {
            Standing::New | Standing::Old => Standing::New,
            Standing::Ended => Standing::Ended,
        });
        self.rings_wait.clear();
        self.take_all()
    }

    /// The disk goes elsewhere. What waits is to be asked once more.
    pub fn given(&mut self) -> Vec<(usize, R)> {
        self.place = Place::Elsewhere;
        self.change_standings(|standing| match standing {
            Standing::New | Standing::Old => Standing::Old,
            Standing::Ended => Standing::Ended,
        });
        self.take_all()
    }

    /// Ends the clients that the disk was taken from: their requests fail from now on, and those that wait, which are
    /// given back. Whoever else waits for the disk asks once more.
    pub fn end_old(&mut self) -> (Vec<(usize, R)>, Option<Notice>) {
        self.change_standings(|standing| match standing {
            Standing::Old if holds(Guard::OldClientsEnd) => Standing::Ended,
            other => other,
        });
        let clients = &self.clients;
        let is_ended = |one: &Waiting<R>| clients.get(&one.client) == Some(&Standing::Ended);
        let ended = self.waiting.extract_if(.., |one| is_ended(one));
        let ended = ended.map(|one| (one.client, one.request)).collect();
        self.rings_wait
            .retain(|client| clients.get(client) != Some(&Standing::Ended));
        let asks = self.waiting.iter().any(|one| one.ticket.is_none());
        let asks = asks || !self.rings_wait.is_empty();
        (ended, asks.then_some(Notice::Asked(Client::New)))
    }

    /// Clients have waited as long as they may. What waits is given back, to fail; rings, for which nothing can
    /// fail, go on waiting, and ask once more.
    pub fn fail(&mut self) -> (Vec<(usize, R)>, Option<Notice>) {
        let waiting = self.take_all();
        let clients = self.rings_wait.iter().map(|client| self.clients[client]);
        let are_old = clients.clone().all(|standing| standing == Standing::Old);
        let client = if are_old { Client::Old } else { Client::New };
        let asks = clients.count() > 0;
        (waiting, asks.then_some(Notice::Asked(client)))
    }

    fn take_all(&mut self) -> Vec<(usize, R)> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting.map(|one| (one.client, one.request)).collect()
    }

    /// The read with this number, if it still waits: it waits no more.
    pub fn take_read(&mut self, ticket: u64) -> Option<(usize, R)> {
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|one| one.ticket == Some(ticket))?;
        let one = self.waiting.remove(at);
        Some((one.client, one.request))
    }

    fn change_standings(&mut self, change: impl Fn(Standing) -> Standing) {
        for standing in self.clients.values_mut() {
            *standing = change(*standing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Accepts;

    const NOW: Instant = Instant::from_nanos(0);
    const READ: Wants = Wants::Read {
        offset: Offset::new(0),
        length: Bytes::new(4096),
    };

    /// A disk that is elsewhere, with one client.
    fn standby() -> Gate<&'static str> {
        let mut gate = Gate::new(Evidence::new(Accepts::default()), NOW);
        assert_eq!(gate.client_came(7), Some(Notice::Client { is_there: true }));
        gate
    }

    /// A disk that was here and was given away, with the client that it was taken from.
    fn taken_from() -> Gate<&'static str> {
        let mut gate = standby();
        gate.taken();
        assert!(gate.hold(Hold::Return, NOW));
        gate.given();
        gate
    }

    impl Look {
        fn has_stopped(&self) -> bool {
            self.verdict == Verdict::Stopped
        }
    }

    /// Whether the disk is held because its guest has stopped.
    fn holds_stopped<R>(gate: &mut Gate<R>, now: Instant) -> bool {
        let look = gate.look(now);
        look.has_stopped() && gate.hold(Hold::Stopped(look.traces), now)
    }

    #[test]
    fn a_disk_is_not_held_when_its_guest_has_asked_since_it_was_looked_at() {
        let at = |millis| NOW + Duration::from_millis(millis);
        let mut gate = standby();
        gate.taken();
        gate.incoming(IncomingClient::Announced, NOW);
        let _ = gate.request(7, Wants::Flush, "flush", at(1_000));
        gate.answered(at(1_001));
        let look = gate.look(at(1_030));
        assert!(look.has_stopped());
        let _ = gate.request(7, READ, "read", at(1_031));
        gate.answered(at(1_032));
        assert!(!gate.hold(Hold::Stopped(look.traces), at(1_033)));
    }

    fn asked(client: Client) -> Passage<&'static str> {
        Passage::Wait(Some(Notice::Asked(client)))
    }

    #[test]
    fn a_standby_reads_from_the_owner_and_waits_to_change() {
        let mut gate = standby();
        let told = |ticket| {
            let (offset, length) = (Offset::new(0), Bytes::new(4096));
            Passage::Wait(Some(Notice::Read {
                ticket,
                offset,
                length,
            }))
        };
        assert_eq!(gate.request(7, READ, "read", NOW), told(0));
        assert_eq!(gate.request(7, READ, "again", NOW), told(1));
        let flush = gate.request(7, Wants::Flush, "flush", NOW);
        assert_eq!(flush, Passage::Done("flush"));
        let hint = gate.request(7, Wants::Hint, "hint", NOW);
        assert_eq!(hint, Passage::Done("hint"));
        let write = gate.request(7, Wants::Change, "write", NOW);
        assert_eq!(write, asked(Client::New));
        assert_eq!(gate.take_read(0), Some((7, "read")));
        assert_eq!(gate.take_read(0), None);
        assert_eq!(gate.taken(), [(7, "again"), (7, "write")]);
        // What waited is served by the cache now: the owner's answer is too late.
        assert_eq!(gate.take_read(1), None);
        let write = gate.request(7, Wants::Change, "write", NOW);
        assert_eq!(write, Passage::Serve("write"));
        assert!(gate.look(NOW).is_changed);
    }

    #[test]
    fn rings_that_went_with_their_client_prove_nothing_of_the_next_one() {
        let mut gate = standby();
        gate.taken();
        gate.do_rings_run(true);
        gate.client_gone(7, NOW);
        gate.client_came(8);
        gate.do_rings_run(false);
        assert!(!gate.look(NOW + RECONNECT_TIME).has_stopped());
    }

    #[test]
    fn what_comes_while_the_disk_is_held_waits() {
        let mut gate = standby();
        gate.taken();
        assert!(gate.hold(Hold::Return, NOW));
        let flush = gate.request(7, Wants::Flush, "flush", NOW);
        assert_eq!(flush, Passage::Wait(None));
        assert_eq!(
            gate.request(7, Wants::Change, "write", NOW),
            asked(Client::Old)
        );
        assert!(!gate.look(NOW).is_changed);
        assert_eq!(gate.release(), [(7, "flush"), (7, "write")]);
        assert!(gate.is_serving());
    }

    #[test]
    fn a_guest_that_waits_for_an_answer_has_not_stopped() {
        let mut gate = standby();
        gate.taken();
        let write = gate.request(7, Wants::Change, "write", NOW);
        assert_eq!(write, Passage::Serve("write"));
        assert_eq!(
            gate.client_gone(7, NOW),
            Some(Notice::Client { is_there: false })
        );
        let later = NOW + RECONNECT_TIME;
        assert!(!gate.look(later).has_stopped() && !holds_stopped(&mut gate, later));
        gate.answered(later);
        assert!(holds_stopped(&mut gate, later));
    }

    #[test]
    fn a_client_that_hangs_up_waits_for_nothing_and_what_is_carried_out_ends() {
        let mut gate = standby();
        gate.client_came(8);
        let _ = gate.request(7, READ, "read", NOW);
        let _ = gate.request(7, Wants::Change, "write", NOW);
        let _ = gate.request(8, Wants::Change, "other", NOW);
        assert_eq!(gate.hung_up(7), ["read", "write"]);
        assert_eq!(gate.take_read(0), None);
        assert_eq!(gate.client_gone(7, NOW), None);
        assert_eq!(gate.taken(), [(8, "other")]);
        let write = gate.request(8, Wants::Change, "other", NOW);
        assert_eq!(write, Passage::Serve("other"));
        assert_eq!(gate.hung_up(8), [""; 0]);
        assert!(!gate.look(NOW).has_stopped());
        gate.answered(NOW);
        let gone = Some(Notice::Client { is_there: false });
        assert_eq!(gate.client_gone(8, NOW), gone);
    }

    #[test]
    fn a_guest_that_is_silent_for_a_moment_has_stopped_soon() {
        let at = |millis| NOW + Duration::from_millis(millis);
        let mut gate = standby();
        gate.taken();
        gate.incoming(IncomingClient::Came, NOW);
        let flush = gate.request(7, Wants::Flush, "flush", at(1_000));
        assert_eq!(flush, Passage::Serve("flush"));
        assert_eq!(gate.look(at(1_001)).verdict, Verdict::Runs);
        gate.answered(at(1_002));
        let until = Verdict::StoppedIfSilentUntil(at(1_022));
        assert_eq!(gate.look(at(1_007)).verdict, until);
        assert!(gate.look(at(1_022)).has_stopped());
    }

    #[test]
    fn a_client_has_time_to_come_back_after_a_start() {
        let mut gate: Gate<()> = Gate::new(Evidence::new(Accepts::default()), NOW);
        gate.taken();
        let soon = NOW + Duration::from_millis(999);
        assert!(!gate.look(soon).has_stopped());
        assert!(gate.look(NOW + RECONNECT_TIME).has_stopped());
    }

    #[test]
    fn a_client_that_comes_again_soon_has_not_stopped() {
        let mut gate = standby();
        gate.taken();
        gate.client_gone(7, NOW);
        assert!(!gate.look(NOW + Duration::from_millis(500)).has_stopped());
        gate.client_came(8);
        assert!(!gate.look(NOW + Duration::from_millis(2_000)).has_stopped());
    }

    #[test]
    fn a_disk_that_was_changed_does_not_go_back_as_if_it_was_not() {
        let mut gate = standby();
        gate.taken();
        let _ = gate.request(7, Wants::Change, "write", NOW);
        gate.answered(NOW);
        assert!(!gate.hold(Hold::Return, NOW));
    }

    /// What is seen of a client that the disk was taken from: its read's passage, and that after the end of the old
    /// clients.
    fn old_client_reads() -> [Passage<&'static str>; 2] {
        let mut gate = taken_from();
        let before = gate.request(7, READ, "read", NOW);
        let (ended, notice) = gate.end_old();
        assert!(ended.is_empty() || notice.is_none());
        [before, gate.request(7, READ, "later", NOW)]
    }

    #[test]
    fn a_client_that_the_disk_was_taken_from_gets_it_back_or_errors() {
        let seen = old_client_reads();
        assert_eq!(seen, [asked(Client::Old), Passage::Fail("later")]);
        // For ever: also when the disk is here again.
        let mut gate = taken_from();
        gate.end_old();
        gate.taken();
        let write = gate.request(7, Wants::Change, "write", NOW);
        assert_eq!(write, Passage::Fail("write"));
        // If nothing was changed meanwhile it goes on.
        let mut gate = taken_from();
        assert_eq!(gate.request(7, READ, "read", NOW), asked(Client::Old));
        assert_eq!(gate.taken(), [(7, "read")]);
        let read = gate.request(7, READ, "read", NOW);
        assert_eq!(read, Passage::Serve("read"));
    }

    #[test]
    fn rings_start_when_the_disk_is_here() {
        let mut gate = standby();
        let new = Some(Notice::Asked(Client::New));
        assert_eq!(gate.rings_wait(7), (false, new));
        assert_eq!(gate.rings_wait(7), (false, None));
        // Nothing of it can fail: it asks once more.
        assert_eq!(gate.fail(), (vec![], new));
        gate.taken();
        gate.do_rings_run(true);
        assert!(!gate.look(NOW).has_stopped());
        gate.do_rings_run(false);
        assert!(holds_stopped(&mut gate, NOW));
        let old = Some(Notice::Asked(Client::Old));
        assert_eq!(gate.rings_wait(7), (false, old));
        gate.given();
        assert_eq!(gate.rings_wait(7), (false, None));
        assert_eq!(gate.fail(), (vec![], old));
        assert_eq!(gate.end_old(), (vec![], None));
        // All that comes from them fails.
        assert_eq!(gate.rings_wait(7), (true, None));
    }

    #[test]
    fn who_waits_beside_old_clients_asks_once_more() {
        let mut gate = taken_from();
        assert_eq!(gate.client_came(8), None);
        let old = gate.request(7, Wants::Change, "old", NOW);
        assert_eq!(old, asked(Client::Old));
        let new = gate.request(8, Wants::Change, "new", NOW);
        assert_eq!(new, asked(Client::New));
        let notice = Some(Notice::Asked(Client::New));
        assert_eq!(gate.end_old(), (vec![(7, "old")], notice));
        assert_eq!(gate.taken(), [(8, "new")]);
    }

    #[test]
    fn without_a_rule_a_request_goes_where_it_must_not() {
        let without = |guard| {
            crate::guard::remove(Some(guard));
            let seen = old_client_reads();
            let mut gate = standby();
            gate.taken();
            gate.hold(Hold::Return, NOW);
            let held = gate.request(7, Wants::Change, "held", NOW);
            crate::guard::remove(None);
            (seen, held)
        };
        let (_, held) = without(Guard::HeldRequestsWait);
        assert_eq!(held, Passage::Serve("held"));
        let ([before, _], _) = without(Guard::OldClientsWait);
        assert!(matches!(before, Passage::Wait(Some(Notice::Read { .. }))));
        let ([_, after], _) = without(Guard::OldClientsEnd);
        assert_eq!(after, asked(Client::Old));
    }
}
