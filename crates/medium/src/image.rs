//! The bytes of a medium, twice: as a reader sees them now, and as a power cut leaves them.
//!
//! Invariants:
//! - outside the sectors of `unflushed` both images are equal;
//! - `unflushed` is in the order of completion, and a sector that a durable write replaced
//!   is struck from every older entry, so that a crash cannot bring the older bytes back;
//! - a sector is atomic: a crash leaves one whole version of it.

use crate::limits::UNFLUSHED_WRITES_MAX;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use units::{Bytes, Offset, Prng, SECTOR_BYTES};

const SECTOR: usize = 512;
const _: () = assert!(SECTOR as u64 == SECTOR_BYTES);

/// A point in the order of completed writes: everything before it is covered by a flush that
/// was submitted at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteMark(u64);

struct Unflushed {
    number: u64,
    sector: usize,
    data: Vec<u8>,
    /// One flag a sector: still this write's to decide.
    live: Vec<bool>,
}

impl Unflushed {
    /// Where it lies in an image.
    fn range(&self) -> Range<usize> {
        let start = self.sector * SECTOR;
        start..start + self.data.len()
    }
}

/// A volatile and a durable image of one medium.
pub struct Image {
    volatile: Vec<u8>,
    durable: Vec<u8>,
    unflushed: VecDeque<Unflushed>,
    next: u64,
    dice: Prng,
}

/// How a crash treats one write.
#[derive(Clone, Copy)]
enum Fate {
    Kept,
    Lost,
    /// Each sector by itself.
    Torn,
    /// The first so many sectors.
    Prefix(usize),
}

impl Image {
    /// An image of zeroes.
    ///
    /// # Panics
    /// If the capacity is not a multiple of 512 bytes.
    pub fn new(capacity: Bytes, dice: Prng) -> Self {
        assert!(
            capacity.is_multiple_of(SECTOR_BYTES),
            "a medium has whole sectors"
        );
        Self {
            volatile: vec![0; capacity.to_usize()],
            durable: vec![0; capacity.to_usize()],
            unflushed: VecDeque::new(),
            next: 0,
            dice,
        }
    }

    /// Size in bytes.
    pub fn capacity(&self) -> Bytes {
        Bytes::new(self.volatile.len() as u64)
    }

    /// Fills `into` with what a reader sees at `offset`.
    ///
    /// # Panics
    /// If the range is not within the image.
    pub fn read(&self, offset: Offset, into: &mut [u8]) {
        let start = offset.to_usize();
        into.copy_from_slice(&self.volatile[start..start + into.len()]);
    }

    /// Completes a write that a power cut may still undo.
    ///
    /// # Panics
    /// If the range is not within the image or not of whole sectors.
    pub fn write(&mut self, offset: Offset, data: &[u8]) {
        let sector = self.put(offset, data);
        self.unflushed.push_back(Unflushed {
            number: self.next,
            sector,
            data: data.to_vec(),
            live: vec![true; data.len() / SECTOR],
        });
        self.next += 1;
        if self.unflushed.len() > UNFLUSHED_WRITES_MAX {
            let oldest = self.unflushed.pop_front().expect("more than none");
            settle(&mut self.durable, &oldest);
        }
    }

    /// Completes a write that survives a power cut.
    ///
    /// # Panics
    /// If the range is not within the image or not of whole sectors.
    pub fn write_durable(&mut self, offset: Offset, data: &[u8]) {
        let sector = self.put(offset, data);
        self.make_durable(sector, data.len() / SECTOR);
    }

    /// The mark of a flush that is submitted now.
    pub fn mark(&self) -> WriteMark {
        WriteMark(self.next)
    }

    /// Completes a flush that was submitted at `mark`.
    pub fn flush(&mut self, mark: WriteMark) {
        while let Some(oldest) = self.unflushed.front() {
            if oldest.number >= mark.0 {
                break;
            }
            settle(&mut self.durable, oldest);
            self.unflushed.pop_front();
        }
    }

    /// Fails a flush that was submitted at `mark`: of what it would have covered some is durable now, and
    /// the rest is gone for readers, too. A kernel that could not write a page does the same: it
    /// counts the page as written, and drops it some day. True if it would have covered something.
    pub fn fail_flush(&mut self, mark: WriteMark) -> bool {
        let covered = self
            .unflushed
            .iter()
            .take_while(|entry| entry.number < mark.0);
        let lost: Vec<Unflushed> = self.unflushed.drain(..covered.count()).collect();
        for entry in &lost {
            let fate = self.fate(entry.live.len());
            self.land(entry, fate);
        }
        for entry in &lost {
            let range = entry.range();
            self.volatile[range.clone()].copy_from_slice(&self.durable[range]);
        }
        for entry in &self.unflushed {
            settle(&mut self.volatile, entry);
        }
        !lost.is_empty()
    }

    /// Cuts the power: every unflushed write, and every write of `in_flight` (offset and
    /// bytes, not completed), is kept, lost or torn. Afterwards both images are equal.
    ///
    /// # Panics
    /// If a write in flight is not within the image or not of whole sectors.
    pub fn crash(&mut self, in_flight: &[(Offset, &[u8])]) {
        for (offset, data) in in_flight {
            self.write(*offset, data);
        }
        let lost = std::mem::take(&mut self.unflushed);
        let mood = self.dice.below(8);
        for entry in &lost {
            let fate = match mood {
                0 => Fate::Lost,
                1 => Fate::Kept,
                _ => self.fate(entry.live.len()),
            };
            self.land(entry, fate);
        }
        for entry in &lost {
            let range = entry.range();
            self.volatile[range.clone()].copy_from_slice(&self.durable[range]);
        }
    }

    /// Shows every content that a power cut now could leave in a sector, the sector's number with
    /// it: the durable one, and that of each unflushed write that may still land there.
    pub fn fates(&self, mut show: impl FnMut(usize, &[u8])) {
        for (number, sector) in self.durable.chunks_exact(SECTOR).enumerate() {
            show(number, sector);
        }
        for entry in &self.unflushed {
            let sectors = entry.data.chunks_exact(SECTOR).zip(&entry.live);
            for (number, (sector, live)) in (entry.sector..).zip(sectors) {
                if *live {
                    show(number, sector);
                }
            }
        }
    }

    /// Flips some bits of the sector at `offset` in both images: the medium rots.
    ///
    /// # Panics
    /// If the sector is not within the image.
    pub fn rot(&mut self, offset: Offset) {
        let start = offset.to_usize() / SECTOR * SECTOR;
        let at = start + usize::try_from(self.dice.below(SECTOR_BYTES)).expect("within a sector");
        let mask = u8::try_from(self.dice.below(255) + 1).expect("1 to 255");
        self.volatile[at] ^= mask;
        self.durable[at] ^= mask;
        for entry in &mut self.unflushed {
            let first = entry.sector * SECTOR;
            if at >= first && at < first + entry.data.len() {
                entry.data[at - first] ^= mask;
            }
        }
    }

    /// Replaces all bytes, durably: a medium prepared by hand.
    ///
    /// # Panics
    /// If `bytes` is not as long as the image.
    pub fn load(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.volatile.len(), "an image keeps its size");
        self.volatile.copy_from_slice(bytes);
        self.durable.copy_from_slice(bytes);
        self.unflushed.clear();
    }

    /// What a reader sees.
    pub fn bytes(&self) -> &[u8] {
        &self.volatile
    }

    fn put(&mut self, offset: Offset, data: &[u8]) -> usize {
        let start = offset.to_usize();
        assert!(
            start.is_multiple_of(SECTOR) && data.len().is_multiple_of(SECTOR),
            "a medium is written in whole sectors"
        );
        self.volatile[start..start + data.len()].copy_from_slice(data);
        start / SECTOR
    }

    fn make_durable(&mut self, sector: usize, count: usize) {
        let range = sector * SECTOR..(sector + count) * SECTOR;
        self.durable[range.clone()].copy_from_slice(&self.volatile[range]);
        for entry in &mut self.unflushed {
            let from = sector.max(entry.sector);
            let to = (sector + count).min(entry.sector + entry.live.len());
            for at in from..to {
                entry.live[at - entry.sector] = false;
            }
        }
    }

    /// Makes those live sectors of a write durable that its fate keeps.
    fn land(&mut self, entry: &Unflushed, fate: Fate) {
        for (i, live) in entry.live.iter().enumerate() {
            let kept = match fate {
                Fate::Kept => true,
                Fate::Lost => false,
                Fate::Torn => self.dice.one_in(2),
                Fate::Prefix(sectors) => i < sectors,
            };
            if *live && kept {
                let at = (entry.sector + i) * SECTOR;
                self.durable[at..at + SECTOR]
                    .copy_from_slice(&entry.data[i * SECTOR..(i + 1) * SECTOR]);
            }
        }
    }

    fn fate(&mut self, sectors: usize) -> Fate {
        match self.dice.below(4) {
            0 => Fate::Kept,
            1 => Fate::Lost,
            2 => Fate::Torn,
            _ => {
                let most = u64::try_from(sectors).expect("a length fits");
                Fate::Prefix(usize::try_from(self.dice.below(most + 1)).expect("at most sectors"))
            }
        }
    }
}

/// Writes the live sectors of a write through to the durable image.
fn settle(durable: &mut [u8], entry: &Unflushed) {
    for (i, live) in entry.live.iter().enumerate() {
        if *live {
            let at = (entry.sector + i) * SECTOR;
            durable[at..at + SECTOR].copy_from_slice(&entry.data[i * SECTOR..(i + 1) * SECTOR]);
        }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("capacity", &self.capacity())
            .field("unflushed", &self.unflushed.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(seed: u64) -> Image {
        Image::new(Bytes::kib(64), Prng::new(seed))
    }

    fn sector(image: &Image, number: usize) -> u8 {
        let bytes = &image.bytes()[number * SECTOR..(number + 1) * SECTOR];
        assert!(
            bytes.iter().all(|b| *b == bytes[0]),
            "a sector is never torn"
        );
        bytes[0]
    }

    #[test]
    fn flushed_and_durable_writes_survive_every_crash() {
        for seed in 0..200 {
            let mut image = image(seed);
            image.write(Offset::ZERO, &[1; 4096]);
            let mark = image.mark();
            image.write(Offset::kib(8), &[3; 4096]);
            image.flush(mark);
            image.write_durable(Offset::kib(4), &[2; 4096]);
            image.crash(&[]);
            for number in 0..8 {
                assert_eq!(sector(&image, number), 1);
                assert_eq!(sector(&image, number + 8), 2);
            }
        }
    }

    #[test]
    fn a_failed_flush_loses_writes_that_no_later_flush_brings_back() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut image = image(seed);
            image.write_durable(Offset::ZERO, &[1; 512]);
            image.write(Offset::ZERO, &[2; 512]);
            let mark = image.mark();
            image.write(Offset::new(512), &[3; 512]);
            image.fail_flush(mark);
            let found = sector(&image, 0);
            seen.insert(found);
            assert_eq!(sector(&image, 1), 3, "what came after the flush is there");
            image.flush(image.mark());
            image.crash(&[]);
            assert_eq!([sector(&image, 0), sector(&image, 1)], [found, 3]);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn an_unflushed_write_is_kept_lost_and_torn_by_some_seed() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut image = image(seed);
            image.write(Offset::ZERO, &[1; 4096]);
            image.crash(&[(Offset::kib(4), &[2; 4096])]);
            outcomes.insert((0..16).map(|n| sector(&image, n)).collect::<Vec<_>>());
        }
        let first = |v: u8| outcomes.iter().any(|o| o[..8].iter().all(|s| *s == v));
        assert!(first(0));
        assert!(first(1));
        assert!(
            outcomes
                .iter()
                .any(|o| o[..8].contains(&0) && o[..8].contains(&1))
        );
        assert!(
            outcomes
                .iter()
                .any(|o| o[8..].contains(&0) && o[8..].contains(&2))
        );
    }

    #[test]
    fn a_later_write_may_survive_an_earlier_one_that_does_not() {
        let reordered = (0..200).any(|seed| {
            let mut image = image(seed);
            image.write(Offset::ZERO, &[1; 512]);
            image.write(Offset::kib(4), &[2; 512]);
            image.crash(&[]);
            sector(&image, 0) == 0 && sector(&image, 8) == 2
        });
        assert!(reordered);
    }

    #[test]
    fn an_older_unflushed_write_never_replaces_a_durable_one() {
        for seed in 0..200 {
            let mut image = image(seed);
            image.write(Offset::ZERO, &[1; 4096]);
            image.write_durable(Offset::new(512), &[2; 512]);
            image.crash(&[]);
            assert_eq!(sector(&image, 1), 2);
        }
    }

    #[test]
    fn a_write_after_the_flush_was_submitted_is_not_covered_by_it() {
        let lost = (0..50).any(|seed| {
            let mut image = image(seed);
            let mark = image.mark();
            image.write(Offset::ZERO, &[1; 512]);
            image.flush(mark);
            image.crash(&[]);
            sector(&image, 0) == 0
        });
        assert!(lost);
    }

    #[test]
    fn the_fates_of_a_sector_are_what_crashes_leave_there() {
        let prepared = |seed| {
            let mut image = image(seed);
            image.write_durable(Offset::ZERO, &[1; 1024]);
            image.write(Offset::ZERO, &[2; 1024]);
            image.write_durable(Offset::new(512), &[3; 512]);
            image.write(Offset::ZERO, &[4; 512]);
            image
        };
        let mut shown = std::collections::BTreeSet::new();
        prepared(0).fates(|number, sector| {
            shown.insert((number, sector[0]));
        });
        let mut left = std::collections::BTreeSet::new();
        for seed in 0..500 {
            let mut image = prepared(seed);
            image.crash(&[]);
            left.extend((0..128).map(|number| (number, sector(&image, number))));
        }
        assert_eq!(shown, left);
        let first: Vec<u8> = shown.iter().filter(|f| f.0 < 2).map(|f| f.1).collect();
        assert_eq!(first, [1, 2, 4, 3]);
    }

    #[test]
    fn the_write_cache_is_bounded() {
        let mut image = image(1);
        for _ in 0..UNFLUSHED_WRITES_MAX + 10 {
            image.write(Offset::ZERO, &[1; 512]);
        }
        assert_eq!(image.unflushed.len(), UNFLUSHED_WRITES_MAX);
    }
}
