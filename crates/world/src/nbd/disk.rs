//! The disk of a modelled server: what a reader sees, what is durable, what a crash may leave.
//!
//! A sector holds the number of the write that it is from, zero where it was zeroed or never written.

use super::SECTORS;
use units::Prng;

/// A sector's value and the count of writes that were carried out before it: later ones have more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    stamp: u64,
    value: u64,
}

/// What was answered when a flush arrived.
#[derive(Clone, Debug)]
pub(super) struct Answered([Cell; SECTORS]);

#[derive(Debug, Default)]
pub(super) struct Disk {
    stamps: u64,
    volatile: [Cell; SECTORS],
    durable: [Cell; SECTORS],
    /// Of each sector the last write that was answered.
    answered: [Cell; SECTORS],
    /// A flush has failed to write it and the next will not try again, until it is written anew.
    given_up: [bool; SECTORS],
}

impl Disk {
    pub(super) fn value(&self, sector: usize) -> u64 {
        self.volatile[sector].value
    }

    pub(super) fn durable(&self, sector: usize) -> u64 {
        self.durable[sector].value
    }

    pub(super) fn write(&mut self, sector: usize, value: u64) {
        self.stamps += 1;
        let stamp = self.stamps;
        self.volatile[sector] = Cell { stamp, value };
        self.given_up[sector] = false;
    }

    /// A write to this sector is answered.
    pub(super) fn answer(&mut self, sector: usize, durable: bool) {
        self.answered[sector] = self.volatile[sector];
        if durable {
            self.durable[sector] = self.volatile[sector];
        }
    }

    pub(super) fn flush_arrives(&self) -> Answered {
        Answered(self.answered)
    }

    /// Makes durable what was answered when the flush arrived, and of the rest what it happens to.
    pub(super) fn flush(&mut self, arrived: &Answered, dice: &mut Prng) {
        for sector in 0..SECTORS {
            if self.given_up[sector] {
                continue;
            }
            let all = dice.one_in(2);
            let reached = if all {
                self.volatile[sector]
            } else {
                arrived.0[sector]
            };
            self.durable[sector] = self.durable[sector].max(reached);
        }
    }

    /// Nothing more can be done for what is not durable now, and no later flush knows of it.
    pub(super) fn fail_flush(&mut self, dice: &mut Prng) {
        for sector in 0..SECTORS {
            if self.volatile[sector] != self.durable[sector] {
                self.given_up[sector] = !dice.one_in(4);
            }
        }
    }

    /// The server's memory is gone; some of it may have been written back.
    pub(super) fn crash(&mut self, dice: &mut Prng) {
        let keeps_nothing = dice.one_in(2);
        for sector in 0..SECTORS {
            if self.given_up[sector] || keeps_nothing || dice.one_in(2) {
                self.volatile[sector] = self.durable[sector];
            }
            self.durable[sector] = self.volatile[sector];
            self.answered[sector] = self.volatile[sector];
            self.given_up[sector] = false;
        }
    }

    /// A server without flush keeps what it has written.
    pub(super) fn settle(&mut self) {
        self.durable = self.volatile;
    }
}
