//! Dirty data on its way from the host that has a disk to the one that is about to get it.

use block_io::{PAGE_BYTES, Payload};
use flash_format::Erasure;
use units::BlockIndex;

/// Records of the owner's dirty log that follow each other. Numbers are the owner's: those of one
/// attachment there, and of no other. The bytes of a block are a `B`.
#[derive(Clone, Debug)]
pub struct Shipment<B = Payload> {
    /// The period in which the owner has the disk, as in the owner's record.
    pub period: u64,
    /// The number of the first record.
    pub first: u64,
    /// Every record before this number is at the origin, durably.
    pub base: u64,
    /// The number that the owner's next record gets.
    pub end: u64,
    /// In their order.
    pub records: Vec<Shipped<B>>,
}

/// A record.
#[derive(Clone, Debug)]
pub struct Shipped<B = Payload> {
    /// The owner's guest had flushed before it.
    pub begins_interval: bool,
    /// What it says.
    pub what: ShippedWhat<B>,
}

/// What a record says.
#[derive(Clone, Debug)]
pub enum ShippedWhat<B = Payload> {
    /// A block has these bytes.
    Block {
        /// Which.
        block: BlockIndex,
        /// All of its bytes.
        bytes: B,
    },
    /// Blocks are erased.
    Erased(Erasure),
}

impl Shipped {
    /// Whether it is about whole blocks of a disk with so many of them.
    pub(crate) fn fits(&self, blocks: u64) -> bool {
        match &self.what {
            ShippedWhat::Block { block, bytes } => {
                let length: usize = bytes.iter().map(|slice| slice.len()).sum();
                block.get() < blocks && length == PAGE_BYTES
            }
            ShippedWhat::Erased(erasure) => {
                let count = u64::from(erasure.blocks);
                let end = erasure.first.get().checked_add(count);
                count > 0 && end.is_some_and(|end| end <= blocks)
            }
        }
    }
}

impl<B> Shipment<B> {
    /// The same with the bytes of blocks as something else.
    pub fn map<C>(self, mut change: impl FnMut(B) -> C) -> Shipment<C> {
        let records = self.records.into_iter().map(|record| Shipped {
            begins_interval: record.begins_interval,
            what: match record.what {
                ShippedWhat::Block { block, bytes } => ShippedWhat::Block {
                    block,
                    bytes: change(bytes),
                },
                ShippedWhat::Erased(erasure) => ShippedWhat::Erased(erasure),
            },
        });
        Shipment {
            period: self.period,
            first: self.first,
            base: self.base,
            end: self.end,
            records: records.collect(),
        }
    }
}
