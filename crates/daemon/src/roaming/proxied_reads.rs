//! The reads of a standby's clients, whose bytes the owner is asked for, piece by piece.
//!
//! Invariants:
//! - Of a read one piece is asked for at a time.
//! - No two questions have the same number: the answer to one that was given up, which may come late over a new
//!   session, is nobody's.
//! - A read ends once: with all its bytes, late, or because the disk has come here.

use link_protocol::DATA_MAX;
use units::{Bytes, Offset};

/// The disk's number in the number of a piece.
pub(super) fn disk_of(number: u64) -> u32 {
    (number >> 32) as u32
}

/// What the owner is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Names the piece in the answer; not zero.
    pub(super) number: u64,
    pub(super) offset: u64,
    pub(super) length: u32,
}

/// A read that has ended: its ticket and its bytes, or `None` if it cannot have them.
pub(super) type Ended = (u64, Option<Vec<u8>>);

struct Read {
    ticket: u64,
    offset: Offset,
    length: Bytes,
    bytes: Vec<u8>,
    /// When it has waited long enough.
    until: std::time::Instant,
    /// The number under which the next piece was asked for.
    asked: Option<u64>,
}

/// Numbers of the questions about one disk.
pub(super) struct Numbers {
    disk: u32,
    /// How often was asked.
    asks: u32,
}

impl Numbers {
    /// `disk` tells the numbers of this disk's questions from those of others.
    pub(super) fn new(disk: u32) -> Self {
        Self { disk, asks: 0 }
    }

    /// A number under which nothing of this disk was asked for.
    pub(super) fn next(&mut self) -> u64 {
        // Never zero, which is a notice's number.
        self.asks = self.asks.wrapping_add(1).max(1);
        u64::from(self.disk) << 32 | u64::from(self.asks)
    }
}

/// The reads of one disk.
pub(super) struct ProxiedReads {
    numbers: Numbers,
    reads: Vec<Read>,
}

impl ProxiedReads {
    /// `disk` tells the numbers of this disk's pieces from those of others.
    pub(super) fn new(disk: u32) -> Self {
        Self {
            numbers: Numbers::new(disk),
            reads: Vec::new(),
        }
    }

    /// A client reads.
    pub(super) fn push(
        &mut self,
        ticket: u64,
        (offset, length): (Offset, Bytes),
        until: std::time::Instant,
    ) {
        self.reads.push(Read {
            ticket,
            offset,
            length,
            bytes: Vec::new(),
            until,
            asked: None,
        });
    }

    /// A number under which nothing of this disk was asked for.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers.next()
    }

    /// The pieces that the owner is to be asked for now.
    pub(super) fn ask(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for at in 0..self.reads.len() {
            if self.reads[at].asked.is_some() {
                continue;
            }
            let number = self.number();
            let read = &mut self.reads[at];
            read.asked = Some(number);
            let got = read.bytes.len() as u64;
            let left = (read.length.get() - got).min(DATA_MAX as u64);
            pieces.push(Piece {
                number,
                offset: read.offset.get() + got,
                length: u32::try_from(left).unwrap_or(u32::MAX),
            });
        }
        pieces
    }

    /// A piece has come. The read that has ended with it.
    pub(super) fn got(&mut self, number: u64, data: &[u8]) -> Option<Ended> {
        let at = self.position(number)?;
        let read = &mut self.reads[at];
        read.asked = None;
        read.bytes.extend_from_slice(data);
        let (got, wanted) = (read.bytes.len() as u64, read.length.get());
        // An empty piece, or one that is too long, is no answer of an owner.
        let is_wrong = data.is_empty() || got > wanted;
        if got < wanted && !is_wrong {
            return None;
        }
        let read = self.reads.remove(at);
        Some((read.ticket, (!is_wrong).then_some(read.bytes)))
    }

    /// The owner does not serve a piece now. It is asked for again.
    pub(super) fn refused(&mut self, number: u64) {
        if let Some(at) = self.position(number) {
            self.reads[at].asked = None;
        }
    }

    /// A session has begun or ended: what was asked for is asked for again.
    pub(super) fn lost(&mut self) {
        for read in &mut self.reads {
            read.asked = None;
        }
    }

    /// The reads that have waited long enough: they wait no more.
    pub(super) fn late(&mut self, now: std::time::Instant) -> Vec<u64> {
        let late = self.reads.extract_if(.., |read| read.until <= now);
        late.map(|read| read.ticket).collect()
    }

    /// Nothing is read from the owner any more.
    pub(super) fn clear(&mut self) {
        self.reads.clear();
    }

    fn position(&self, number: u64) -> Option<usize> {
        let mut reads = self.reads.iter();
        reads.position(|read| read.asked == Some(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn reads(length: u64) -> (ProxiedReads, Instant) {
        let mut reads = ProxiedReads::new(3);
        let until = Instant::now() + Duration::from_secs(10);
        reads.push(5, (Offset::new(8192), Bytes::new(length)), until);
        (reads, until)
    }

    #[test]
    fn a_long_read_is_asked_for_piece_by_piece() {
        let length = DATA_MAX as u64 + 4096;
        let (mut reads, _) = reads(length);
        let [piece] = reads.ask()[..] else {
            panic!("one piece at a time");
        };
        assert_eq!((piece.offset, piece.length as usize), (8192, DATA_MAX));
        assert_eq!(disk_of(piece.number), 3);
        assert!(reads.ask().is_empty());
        assert_eq!(reads.got(piece.number, &vec![1; DATA_MAX]), None);
        let [piece] = reads.ask()[..] else {
            panic!("the rest is asked for");
        };
        assert_eq!((piece.offset, piece.length), (8192 + DATA_MAX as u64, 4096));
        let mut bytes = vec![1; DATA_MAX];
        bytes.extend([2; 4096]);
        let ended = reads.got(piece.number, &[2; 4096]);
        assert_eq!(ended, Some((5, Some(bytes))));
        assert_eq!(reads.got(piece.number, &[2; 4096]), None);
    }

    #[test]
    fn what_was_refused_or_lost_is_asked_for_again() {
        let (mut reads, _) = reads(4096);
        let asked = |reads: &mut ProxiedReads| {
            let [piece] = reads.ask()[..] else {
                panic!("one piece is asked for");
            };
            assert_eq!((piece.offset, piece.length), (8192, 4096));
            piece.number
        };
        let first = asked(&mut reads);
        reads.refused(first);
        let second = asked(&mut reads);
        reads.lost();
        assert_eq!(reads.got(second, &[1; 4096]), None);
        let third = asked(&mut reads);
        // The answers to what was given up come late.
        for number in [first, second] {
            assert_eq!(reads.got(number, &[1; 4096]), None);
        }
        let bytes = vec![2; 4096];
        assert_eq!(reads.got(third, &bytes), Some((5, Some(bytes.clone()))));
    }

    #[test]
    fn a_read_ends_late_or_with_a_wrong_answer() {
        let (mut reads, until) = reads(4096);
        let number = reads.ask()[0].number;
        assert!(
            reads
                .late(
                    until
                        .checked_sub(Duration::from_millis(1))
                        .expect("it is later")
                )
                .is_empty()
        );
        assert_eq!(reads.late(until), vec![5_u64]);
        assert_eq!(reads.got(number, &[1; 4096]), None);
        for wrong in [&[][..], &[1; 4097]] {
            let (mut reads, _) = self::reads(4096);
            let number = reads.ask()[0].number;
            assert_eq!(reads.got(number, wrong), Some((5, None)));
        }
    }
}
