//! The reads of a standby's clients, whose bytes the owner is asked for, piece by piece.
//!
//! Invariants:
//! - Of a read one piece is asked for at a time.
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
    /// Whether the next piece was asked for.
    is_asked: bool,
}

/// The reads of one disk.
pub(super) struct ProxiedReads {
    disk: u32,
    reads: Vec<Read>,
}

impl ProxiedReads {
    /// `disk` tells the numbers of this disk's pieces from those of others.
    pub(super) fn new(disk: u32) -> Self {
        let reads = Vec::new();
        Self { disk, reads }
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
            is_asked: false,
        });
    }

    /// The pieces that the owner is to be asked for now.
    pub(super) fn ask(&mut self) -> Vec<Piece> {
        let disk = self.disk;
        let unasked = self.reads.iter_mut().filter(|read| !read.is_asked);
        let ask = |read: &mut Read| {
            read.is_asked = true;
            let got = read.bytes.len() as u64;
            let left = (read.length.get() - got).min(DATA_MAX as u64);
            Piece {
                number: number(disk, read.ticket),
                offset: read.offset.get() + got,
                length: u32::try_from(left).unwrap_or(u32::MAX),
            }
        };
        unasked.map(ask).collect()
    }

    /// A piece has come. The read that has ended with it.
    pub(super) fn got(&mut self, number: u64, data: &[u8]) -> Option<Ended> {
        let at = self.position(number)?;
        let read = &mut self.reads[at];
        read.is_asked = false;
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
            self.reads[at].is_asked = false;
        }
    }

    /// The link is lost, and with it what was asked for.
    pub(super) fn lost(&mut self) {
        for read in &mut self.reads {
            read.is_asked = false;
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
        let disk = self.disk;
        let mut reads = self.reads.iter();
        reads.position(|read| read.is_asked && self::number(disk, read.ticket) == number)
    }
}

/// The number of a read's pieces: never zero, which is a notice's.
fn number(disk: u32, ticket: u64) -> u64 {
    u64::from(disk) << 32 | ((ticket & 0x7fff_ffff) + 1)
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
        let first = reads.ask();
        reads.refused(first[0].number);
        assert_eq!(reads.ask(), first);
        reads.lost();
        // The answer to what was lost is none.
        assert_eq!(reads.got(first[0].number, &[1; 4096]), None);
        assert_eq!(reads.ask(), first);
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
