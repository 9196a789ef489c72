//! How closely what a guest writes is followed while its disk is about to move: so that little is left to do when the guest
//! has stopped, and waits.
//!
//! ```text
//!   flush ─► durable here ─► its follower has it, or has had its time ─► answered
//!   write ─► the follower's log is short, or gets shorter, or it has had its time ─► accepted
//! ```
//! The follower is the origin, or the cache of the host that is about to get the disk. That one asks for records, and says with
//! each question how far it has them; a question that finds nothing waits here until a guest does.
//!
//! Invariants:
//! - A follower can let a request wait, and nothing else: what is answered is durable here whatever it says.
//! - No request waits for a follower for longer than [`FOLLOW_TIME_MAX`]. A follower that was too slow for a flush is
//!   waited for again once it has what had been written by then.
//! - Nobody is waited for who was not named again for [`FOLLOWER_NAMED_MAX`].

use super::credit::Credit;
use crate::limits::{
    FOLLOW_BYTES_MAX, FOLLOW_BYTES_MIN, FOLLOW_TIME_MAX, FOLLOWER_NAMED_MAX, SHIPMENT_RECORDS_MAX,
};
use crate::loan::{LoanId, RecordsAsked};
use crate::write_back::Follower;
use dirty_log::{DirtyLog, RecordNumber};
use units::{BLOCK_BYTES, Bytes, Instant};

/// A question of the other host, and how it is answered.
type Question = (LoanId, RecordsAsked);

#[derive(Debug)]
struct Following {
    follower: Follower,
    /// Unless it is named again until then, it follows no longer.
    until: Instant,
    /// Records before this number are with the other host, durably.
    kept: RecordNumber,
    /// It keeps up once it has every record before this number; `None`: it does.
    behind: Option<RecordNumber>,
    /// Bytes that it may lack before writes wait for it: as much as it gets while a flush waits, so that the next one need not
    /// wait for longer.
    room: Bytes,
    /// Bytes that may be written beyond that.
    credit: Credit,
    /// A question that has found nothing, and until when it waits.
    parked: Option<(Question, Instant)>,
}

impl Following {
    /// Before which number it has every record.
    fn has(&self, log: &DirtyLog) -> RecordNumber {
        match self.follower {
            Follower::Origin => log.base(),
            Follower::Host => self.kept.max(log.base()),
        }
    }
}

/// Who follows a disk's log, if anybody does, and how well.
#[derive(Debug, Default)]
pub(super) struct Follows(Option<Following>);

impl Follows {
    /// Somebody follows a log whose next record gets this number. A question that waited for the former one is given back.
    pub(super) fn begin(
        &mut self,
        follower: Follower,
        end: RecordNumber,
        now: Instant,
    ) -> Option<Question> {
        let until = now + FOLLOWER_NAMED_MAX;
        if let Some(following) = self.0.as_mut().filter(|one| one.follower == follower) {
            following.until = until;
            return None;
        }
        let ended = self.0.replace(Following {
            follower,
            until,
            kept: RecordNumber::FIRST,
            behind: Some(end),
            room: FOLLOW_BYTES_MAX,
            credit: Credit::default(),
            parked: None,
        });
        ended?.parked.map(|(question, _)| question)
    }

    /// Ends what was not named again in time. A question that waited is given back.
    pub(super) fn end_if_late(&mut self, now: Instant) -> Option<Question> {
        let ended = self.0.take_if(|following| now >= following.until)?;
        ended.parked.map(|(question, _)| question)
    }

    /// Whether a flush of everything before this number, which waits since then, need not wait for who follows.
    pub(super) fn lets(
        &mut self,
        before: RecordNumber,
        since: Instant,
        now: Instant,
        log: Option<&DirtyLog>,
    ) -> bool {
        let (Some(following), Some(log)) = (&mut self.0, log) else {
            return true;
        };
        let has = following.has(log);
        if following.behind.is_some_and(|behind| has >= behind) {
            following.behind = None;
        }
        if has >= before {
            following.room = FOLLOW_BYTES_MAX.min(Bytes::new(following.room.get() * 2));
        } else if following.behind.is_none() && now >= since + FOLLOW_TIME_MAX {
            following.behind = Some(log.end());
            following.room = FOLLOW_BYTES_MIN.max(Bytes::new(following.room.get() / 2));
        }
        following.behind.is_some() || has >= before
    }

    /// Whether a write that waits since then would leave who follows too far behind. Then it is paid for by what that one
    /// has got meanwhile: two blocks for each that is written. `origin_takes`: the origin does not refuse what it gets.
    pub(super) fn outruns(
        &mut self,
        log: &DirtyLog,
        since: Instant,
        now: Instant,
        origin_takes: bool,
    ) -> bool {
        let Some(following) = &mut self.0 else {
            return false;
        };
        let is_followed = following.follower == Follower::Host || origin_takes;
        if !is_followed || now >= since + FOLLOW_TIME_MAX {
            return false;
        }
        let has = following.has(log).min(log.end());
        if log.end().distance_from(has) * BLOCK_BYTES < following.room.get() {
            following.credit = Credit::default();
            return false;
        }
        !following.credit.pays_for_block()
    }

    /// The origin has got so many bytes of the log.
    pub(super) fn origin_got(&mut self, bytes: u64) {
        if let Some(following) = &mut self.0
            && following.follower == Follower::Origin
        {
            following.credit.earn(bytes);
        }
    }

    /// Before which number the origin should have everything now, since it follows and a flush waits for this.
    pub(super) fn wants_at_origin(
        &self,
        log: &DirtyLog,
        flush: Option<RecordNumber>,
    ) -> RecordNumber {
        let following = self.0.as_ref();
        match following.filter(|one| one.follower == Follower::Origin) {
            None => RecordNumber::FIRST,
            Some(following) if log.logged().get() >= following.room.get() / 2 => log.end(),
            Some(_) => flush.map_or(RecordNumber::FIRST, |flush| flush.min(log.end())),
        }
    }

    /// When to look again at what waits for who follows, since these times or until it has its answer.
    pub(super) fn dues(&self, since: [Option<Instant>; 2]) -> impl Iterator<Item = Instant> {
        let following = self.0.as_ref();
        let requests = since.into_iter().flatten().map(|at| at + FOLLOW_TIME_MAX);
        let requests = requests.filter(move |_| following.is_some());
        let ends = following.map(|following| following.until);
        let question = following.and_then(|following| following.parked);
        let question = question.map(|(_, until)| until);
        requests.chain(ends).chain(question)
    }

    /// The question that waits for records: it is not to be answered with any.
    pub(super) fn take_question(&mut self) -> Option<LoanId> {
        let parked = self.0.as_mut()?.parked.take();
        parked.map(|((loan, _), _)| loan)
    }

    /// The other host asks for records of this log, and has so those before them.
    pub(super) fn asked(&mut self, (_, asked): Question, log: &DirtyLog) {
        let from = RecordNumber::FIRST.advance(asked.from);
        if let Some(following) = &mut self.0
            && from <= log.end()
        {
            let before = std::mem::replace(&mut following.kept, from).max(log.base());
            if from > before && following.follower == Follower::Host {
                following
                    .credit
                    .earn(from.distance_from(before) * BLOCK_BYTES);
            }
        }
    }

    /// Lets a question wait that has found nothing, if it is one of who follows. Whether it waits.
    pub(super) fn park(
        &mut self,
        question: Question,
        log: &DirtyLog,
        flush: Option<RecordNumber>,
        now: Instant,
    ) -> bool {
        let Some(following) = &mut self.0 else {
            return false;
        };
        let (_, asked) = question;
        let number = |told| RecordNumber::FIRST.advance(told);
        let has_all = number(asked.from) == log.end();
        let knows_all = has_all && asked.settled.map(number) == Some(log.base());
        let is_awaited = flush.is_some_and(|flush| flush > log.end());
        let may = following.follower == Follower::Host && following.parked.is_none();
        if may && knows_all && !is_awaited {
            following.parked = Some((question, now + FOLLOW_TIME_MAX));
            return true;
        }
        false
    }

    /// The question that waited, if a flush waits for what it asks for, a shipment is full, or it has had its time. Without
    /// a log it waits no longer.
    pub(super) fn take_due(
        &mut self,
        log: Option<&DirtyLog>,
        flush: Option<RecordNumber>,
        now: Instant,
    ) -> Option<Question> {
        let following = self.0.as_mut()?;
        let (question, until) = following.parked?;
        let from = RecordNumber::FIRST.advance(question.1.from);
        let is_awaited = flush.is_some_and(|flush| flush > from);
        let is_full = log.is_none_or(|log| log.end() >= from.advance(SHIPMENT_RECORDS_MAX));
        if !is_awaited && !is_full && now < until {
            return None;
        }
        following.parked = None;
        Some(question)
    }
}
