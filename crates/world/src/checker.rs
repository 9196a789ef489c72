//! What guests may see: the history of every sector, and the verdict on every read.
//!
//! Each write puts a value of its own into its sectors, so a sector's content names the write
//! that it came from. For each sector the checker keeps the values that a read may still return.
//! A value is *dead* from the moment when no later read may return it:
//!
//! - a write was acknowledged that was issued after this value's write was answered, or
//! - a read that began after this value's write was answered has returned another value.
//!
//! A read that began when its value was dead already is a violation of I1. A value that is not
//! in the sector's history at all is one of I4.
//!
//! A write that failed, a discard, and what was in flight at a crash may have happened or not:
//! their values can be read, but their answers kill nothing.
//!
//! Where what was not flushed may be lost (the origin loses power; or the host does, and the disk is
//! under write-back), values that were dead come back to life unless a write that is durable
//! (flushed or FUA) kills them: I2. In which order they may be lost is in `order.rs`.
//!
//! Order is by event numbers, not by the clock: events at one instant have an order too.

mod order;

use crate::violation::Violation;
use order::Barriers;
use units::{Bytes, Offset, SECTOR_BYTES};

/// Bytes in a sector, for slicing.
pub const SECTOR: usize = 512;

const _: () = assert!(SECTOR as u64 == SECTOR_BYTES);

/// A value: 0 for zeroes, else a number that one write alone has.
pub type Tag = u64;

/// Number of an event in the order of all events that guests can see.
pub type Moment = u64;

const WORDS: usize = SECTOR / 8;

/// Fills a sector with a value.
pub fn fill_sector(sector: &mut [u8], tag: Tag) {
    for (i, word) in sector.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&word_of(tag, i).to_le_bytes());
    }
}

fn word_of(tag: Tag, i: usize) -> u64 {
    // Every word differs from its neighbours, so that a shifted or mixed sector shows.
    tag.wrapping_mul(2 * i as u64 + 1)
}

/// The value in a sector; none if it is torn or no value at all.
///
/// # Panics
/// Never: the words of a sector have eight bytes each.
pub fn tag_of(sector: &[u8]) -> Option<Tag> {
    let mut words = sector
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let tag = words.next()?;
    let whole = words.zip(1..WORDS).all(|(word, i)| word == word_of(tag, i));
    whole.then_some(tag)
}

#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "what is known of a write is known bit by bit"
)]
struct Value {
    tag: Tag,
    issued: Moment,
    /// When its write was answered, or its fate was sealed by a crash.
    answered: Option<Moment>,
    /// Acknowledged as done; false for writes that may have happened.
    certain: bool,
    /// Was acknowledged as done, and is not known to be lost.
    acked: bool,
    /// The acknowledgement said that it is durable.
    fua: bool,
    /// Survives a power cut of the origin.
    durable: bool,
    dead: Option<Moment>,
}

impl Value {
    /// What a sector surely and durably holds.
    fn settled(tag: Tag, now: Moment) -> Self {
        Self {
            tag,
            issued: now,
            answered: Some(now),
            certain: true,
            acked: true,
            fua: false,
            durable: true,
            dead: None,
        }
    }

    fn answered_by(&self, moment: Moment) -> bool {
        self.answered.is_some_and(|answered| answered <= moment)
    }
}

/// The history of one disk.
#[derive(Debug)]
pub struct History {
    sectors: Vec<Vec<Value>>,
    barriers: Barriers,
    /// What was not durable may have been lost, and nobody has looked yet.
    unsettled: bool,
    /// A failed flush of the origin has taken writes along: a read that began before may have returned
    /// what was there before, and says nothing of what later ones return.
    lost_at: Moment,
}

/// Values of one sector that are kept although they are dead: what a power cut of the origin may bring
/// back, what an origin that was long away still holds, and what a message can name.
const DEAD_KEPT: usize = 4096;

impl History {
    /// The history of a disk of that many sectors, all of them zero.
    pub fn new(sectors: usize) -> Self {
        Self {
            sectors: vec![vec![Value::settled(0, 0)]; sectors],
            barriers: Barriers::default(),
            unsettled: false,
            lost_at: 0,
        }
    }

    fn range(&mut self, offset: Offset, length: Bytes) -> &mut [Vec<Value>] {
        let first = (offset.get() / SECTOR_BYTES) as usize;
        let count = (length.get() / SECTOR_BYTES) as usize;
        &mut self.sectors[first..first + count]
    }

    /// A write of values `tag, tag + 1, ...` (or of zeroes for 0) is on its way.
    pub fn write_issued(&mut self, offset: Offset, length: Bytes, tag: Tag, now: Moment) {
        for (i, sector) in (0..).zip(self.range(offset, length)) {
            sector.push(Value {
                tag: if tag == 0 { 0 } else { tag + i },
                issued: now,
                answered: None,
                certain: false,
                acked: false,
                fua: false,
                durable: false,
                dead: None,
            });
        }
    }

    /// The write that was issued at `issued` has been answered. `certain` if it surely happened
    /// as a whole; `durable` if it surely survives.
    ///
    /// # Panics
    /// If the range is not on the disk.
    pub fn write_answered(
        &mut self,
        offset: Offset,
        length: Bytes,
        issued: Moment,
        certain: bool,
        durable: bool,
        now: Moment,
    ) {
        for sector in self.range(offset, length) {
            for value in sector.iter_mut() {
                if value.issued == issued {
                    value.answered = Some(now);
                    value.certain = certain;
                    value.acked = certain;
                    value.fua = certain && durable;
                    value.durable = certain && durable;
                } else if certain && value.answered_by(issued) {
                    value.dead.get_or_insert(now);
                }
            }
            let dead = sector.iter().filter(|value| value.dead.is_some()).count();
            if dead > DEAD_KEPT {
                let oldest = sector.iter().position(|value| value.dead.is_some());
                sector.remove(oldest.expect("there are dead ones"));
            }
        }
    }

    /// A flush that was issued at `issued` has been acknowledged: what was acknowledged before
    /// it is durable, and ordered before whatever is asked after this.
    pub fn flushed(&mut self, issued: Moment, now: Moment) {
        self.durable_before(issued);
        self.barriers.add(issued, now);
    }

    /// What was acknowledged before `issued` is durable, unless a flush has failed since.
    pub fn durable_before(&mut self, issued: Moment) {
        self.durable_between(0, issued);
    }

    /// The same of what was asked since `since`.
    pub fn durable_between(&mut self, since: Moment, issued: Moment) {
        if issued < self.lost_at {
            return;
        }
        for value in self.sectors.iter_mut().flatten() {
            let is_between = value.issued >= since && value.answered_by(issued);
            value.durable |= value.certain && is_between;
        }
    }

    /// A read that began at `began` has returned these bytes.
    ///
    /// # Errors
    /// I1 or I4 if it must not have.
    pub fn read(
        &mut self,
        offset: Offset,
        bytes: &[u8],
        began: Moment,
        now: Moment,
    ) -> Result<(), Violation> {
        let length = Bytes::new(bytes.len() as u64);
        let first = offset.get() / SECTOR_BYTES;
        let kills = began >= self.lost_at;
        for ((number, sector), content) in (first..)
            .zip(self.range(offset, length))
            .zip(bytes.chunks_exact(SECTOR))
        {
            let Some(tag) = tag_of(content) else {
                return Err(Violation::new(
                    "I2",
                    format!("sector {number} is torn or holds no value that was ever written"),
                ));
            };
            check_sector(sector, tag, began, kills.then_some(now)).map_err(|(invariant, why)| {
                Violation::new(
                    invariant,
                    format!(
                        "sector {number} (block {}) read as {tag} since event {began}: {why}; its history: {}",
                        number / 8,
                        describe(sector)
                    ),
                )
            })?;
        }
        Ok(())
    }

    /// A read has returned these bytes to another host, whose guest goes on when this host has lost power: what was
    /// acknowledged of them is durable.
    ///
    /// # Panics
    /// If the range is not on the disk.
    pub fn lasts(&mut self, offset: Offset, bytes: &[u8]) {
        let length = Bytes::new(bytes.len() as u64);
        let sectors = self.range(offset, length).iter_mut();
        for (sector, content) in sectors.zip(bytes.chunks_exact(SECTOR)) {
            let tag = tag_of(content);
            for value in sector.iter_mut().filter(|value| Some(value.tag) == tag) {
                value.durable |= value.certain && value.answered.is_some();
            }
        }
    }

    /// The host has crashed: what was in flight may have happened or not. What an earlier loss of
    /// power may have taken, and nobody has looked for since, is not asked for any more.
    pub fn crashed(&mut self, now: Moment) {
        let unsettled = self.unsettled;
        for value in self.sectors.iter_mut().flatten() {
            value.answered.get_or_insert(now);
            value.acked &= value.certain || !unsettled;
        }
    }

    /// What keeps what was not flushed has lost power: only what is durable is sure to be there.
    /// Values that were dead may be back unless a durable write killed them.
    pub fn lost_power(&mut self) {
        self.unsettled = true;
        for sector in &mut self.sectors {
            let floor: Vec<(Moment, Moment)> = sector
                .iter()
                .filter(|value| value.durable)
                .map(|value| (value.issued, value.answered.unwrap_or(value.issued)))
                .collect();
            for value in sector.iter_mut() {
                // The moment is in the past of any read.
                let killer = floor
                    .iter()
                    .find(|(issued, _)| value.answered_by(*issued) && value.issued != *issued);
                value.dead = killer.map(|(_, answered)| *answered);
                // It may be gone: a later flush does not make it durable.
                value.certain &= value.durable;
            }
        }
    }

    /// A flush of the origin has failed and may have taken along whatever is not durable. False if there
    /// is no such thing that was acknowledged.
    pub fn lost_unflushed(&mut self, now: Moment) -> bool {
        self.lost_at = now;
        let may_go = |value: &Value| value.certain && !value.durable && value.dead.is_none();
        let has_lost = self.sectors.iter().flatten().any(may_go);
        self.lost_power();
        has_lost
    }

    /// After a crash: this is what the origin holds now from `offset` on, and nothing is in flight to it.
    /// With `durable` it is so for good, of all of the disk.
    ///
    /// # Errors
    /// I2 if the origin must not hold it: something that was acknowledged is not there.
    ///
    /// # Panics
    /// If it is not on the disk.
    pub fn origin_holds(
        &mut self,
        offset: Offset,
        bytes: &[u8],
        durable: bool,
        now: Moment,
    ) -> Result<(), Violation> {
        self.read(offset, bytes, now, now).map_err(|violation| {
            Violation::new("I2", format!("at the origin, {}", violation.what))
        })?;
        if durable {
            let length = Bytes::new(bytes.len() as u64);
            let sectors = self.range(offset, length).iter_mut();
            for (sector, content) in sectors.zip(bytes.chunks_exact(SECTOR)) {
                let tag = tag_of(content).expect("it was just read");
                sector.retain(|value| value.dead.is_some() && value.tag != tag);
                sector.push(Value::settled(tag, now));
            }
            self.unsettled = false;
        }
        Ok(())
    }

    /// Somebody else has written the origin while nobody was attached: the only value now, but for
    /// those of writes that are still on their way.
    pub fn replaced(&mut self, sector: usize, tag: Tag, now: Moment) {
        let values = &mut self.sectors[sector];
        for value in values.iter_mut().filter(|value| value.answered.is_some()) {
            value.dead.get_or_insert(now);
        }
        values.push(Value::settled(tag, now));
    }
}

fn check_sector(
    sector: &mut [Value],
    tag: Tag,
    began: Moment,
    kills_at: Option<Moment>,
) -> Result<(), (&'static str, String)> {
    let legal = |value: &Value| value.tag == tag && value.dead.is_none_or(|dead| dead > began);
    // Zeroes have no write of their own: any of the candidates may be the one that was read.
    let Some(oldest) = sector
        .iter()
        .filter(|value| legal(value))
        .map(|value| value.issued)
        .min()
    else {
        return match sector.iter().find(|value| value.tag == tag) {
            Some(value) => Err((
                "I1",
                format!(
                    "a value that was overwritten at event {}",
                    value.dead.unwrap_or(0)
                ),
            )),
            None => Err(("I4", "a value that was never written there".to_owned())),
        };
    };
    let point = began.max(oldest);
    for value in sector.iter_mut() {
        if let Some(now) = kills_at
            && value.tag != tag
            && value.answered_by(point)
        {
            value.dead.get_or_insert(now);
        }
    }
    Ok(())
}

fn describe(sector: &[Value]) -> String {
    let recent = sector.iter().rev().take(6).map(|value| {
        let answered = value.answered.map_or("..".to_owned(), |m| m.to_string());
        let sure = if value.certain { "" } else { "?" };
        let dead = value.dead.map_or(String::new(), |m| format!(" dead@{m}"));
        format!(
            "{}{sure} [{}-{answered}]{}{dead}",
            value.tag,
            value.issued,
            if value.durable { " durable" } else { "" }
        )
    });
    recent.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Bytes = Bytes::new(SECTOR_BYTES);

    fn sector(tag: Tag) -> Vec<u8> {
        let mut bytes = vec![0; SECTOR];
        fill_sector(&mut bytes, tag);
        bytes
    }

    fn read(
        history: &mut History,
        tag: Tag,
        began: Moment,
        now: Moment,
    ) -> Result<(), &'static str> {
        history
            .read(Offset::ZERO, &sector(tag), began, now)
            .map_err(|violation| violation.invariant)
    }

    #[test]
    fn a_sector_names_its_write_and_a_torn_one_does_not() {
        assert_eq!(tag_of(&sector(77)), Some(77));
        assert_eq!(tag_of(&sector(0)), Some(0));
        let mut torn = sector(77);
        torn[256..].copy_from_slice(&sector(78)[256..]);
        assert_eq!(tag_of(&torn), None);
    }

    #[test]
    fn an_overwritten_value_is_stale_once_the_new_one_is_acknowledged() {
        let mut history = History::new(1);
        history.write_issued(Offset::ZERO, ONE, 5, 1);
        assert_eq!(read(&mut history, 0, 2, 3), Ok(()));
        history.write_answered(Offset::ZERO, ONE, 1, true, false, 4);
        assert_eq!(
            read(&mut history, 0, 3, 5),
            Ok(()),
            "it began before the answer"
        );
        assert_eq!(read(&mut history, 0, 5, 6), Err("I1"));
        assert_eq!(read(&mut history, 5, 5, 6), Ok(()));
        assert_eq!(read(&mut history, 9, 5, 6), Err("I4"));
    }

    #[test]
    fn reads_do_not_go_back_to_what_an_earlier_read_has_left() {
        let mut history = History::new(1);
        history.write_issued(Offset::ZERO, ONE, 5, 1);
        assert_eq!(read(&mut history, 5, 2, 3), Ok(()));
        assert_eq!(read(&mut history, 0, 4, 5), Err("I1"));
    }

    #[test]
    fn of_two_concurrent_writes_either_wins_but_only_one() {
        let mut history = History::new(1);
        history.write_issued(Offset::ZERO, ONE, 5, 1);
        history.write_issued(Offset::ZERO, ONE, 6, 2);
        history.write_answered(Offset::ZERO, ONE, 2, true, false, 3);
        history.write_answered(Offset::ZERO, ONE, 1, true, false, 4);
        assert_eq!(read(&mut history, 6, 5, 6), Ok(()));
        assert_eq!(read(&mut history, 5, 7, 8), Err("I1"));
    }

    #[test]
    fn a_failed_write_may_show_and_then_stays() {
        let mut history = History::new(1);
        history.write_issued(Offset::ZERO, ONE, 5, 1);
        history.write_answered(Offset::ZERO, ONE, 1, false, false, 2);
        assert_eq!(read(&mut history, 0, 3, 4), Ok(()));
        assert_eq!(
            read(&mut history, 5, 5, 6),
            Err("I1"),
            "it was seen not to have happened"
        );
    }

    #[test]
    fn a_power_cut_of_the_origin_takes_what_was_not_flushed_and_no_more() {
        let mut history = History::new(1);
        for (tag, at) in [(5, 1), (6, 3)] {
            history.write_issued(Offset::ZERO, ONE, tag, at);
            history.write_answered(Offset::ZERO, ONE, at, true, false, at + 1);
        }
        history.flushed(2, 3);
        history.crashed(10);
        history.lost_power();
        assert_eq!(read(&mut history, 0, 11, 12), Err("I1"), "5 was flushed");
        assert_eq!(read(&mut history, 5, 11, 12), Ok(()));
        assert_eq!(read(&mut history, 6, 13, 14), Err("I1"));
    }
}
