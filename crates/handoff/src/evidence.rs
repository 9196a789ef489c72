//! What an owner has seen of its guest: whether that has evidently stopped.
//!
//! A front end cannot ask a hypervisor whether the VM has stopped here to go on there. It sees what stock QEMU
//! does, and none of that means just one thing. So there are two kinds:
//!
//! - *Proof*: the guest's rings were all stopped (vhost-user), or its last client has gone. A guest that runs does
//!   neither.
//! - *A sign*: a flush since the standby opened, and silence since its answer. QEMU flushes its disks when it stops a VM;
//!   an idle guest does the same now and then. A sign counts together with an announcement of the move, or with
//!   a client of the standby that *looks incoming*: at that flush it had been connected for a second, had hardly read,
//!   and had read nothing in that second. A VM that boots there reads before it is silent.
//!
//! A client of the standby whose guest asks for the disk while the owner's shows no sign runs a guest already, so it waits for none
//! that moves: what the owner's guest flushes afterwards is no sign for it. Nor is a flush one while rings run: they stop
//! when their guest does.
//!
//! What QEMU writes right behind such a flush takes the sign not away, but then the silence has to be long. A qcow2 image
//! whose bitmap or reference counts are written when it is put to rest is such a case, and its last write is not
//! flushed. Its destination writes before its guest runs, so it cannot wait until QEMU of the source has ended.
//!
//! Evidence protects a VM that runs from one that was started a second time by mistake. The data is protected by
//! [`Ownership`](crate::Ownership), whoever wins.

use crate::guard::{Guard, holds};
use units::{Duration, Instant};

/// How long a guest is silent after its flush.
pub const SILENCE: Duration = Duration::from_millis(20);
/// How long it is silent if something followed within [`SILENCE`] of its flush.
const SILENCE_BEHIND_WRITES: Duration = Duration::from_secs(1);
/// How long an incoming client waits, connected and without a read, before its VM is handed over.
pub const INCOMING_WAITS: Duration = Duration::from_secs(1);
/// How long a client of the standby whose daemon has died may take to come back.
const COMES_BACK: Duration = Duration::from_secs(10);
/// How often an incoming client has read: it looks at sizes, partition tables and headers.
pub const INCOMING_READS: u32 = 64;

/// What counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accepts {
    /// Proof, or signs.
    #[default]
    ProofOrSigns,
    /// Only proof. A guest over NBD then waits until the hypervisor of the source has gone.
    Proof,
}

/// Whether the owner's guest has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Evidently.
    Stopped,
    /// Nothing says so.
    Runs,
    /// If no request comes until then.
    StoppedIfSilentUntil(Instant),
}

/// What is seen of the guest at one of its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traces {
    /// No client is there, or all rings are stopped.
    is_proof: bool,
    /// It waits for an answer.
    waits: bool,
    last_request: Option<Instant>,
    sign: Option<Sign>,
}

/// A flush that looked like a move, and what came right behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sign {
    /// When the last request came, or was answered.
    last: Instant,
    silence: Duration,
}

/// Whether the guest has stopped, as far as can be seen at all the disks that a VM uses. A sign at one of them counts for
/// the VM, since QEMU does not flush a disk that was not written; a request at another one since then says that it runs.
pub fn verdict_of(traces: &[Traces], now: Instant) -> Verdict {
    let with_client = || traces.iter().filter(|one| !one.is_proof);
    if traces.iter().any(|one| one.waits) {
        return Verdict::Runs;
    }
    if with_client().next().is_none() {
        return Verdict::Stopped;
    }
    let signs = || with_client().filter_map(|one| one.sign);
    let last = signs().map(|sign| sign.last).max();
    let stopped = signs().map(|sign| sign.last + sign.silence).max();
    let (Some(last), Some(stopped)) = (last, stopped) else {
        return Verdict::Runs;
    };
    let runs = |one: &Traces| one.last_request.is_some_and(|request| request > last);
    if with_client().any(runs) && holds(Guard::SilentEverywhere) {
        return Verdict::Runs;
    }
    if now >= stopped {
        Verdict::Stopped
    } else {
        Verdict::StoppedIfSilentUntil(stopped)
    }
}

/// The client of a standby, as its owner sees it: its reads pass through the owner.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    last_seen: Instant,
    reads: u32,
    /// Its guest runs: it has asked for the disk while the owner's showed no sign.
    runs: bool,
    /// When it was heard of that its daemon had died, if it has not come back.
    lost: Option<Instant>,
}

/// The rings of a guest over vhost-user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rings {
    /// None has run since its last client came.
    Unused,
    Run,
    Stopped,
}

/// What an owner has seen of a unit's guest, and of the client that its standby has.
#[derive(Clone, Debug)]
pub struct Evidence {
    accepts: Accepts,
    is_announced: bool,
    has_client: bool,
    rings: Rings,
    last_request: Option<Instant>,
    incoming: Option<Incoming>,
    /// The guest's last flush since the standby opened, if it looked like a move.
    sign: Option<Sign>,
}

impl Evidence {
    /// Nothing was seen yet, and no client is there.
    pub fn new(accepts: Accepts) -> Self {
        Self {
            accepts,
            is_announced: false,
            has_client: false,
            rings: Rings::Unused,
            last_request: None,
            incoming: None,
            sign: None,
        }
    }

    /// A client has connected.
    pub fn client_came(&mut self) {
        self.has_client = true;
        if self.rings == Rings::Stopped {
            self.rings = Rings::Unused;
        }
        self.sign = None;
    }

    /// The last client has gone, and the time in which it could have connected again has passed.
    pub fn client_gone(&mut self) {
        self.has_client = false;
    }

    /// All rings of the client were stopped.
    pub fn rings_stopped(&mut self) {
        self.rings = Rings::Stopped;
    }

    /// The client has gone with its rings: they were not stopped.
    pub fn rings_gone(&mut self) {
        self.rings = Rings::Unused;
    }

    /// A ring of the client was started.
    pub fn ring_started(&mut self) {
        self.rings = Rings::Run;
        self.sign = None;
    }

    /// The guest has a request other than a flush.
    pub fn request(&mut self, now: Instant) {
        self.last_request = Some(now);
        let follows = |sign: &Sign| now < sign.last + SILENCE;
        self.sign = self.sign.filter(follows).map(|_| Sign {
            last: now,
            silence: SILENCE_BEHIND_WRITES,
        });
    }

    /// The guest flushes.
    pub fn flush(&mut self, now: Instant) {
        self.last_request = Some(now);
        let looks_incoming = self.incoming.is_some_and(|client| {
            client.reads <= INCOMING_READS && now.since(client.last_seen) >= INCOMING_WAITS
        });
        let is_awaited = self.is_announced || looks_incoming || !holds(Guard::LooksIncoming);
        let may_move = self.incoming.is_none_or(|client| !client.runs);
        let would_stop_rings = self.rings == Rings::Run && holds(Guard::RingsSayWhenTheyStop);
        let is_sign = is_awaited && may_move && !would_stop_rings;
        self.sign = (is_sign && self.accepts == Accepts::ProofOrSigns).then_some(Sign {
            last: now,
            silence: SILENCE,
        });
    }

    /// A request of the guest is answered: its silence begins. Until then it waits, and says nothing by that.
    pub fn answered(&mut self, now: Instant) {
        if let Some(sign) = &mut self.sign {
            sign.last = now;
        }
    }

    /// The operator, or a hook, says that the VM is about to move.
    pub fn announced(&mut self) {
        self.is_announced = true;
    }

    /// The announcement is withdrawn: the move was aborted, or has ended.
    pub fn announcement_ended(&mut self) {
        self.is_announced = false;
        self.sign = None;
    }

    /// A client has connected to the standby. Of one that is there already, which a session that begins anew is told
    /// of again, nothing is forgotten: its guest may have flushed for the last time. Nor of one whose daemon has died
    /// and that comes back in time.
    pub fn incoming_came(&mut self, now: Instant) {
        let is_known =
            |client: &&mut Incoming| client.lost.is_none_or(|lost| now < lost + COMES_BACK);
        if let Some(client) = self.incoming.as_mut().filter(is_known) {
            client.lost = None;
            return;
        }
        self.incoming = Some(Incoming {
            last_seen: now,
            reads: 0,
            runs: false,
            lost: None,
        });
        self.sign = None;
    }

    /// The client of the standby reads.
    pub fn incoming_reads(&mut self, now: Instant) {
        if let Some(client) = &mut self.incoming {
            client.last_seen = now;
            client.reads = client.reads.saturating_add(1);
        }
    }

    /// A guest of the standby asks for the disk while this one's shows no sign.
    pub fn incoming_runs(&mut self) {
        if let Some(client) = &mut self.incoming
            && holds(Guard::ClaimBehindSign)
        {
            client.runs = true;
        }
    }

    /// The client of the standby has gone, or the standby has closed. A lost link does not say so.
    pub fn incoming_gone(&mut self) {
        self.incoming = None;
    }

    /// The client of the standby has gone with its daemon, which is back: it connects again.
    pub fn incoming_lost(&mut self, now: Instant) {
        if let Some(client) = &mut self.incoming {
            client.lost.get_or_insert(now);
        }
    }

    /// What is seen of the guest, which waits for an answer or does not.
    pub fn traces(&self, waits: bool) -> Traces {
        Traces {
            is_proof: !self.has_client || self.rings == Rings::Stopped,
            waits,
            last_request: self.last_request,
            sign: self.sign,
        }
    }

    /// Whether the guest of this disk alone has stopped, as far as can be seen.
    pub fn verdict(&self, now: Instant) -> Verdict {
        verdict_of(&[self.traces(false)], now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn guest() -> Evidence {
        let mut evidence = Evidence::new(Accepts::default());
        evidence.client_came();
        evidence
    }

    /// A client of the standby that has read this often, the last time at 100 ms.
    fn with_incoming(reads: u32) -> Evidence {
        let mut evidence = guest();
        evidence.incoming_came(at(0));
        for _ in 0..reads {
            evidence.incoming_reads(at(100));
        }
        evidence
    }

    #[test]
    fn a_guest_without_client_or_with_stopped_rings_has_stopped() {
        let mut evidence = guest();
        evidence.request(at(1));
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Runs);
        evidence.rings_stopped();
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Stopped);
        evidence.ring_started();
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Runs);
        evidence.client_gone();
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Stopped);
    }

    #[test]
    fn a_flush_and_silence_count_when_an_incoming_client_waits() {
        let mut evidence = with_incoming(8);
        evidence.request(at(1_190));
        evidence.flush(at(1_200));
        let until = Verdict::StoppedIfSilentUntil(at(1_220));
        assert_eq!(evidence.verdict(at(1_219)), until);
        assert_eq!(evidence.verdict(at(1_220)), Verdict::Stopped);
        evidence.request(at(1_230));
        assert_eq!(evidence.verdict(at(5_000)), Verdict::Runs);
    }

    #[test]
    fn a_guest_is_silent_from_the_answer_of_its_flush_on() {
        let mut evidence = with_incoming(8);
        evidence.flush(at(1_200));
        evidence.answered(at(1_300));
        let until = Verdict::StoppedIfSilentUntil(at(1_320));
        assert_eq!(evidence.verdict(at(1_301)), until);
        assert_eq!(evidence.verdict(at(1_320)), Verdict::Stopped);
        // After its next request the answer is no sign.
        evidence.request(at(1_330));
        evidence.answered(at(1_331));
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Runs);
    }

    #[test]
    fn what_is_written_right_behind_the_flush_makes_the_silence_longer() {
        let mut evidence = with_incoming(8);
        evidence.flush(at(1_200));
        evidence.answered(at(1_300));
        evidence.request(at(1_319));
        evidence.answered(at(1_400));
        evidence.request(at(1_401));
        evidence.answered(at(1_500));
        let until = Verdict::StoppedIfSilentUntil(at(2_500));
        assert_eq!(evidence.verdict(at(2_499)), until);
        assert_eq!(evidence.verdict(at(2_500)), Verdict::Stopped);
        // A guest that has been silent and goes on runs.
        evidence.request(at(1_520));
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Runs);
    }

    #[test]
    fn a_daemon_that_dies_under_the_incoming_client_takes_no_sign_away_if_that_comes_back_in_time()
    {
        let mut evidence = with_incoming(8);
        evidence.flush(at(1_200));
        evidence.incoming_lost(at(1_300));
        evidence.incoming_lost(at(5_000));
        let mut late = evidence.clone();
        evidence.incoming_came(at(11_299));
        assert_eq!(evidence.verdict(at(11_300)), Verdict::Stopped);
        late.incoming_came(at(11_300));
        assert_eq!(late.verdict(at(11_300)), Verdict::Runs);
        // Once it is back a session that begins anew says nothing.
        evidence.incoming_came(at(60_000));
        assert_eq!(evidence.verdict(at(60_000)), Verdict::Stopped);
    }

    #[test]
    fn a_link_that_is_lost_after_the_last_flush_takes_no_sign_away() {
        let mut evidence = with_incoming(8);
        evidence.flush(at(1_200));
        evidence.incoming_came(at(1_400));
        assert_eq!(evidence.verdict(at(1_500)), Verdict::Stopped);
        // Another client is another matter.
        evidence.incoming_gone();
        evidence.incoming_came(at(1_600));
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Runs);
    }

    #[test]
    fn a_vm_that_boots_at_the_standby_does_not_look_incoming() {
        for (reads, flush) in [(65, 5_000), (8, 1_099)] {
            let mut evidence = with_incoming(reads);
            evidence.flush(at(flush));
            assert_eq!(evidence.verdict(at(9_000)), Verdict::Runs);
        }
        // A guest that flushed before anybody came to the standby was idle.
        let mut evidence = guest();
        evidence.flush(at(0));
        evidence.incoming_came(at(1));
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Runs);
    }

    #[test]
    fn an_announced_move_needs_no_incoming_client() {
        let mut evidence = guest();
        evidence.announced();
        evidence.flush(at(10));
        assert_eq!(evidence.verdict(at(30)), Verdict::Stopped);
        evidence.announcement_ended();
        assert_eq!(evidence.verdict(at(30)), Verdict::Runs);
    }

    #[test]
    fn where_only_proof_counts_a_sign_is_none() {
        let mut evidence = Evidence::new(Accepts::Proof);
        evidence.client_came();
        evidence.announced();
        evidence.flush(at(10));
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Runs);
        evidence.client_gone();
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Stopped);
    }

    /// A guest with two disks: one with a sign at 1,200 ms, and one that was last asked at this moment.
    fn two_disks(asked: u64) -> Verdict {
        let mut written = with_incoming(8);
        written.flush(at(1_200));
        let mut other = guest();
        other.request(at(asked));
        verdict_of(&[written.traces(false), other.traces(false)], at(9_000))
    }

    #[test]
    fn a_vm_has_stopped_when_all_its_disks_are_silent_since_the_sign_at_one() {
        assert_eq!(two_disks(1_190), Verdict::Stopped);
        assert_eq!(two_disks(1_201), Verdict::Runs);
        // Rings that stopped prove it for their disk only.
        let mut rings = guest();
        rings.rings_stopped();
        let mut other = guest();
        other.request(at(1));
        let verdict =
            |other: &Evidence| verdict_of(&[rings.traces(false), other.traces(false)], at(9_000));
        assert_eq!(verdict(&other), Verdict::Runs);
        other.client_gone();
        assert_eq!(verdict(&other), Verdict::Stopped);
        let waits = other.traces(true);
        assert_eq!(verdict_of(&[waits], at(9_000)), Verdict::Runs);
    }

    #[test]
    fn without_the_rule_a_vm_that_uses_its_other_disk_is_taken_for_stopped() {
        crate::guard::remove(Some(Guard::SilentEverywhere));
        let verdict = two_disks(1_201);
        crate::guard::remove(None);
        assert_eq!(verdict, Verdict::Stopped);
    }

    /// What is seen of a guest that flushes and is silent after a guest of the standby has asked for its disk, and whether that
    /// changes when the client there goes and another one comes, and the guest flushes again.
    fn flushes_while_another_waits() -> [Verdict; 2] {
        let mut evidence = with_incoming(8);
        assert_eq!(evidence.verdict(at(500)), Verdict::Runs);
        evidence.incoming_runs();
        evidence.flush(at(1_200));
        // Its daemon may die meanwhile.
        evidence.incoming_lost(at(1_300));
        evidence.incoming_came(at(1_400));
        evidence.flush(at(3_000));
        let waiting = evidence.verdict(at(9_000));
        evidence.incoming_gone();
        evidence.incoming_came(at(9_000));
        evidence.flush(at(10_000));
        [waiting, evidence.verdict(at(19_000))]
    }

    #[test]
    fn a_guest_that_runs_keeps_its_disk_from_one_that_waits_for_it() {
        assert_eq!(
            flushes_while_another_waits(),
            [Verdict::Runs, Verdict::Stopped]
        );
        crate::guard::remove(Some(Guard::ClaimBehindSign));
        let without = flushes_while_another_waits();
        crate::guard::remove(None);
        assert_eq!(without[0], Verdict::Stopped);
    }

    #[test]
    fn a_flush_says_nothing_while_rings_run() {
        let flushed = || {
            let mut evidence = with_incoming(8);
            evidence.ring_started();
            evidence.flush(at(1_200));
            evidence
        };
        let mut evidence = flushed();
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Runs);
        evidence.rings_stopped();
        assert_eq!(evidence.verdict(at(9_000)), Verdict::Stopped);
        // A client over NBD that comes next has none.
        evidence.rings_gone();
        evidence.client_came();
        evidence.flush(at(10_000));
        assert_eq!(evidence.verdict(at(19_000)), Verdict::Stopped);
        crate::guard::remove(Some(Guard::RingsSayWhenTheyStop));
        let without = flushed().verdict(at(9_000));
        crate::guard::remove(None);
        assert_eq!(without, Verdict::Stopped);
    }

    #[test]
    fn without_the_rule_an_idle_guest_loses_its_disk() {
        crate::guard::remove(Some(Guard::LooksIncoming));
        let mut evidence = with_incoming(65);
        evidence.flush(at(5_000));
        let verdict = evidence.verdict(at(9_000));
        crate::guard::remove(None);
        assert_eq!(verdict, Verdict::Stopped);
    }
}
