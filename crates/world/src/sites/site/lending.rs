//! What is read for the other host: for a standby what its clients ask, and for the host that has the disk now what is
//! cached of it here.

use super::shipping::on_the_link;
use super::{Around, Asker, Life};
use crate::sites::bytes_of;
use crate::sites::clients::Piece;
use crate::sites::guard::{Guard, holds};
use crate::sites::link::{Frame, Lent, Question};
use block_io::Verb;
use borrowing::Run;
use cache::{Borrowed, LoanId, LoanRequest, NotLent, RequestId};
use flash_format::SegmentIndex;
use handoff::{Action, Event};
use std::collections::BTreeMap;
use units::{BlockIndex, Duration, Instant};

/// An answer takes at most so long where the lender is late: longer than who asks waits for it.
const LATE_MOST: Duration = Duration::from_secs(1);

/// What goes wrong with loans: one in so many, 0 for none.
#[derive(Clone, Copy, Debug)]
pub(in crate::sites) struct LoanFaults {
    /// Answers are lost.
    pub(in crate::sites) lost: u64,
    /// They are late, and overtake each other.
    pub(in crate::sites) late: u64,
}

/// See the module's header.
#[derive(Default)]
pub(super) struct Lending {
    /// The epoch with which the disk was given away last.
    given: Option<u64>,
    /// The same, as long as it is lent.
    lent: Option<u64>,
    /// The segments, as they were when the new owner began to ask.
    segments: Vec<SegmentIndex>,
    /// The numbers of the questions that are read for.
    reads: BTreeMap<LoanId, u64>,
    /// Answers that are late.
    answers: Vec<(Instant, u64, Lent)>,
}

impl Lending {
    /// A step of a hand-over begins.
    pub(super) fn begins(&mut self, action: Action) {
        match action {
            Action::Record { epoch } => self.given = Some(epoch),
            Action::Take { .. } => self.lent = None,
            _ => {}
        }
    }

    /// Something has happened to the disk: it may have been given away.
    pub(super) fn happened(&mut self, event: Event) {
        if event == Event::Unlocked {
            self.lent = self.given;
        }
    }

    /// When the next late answer goes.
    pub(super) fn next_answer(&self) -> Option<Instant> {
        self.answers.iter().map(|(at, ..)| *at).min()
    }

    fn request(
        &mut self,
        (epoch, is_copied): (u64, bool),
        question: Question,
        at: &Around,
    ) -> Option<LoanRequest> {
        let is_lent = self.lent == Some(epoch) || !holds(Guard::LoansHaveEpochs);
        if !is_lent && !is_copied {
            return None;
        }
        let disk = at.shared.disk().id();
        Some(match question {
            Question::Contents { at: 0 } => LoanRequest::Segments { disk },
            Question::Contents { at } => {
                let segment = *self.segments.get(at as usize - 1)?;
                LoanRequest::Contents { disk, segment }
            }
            Question::Blocks(Run { first, count }) => LoanRequest::Blocks { disk, first, count },
            Question::Records(_) => return None,
        })
    }
}

/// What a host lends, while it looks at that.
pub(super) struct Lends<'a, 'b> {
    number: usize,
    faults: LoanFaults,
    life: &'a mut Life,
    at: &'a mut Around<'b>,
}

impl<'a, 'b> Lends<'a, 'b> {
    pub(super) fn new(
        (number, faults): (usize, LoanFaults),
        life: &'a mut Life,
        at: &'a mut Around<'b>,
    ) -> Self {
        Self {
            number,
            faults,
            life,
            at,
        }
    }

    /// The standby asks for bytes.
    pub(super) fn read(&mut self, number: u64, piece: Piece) {
        let Piece { offset, length } = piece;
        self.life.clients.incoming_reads(self.at.run.now());
        if self.life.serves() {
            let id = RequestId(self.at.run.next_id());
            let verb = Verb::Read { offset, length };
            self.life
                .ask_cache(id, Asker::Peer(number), verb, self.at.run.now());
        } else {
            let bytes = None;
            self.at
                .link
                .send(self.number, Frame::Bytes { number, bytes }, self.at.run);
        }
    }

    /// What a standby has asked for was read: it goes there when it is durable.
    pub(super) fn has_read(&mut self, number: u64, bytes: Option<Vec<u8>>) {
        let Some((bytes, disk)) = bytes.zip(self.life.slot()) else {
            let bytes = None;
            let frame = Frame::Bytes { number, bytes };
            return self.at.link.send(self.number, frame, self.at.run);
        };
        let id = RequestId(self.at.run.next_id());
        self.life.asked.insert(id, Asker::PeerHas(number, bytes));
        let cache = self.life.process.cache_mut().expect("it serves");
        let vm = cache.facts().tenant_of(disk).expect("the disk is served");
        cache.when_durable(id, disk, vm, self.at.run.now());
    }

    /// The host that has the disk now asks.
    pub(super) fn lend(&mut self, number: u64, epoch: u64, question: Question) {
        let id = LoanId(self.at.run.next_id());
        let request = if let Question::Records(question) = question {
            let of = (self.at.shared.disk().id(), epoch);
            self.life.ships.request(id, of, question)
        } else {
            let is_copied = self.life.noted.is_copied(epoch);
            let of = (epoch, is_copied);
            self.life.lending.request(of, question, self.at)
        };
        let now = self.at.run.now();
        if let (Some(request), Some(cache)) = (request, self.life.process.cache_mut()) {
            self.life.lending.reads.insert(id, number);
            cache.lend(id, request, now);
        } else {
            let lent = Frame::Lent(number, Lent::Nothing);
            self.at.link.send(self.number, lent, self.at.run);
        }
    }

    /// The cache answers. True if that ends the hand-over that waited for the other host to have the rest.
    pub(super) fn lent(&mut self, loan: LoanId, result: Result<Borrowed, NotLent>) -> bool {
        let shipment = match &result {
            Ok(Borrowed::Records(shipment)) => Some(shipment),
            _ => None,
        };
        let now = self.at.run.now();
        let ends = self.life.ships.answered(loan, shipment, now);
        self.send_lent(loan, result);
        ends
    }

    fn send_lent(&mut self, loan: LoanId, result: Result<Borrowed, NotLent>) {
        let lending = &mut self.life.lending;
        let Some(number) = lending.reads.remove(&loan) else {
            return;
        };
        let lent = match result {
            Ok(Borrowed::Segments(segments)) => {
                lending.segments = segments;
                Lent::Segments(lending.segments.len())
            }
            Ok(Borrowed::Contents(blocks)) => Lent::Contents(runs(&blocks)),
            Ok(Borrowed::Blocks(bytes)) => Lent::Blocks(bytes_of(&bytes)),
            Ok(Borrowed::Records(shipment)) => on_the_link(shipment),
            Err(NotLent) => Lent::Nothing,
        };
        let LoanFaults { lost, late } = self.faults;
        if self.at.run.one_in(lost) {
            self.at.run.hit("loan lost");
        } else if self.at.run.one_in(late) {
            let wait = Duration::from_nanos(self.at.run.below(LATE_MOST.as_nanos()));
            lending
                .answers
                .push((self.at.run.now() + wait, number, lent));
        } else {
            self.at
                .link
                .send(self.number, Frame::Lent(number, lent), self.at.run);
        }
    }

    /// A late answer goes.
    pub(super) fn answer_late(&mut self) {
        let answers = &mut self.life.lending.answers;
        let first = (0..answers.len()).min_by_key(|i| answers[*i].0);
        if let Some(first) = first {
            let (_, number, lent) = answers.remove(first);
            self.at
                .link
                .send(self.number, Frame::Lent(number, lent), self.at.run);
        }
    }
}

/// Blocks that follow each other, together.
fn runs(blocks: &[BlockIndex]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(last) if last.first.advance(u64::from(last.count)) == *block => last.count += 1,
            _ => runs.push(Run {
                first: *block,
                count: 1,
            }),
        }
    }
    runs
}
