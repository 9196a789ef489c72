//! The link between the hosts: it delays what is said, breaks, and loses the end of what was said before.

use crate::run::Run;
use borrowing::Run as Blocks;
use cache::Shipment;
use handoff::Message;
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant, Offset};

/// What one host says to the other.
#[derive(Clone, Debug)]
pub(super) enum Frame {
    /// About the ownership.
    Said(Message),
    /// A client of the standby has come, or the last one has gone.
    Client { is_there: bool },
    /// The standby asks for bytes.
    Read {
        number: u64,
        offset: Offset,
        length: Bytes,
    },
    /// The answer, unless the disk is not served there.
    Bytes { number: u64, bytes: Option<Vec<u8>> },
    /// The host that has the disk since this epoch asks for what the other one has cached of it.
    Borrow {
        number: u64,
        epoch: u64,
        question: Question,
    },
    /// The answer to the question of this number.
    Lent(u64, Lent),
    /// The standby begins to copy the disk.
    Watch { number: u64 },
    /// The answer: in which epoch it is served there, if it is.
    Watched { number: u64, epoch: Option<u64> },
    /// What has changed of the disk that is copied in this epoch, and was not told?
    AskStale { number: u64, epoch: u64 },
    /// The answer, unless the owner does not know.
    Stale {
        number: u64,
        runs: Option<Vec<Blocks>>,
    },
}

/// What a borrower asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// Before the first segment, 0: how many there are? Then: what is in the one of this number?
    Contents {
        at: u32,
    },
    Blocks(Blocks),
    /// What the origin lacks, of a disk that has not come yet.
    Records(handoff::Question),
}

/// What a lender answers.
#[derive(Clone, Debug)]
pub(super) enum Lent {
    Segments(usize),
    Contents(Vec<Blocks>),
    Blocks(Vec<u8>),
    Records(Shipment<Vec<u8>>),
    Nothing,
}

/// What a host learns from its end.
#[derive(Clone, Debug)]
pub(super) enum Notice {
    /// A session has begun.
    Linked,
    /// It has ended.
    Lost,
    /// The other host says something.
    Frame(Frame),
}

/// See the module's header.
pub(super) struct Link {
    /// The session of the wire; none while it is broken.
    session: Option<u64>,
    sessions: u64,
    /// The session that each host knows of.
    known: [Option<u64>; 2],
    /// What is on its way to each host, in order.
    inboxes: [VecDeque<(Instant, u64, Notice)>; 2],
    again_at: Option<Instant>,
    latency_most: Duration,
}

impl Link {
    /// A link that is not up yet.
    pub(super) fn new(latency_most: Duration) -> Self {
        Self {
            session: None,
            sessions: 0,
            known: [None; 2],
            inboxes: [VecDeque::new(), VecDeque::new()],
            again_at: Some(Instant::ZERO),
            latency_most,
        }
    }

    /// A host says something. It does not know yet if nobody hears it.
    pub(super) fn send(&mut self, from: usize, frame: Frame, run: &mut Run) {
        match (self.known[from], self.session) {
            (Some(known), Some(session)) if known == session => {
                self.push(1 - from, session, Notice::Frame(frame), run);
            }
            _ => run.hit("said to nobody"),
        }
    }

    /// Whether a host knows of a session.
    pub(super) fn is_linked(&self, host: usize) -> bool {
        self.known[host].is_some()
    }

    fn push(&mut self, to: usize, session: u64, notice: Notice, run: &mut Run) {
        let most = self.latency_most.as_nanos();
        let at = run.now() + Duration::from_nanos(1 + run.below(most));
        let inbox = &mut self.inboxes[to];
        let at = inbox.back().map_or(at, |(last, ..)| at.max(*last));
        inbox.push_back((at, session, notice));
    }

    /// It breaks: of what is on its way the end is lost.
    pub(super) fn cut(&mut self, run: &mut Run) {
        let Some(session) = self.session.take() else {
            return;
        };
        run.hit("link cut");
        run.event(&[40], || "the link breaks".to_owned());
        for host in [0, 1] {
            let kept = run.index(self.inboxes[host].len() + 1);
            if kept < self.inboxes[host].len() {
                run.hit("tail lost");
            }
            self.inboxes[host].truncate(kept);
            self.push(host, session, Notice::Lost, run);
        }
        self.plan_again(run);
    }

    /// A host has died, and its end with it.
    pub(super) fn end_of(&mut self, host: usize, run: &mut Run) {
        self.cut(run);
        self.inboxes[host].clear();
        self.known[host] = None;
    }

    fn plan_again(&mut self, run: &mut Run) {
        let wait = [20_000, 500_000, 4_000_000][run.index(3)];
        self.again_at = Some(run.now() + Duration::from_micros(1 + run.below(wait)));
    }

    /// When a session may begin.
    pub(super) fn next_session(&self) -> Option<Instant> {
        self.again_at
    }

    /// A session begins, if both hosts are up and know that the one before has ended.
    pub(super) fn begin(&mut self, are_up: bool, run: &mut Run) {
        let is_over = self.known == [None; 2] && self.inboxes.iter().all(VecDeque::is_empty);
        if !are_up || !is_over {
            let wait = Duration::from_millis(20);
            self.again_at = Some(run.now() + wait);
            return;
        }
        self.again_at = None;
        self.sessions += 1;
        self.session = Some(self.sessions);
        run.event(&[41], || "the link is up".to_owned());
        for host in [0, 1] {
            self.push(host, self.sessions, Notice::Linked, run);
        }
    }

    /// When a host learns something next.
    pub(super) fn next_notice(&self, host: usize) -> Option<Instant> {
        self.inboxes[host].front().map(|(at, ..)| *at)
    }

    /// What it learns.
    pub(super) fn take_notice(&mut self, host: usize) -> Option<Notice> {
        let (_, session, notice) = self.inboxes[host].pop_front()?;
        match notice {
            Notice::Linked => self.known[host] = Some(session),
            Notice::Lost => self.known[host] = None,
            Notice::Frame(_) => {}
        }
        Some(notice)
    }
}
