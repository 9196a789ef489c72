//! What is asked of the client.

use super::{Doing, NbdWorld, SECTORS, bytes_of};
use block_io::{OriginOp, OriginVerb, Token};
use units::{Bytes, DiskSlot, Offset, SECTOR_BYTES};

impl NbdWorld {
    /// Asks for an operation of any kind, anywhere.
    pub(super) fn ask_something(&mut self) {
        let count = 1 + self.dice.below(self.settings.sectors_most);
        let first = self.dice.below(SECTORS as u64 + 1 - count);
        let index = |n: u64| usize::try_from(n).expect("a small disk");
        let (first, count) = (index(first), index(count));
        let fua = self.dice.one_in(4);
        let offset = Offset::new(first as u64 * SECTOR_BYTES);
        let length = Bytes::new(count as u64 * SECTOR_BYTES);
        let verb = match self.dice.below(10) {
            0..=2 => return self.ask_read(first, count),
            3 => OriginVerb::Flush,
            4 => OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap: self.dice.one_in(2),
                fua,
            },
            5 if self.client.geometry().can_discard => OriginVerb::Discard { offset, length },
            _ => {
                let number = self.asked + 1;
                let bytes: Vec<u8> = (0..count).flat_map(|_| bytes_of(number)).collect();
                let data = self.pool.copy_of(&bytes);
                OriginVerb::Write { offset, data, fua }
            }
        };
        self.ask(verb);
    }

    pub(super) fn ask_read(&mut self, first: usize, count: usize) {
        let length = Bytes::new(count as u64 * SECTOR_BYTES);
        self.ask(OriginVerb::Read {
            offset: Offset::new(first as u64 * SECTOR_BYTES),
            length,
            buf: self.pool.take_zeroed(length.to_usize()),
        });
    }

    pub(super) fn ask(&mut self, verb: OriginVerb) {
        self.asked += 1;
        let number = self.asked;
        let (doing, offset, length) = match &verb {
            OriginVerb::Read { offset, length, .. } => (Doing::Read, *offset, *length),
            OriginVerb::Write { offset, data, fua } => {
                let (fua, zeroes) = (*fua, false);
                let change = Doing::Change {
                    number,
                    fua,
                    zeroes,
                };
                (change, *offset, Bytes::new(data.len() as u64))
            }
            OriginVerb::WriteZeroes {
                offset,
                length,
                fua,
                ..
            } => {
                let (fua, zeroes) = (*fua, true);
                let change = Doing::Change {
                    number,
                    fua,
                    zeroes,
                };
                (change, *offset, *length)
            }
            OriginVerb::Discard { offset, length } => {
                let (fua, zeroes) = (false, true);
                let change = Doing::Change {
                    number,
                    fua,
                    zeroes,
                };
                (change, *offset, *length)
            }
            OriginVerb::Flush => (Doing::Flush, Offset::ZERO, Bytes::ZERO),
        };
        let range = (
            (offset.get() / SECTOR_BYTES) as usize,
            (length.get() / SECTOR_BYTES) as usize,
        );
        self.trace.event(
            self.now,
            &[6, number, range.0 as u64, range.1 as u64],
            || format!("{number}: {doing:?} of {} from {}", range.1, range.0),
        );
        let excuses = self.server.errors();
        let token = Token(number);
        self.checker
            .submitted(token, doing, range, self.now, excuses);
        let disk = DiskSlot::new(0);
        self.client.submit(OriginOp { token, disk, verb }, self.now);
    }
}
