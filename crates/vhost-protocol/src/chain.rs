//! A chain of descriptors, copied once and checked.
//!
//! ```text
//!   descriptor: 0 address u64 │ 8 length u32 │ 12 flags u16 │ 14 next u16
//!
//!   head ─► readable ─► readable ─► writable ─► writable          in the ring, or in a table
//!           └──────── data out ───┘└─── data in, status ───┘      of its own (indirect)
//! ```
//!
//! Invariants of a chain that was read:
//! - At most [`CHAIN_SEGMENTS_MAX`] segments, none empty, none beyond the end of the address
//!   space; the readable ones come first.
//! - Nothing of it is read from guest memory again.

use crate::area::{Area, GuestAddress, GuestMemory, Unmapped};
use crate::cursor::Cursor;
use crate::limits::CHAIN_SEGMENTS_MAX;
use crate::queue::Queue;
use smallvec::SmallVec;

const DESCRIPTOR_BYTES: u32 = 16;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Descriptors of a table that are copied at a time: four cache lines.
const TABLE_PIECE: usize = 16;

/// A piece of guest memory that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub address: GuestAddress,
    /// Bytes of it; not zero.
    pub length: u32,
}

/// Segments of a request: header, four of data, status without an allocation.
pub type Segments = SmallVec<[Segment; 6]>;

/// What a chain consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// What we may read, in order.
    pub readable: Segments,
    /// What we may write, in order.
    pub writable: Segments,
}

/// Why a chain makes no sense. The driver that made it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChain {
    /// It names a descriptor that is not there.
    #[error("a chain goes on at descriptor {0}, which is not there")]
    Next(u16),
    /// It has a loop, or more descriptors than anyone needs.
    #[error("a chain has more than {0} descriptors")]
    TooLong(u16),
    /// A descriptor without bytes.
    #[error("a chain has an empty descriptor")]
    Empty,
    /// A descriptor that ends beyond the end of the address space.
    #[error("a descriptor at {0} overflows")]
    Overflow(GuestAddress),
    /// A readable descriptor behind a writable one.
    #[error("a chain has a readable descriptor behind a writable one")]
    Order,
    /// A table of descriptors where none may be, or of an impossible length.
    #[error("a chain has an indirect descriptor that makes no sense")]
    Indirect,
    /// A table of descriptors that is not in memory.
    #[error(transparent)]
    Unmapped(#[from] Unmapped),
}

#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    length: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    fn decode(bytes: &[u8]) -> Self {
        let mut fields = Cursor::new(bytes);
        let whole = "a descriptor has sixteen bytes";
        Self {
            address: fields.u64().expect(whole),
            length: fields.u32().expect(whole),
            flags: fields.u16().expect(whole),
            next: fields.u16().expect(whole),
        }
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

impl Chain {
    /// Forgets the segments and keeps the room.
    pub fn clear(&mut self) {
        self.readable.clear();
        self.writable.clear();
    }

    /// Reads the chain that begins at `head` into this one.
    ///
    /// # Errors
    /// [`BadChain`].
    ///
    /// # Panics
    /// If the queue has no descriptor `head`, which [`Queue::pop`] rules out.
    pub fn read<A: Area>(
        &mut self,
        queue: &Queue<A>,
        memory: &impl GuestMemory,
        head: u16,
        may_be_indirect: bool,
    ) -> Result<(), BadChain> {
        self.clear();
        let mut descriptor = Descriptor::decode(&queue.descriptor(head));
        for count in 1.. {
            if descriptor.has(INDIRECT) {
                let is_first = count == 1;
                if !may_be_indirect || !is_first || descriptor.has(NEXT) {
                    return Err(BadChain::Indirect);
                }
                return self.read_table(memory, &descriptor);
            }
            self.add(&descriptor)?;
            if !descriptor.has(NEXT) {
                break;
            }
            if count == queue.size() {
                return Err(BadChain::TooLong(count));
            }
            if descriptor.next >= queue.size() {
                return Err(BadChain::Next(descriptor.next));
            }
            descriptor = Descriptor::decode(&queue.descriptor(descriptor.next));
        }
        Ok(())
    }

    /// Reads a table of descriptors. Linux and all others that we know of write them in order, so
    /// a piece of the table is copied at a time; one in another order costs a copy each.
    fn read_table(
        &mut self,
        memory: &impl GuestMemory,
        table: &Descriptor,
    ) -> Result<(), BadChain> {
        let entries = table.length / DESCRIPTOR_BYTES;
        let is_whole = table.length.is_multiple_of(DESCRIPTOR_BYTES) && entries > 0;
        let entries = match u16::try_from(entries) {
            Ok(entries) if is_whole && entries <= CHAIN_SEGMENTS_MAX => entries,
            _ => return Err(BadChain::Indirect),
        };
        let base = GuestAddress(table.address);
        if base.checked_add(u64::from(table.length)).is_none() {
            return Err(BadChain::Overflow(base));
        }
        let mut piece = Piece::default();
        let mut index = 0;
        for count in 1.. {
            let descriptor = piece.get(memory, base, entries, index)?;
            if descriptor.has(INDIRECT) {
                return Err(BadChain::Indirect);
            }
            self.add(&descriptor)?;
            if !descriptor.has(NEXT) {
                break;
            }
            if count == entries {
                return Err(BadChain::TooLong(count));
            }
            if descriptor.next >= entries {
                return Err(BadChain::Next(descriptor.next));
            }
            index = descriptor.next;
        }
        Ok(())
    }

    fn add(&mut self, descriptor: &Descriptor) -> Result<(), BadChain> {
        let address = GuestAddress(descriptor.address);
        if descriptor.length == 0 {
            return Err(BadChain::Empty);
        }
        if address.checked_add(u64::from(descriptor.length)).is_none() {
            return Err(BadChain::Overflow(address));
        }
        let segment = Segment {
            address,
            length: descriptor.length,
        };
        if descriptor.has(WRITE) {
            self.writable.push(segment);
        } else if self.writable.is_empty() {
            self.readable.push(segment);
        } else {
            return Err(BadChain::Order);
        }
        Ok(())
    }
}

/// The part of an indirect table that was copied last.
#[derive(Default)]
struct Piece {
    first: u16,
    count: u16,
    bytes: [[u8; DESCRIPTOR_BYTES as usize]; TABLE_PIECE],
}

impl Piece {
    fn get(
        &mut self,
        memory: &impl GuestMemory,
        base: GuestAddress,
        entries: u16,
        index: u16,
    ) -> Result<Descriptor, Unmapped> {
        let is_here = index >= self.first && index - self.first < self.count;
        if !is_here {
            let count = usize::from(entries - index).min(TABLE_PIECE);
            let at = GuestAddress(base.0 + u64::from(index) * u64::from(DESCRIPTOR_BYTES));
            memory.read(at, self.bytes[..count].as_flattened_mut())?;
            self.first = index;
            self.count = u16::try_from(count).expect("a piece is short");
        }
        let place = usize::from(index - self.first);
        Ok(Descriptor::decode(&self.bytes[place]))
    }
}

#[cfg(test)]
mod tests;
