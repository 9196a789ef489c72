//! Formats that number blocks or name objects instead of addressing bytes.
//!
//! Key k is the block at k times the block size. Keys beyond what 64 bits of bytes hold (hashes of names)
//! and names that are no numbers are numbered in order of first appearance, above all keys that are
//! addresses: distinct keys stay distinct, but neighbours are neighbours no more.

use std::marker::PhantomData;

use units::{Bytes, Map, Offset};

use crate::decode::{Decode, Fault, Out, Window, Wrong, check_rest, scaled};
use crate::error::Position;
use crate::record::{Op, Record, VolumeIndex};
use crate::records::Stretch;

/// Keys become offsets.
pub(crate) struct Keys {
    unit: u64,
    /// Keys below are addresses.
    addresses: u64,
    hashes: Map<u64, u64>,
    names: Map<Box<[u8]>, u64>,
}

impl Keys {
    pub(crate) fn new(unit: Bytes) -> Self {
        let unit = unit.get().max(1);
        Self {
            unit,
            // Half the address space for addresses, half for what is numbered.
            addresses: (u64::MAX / unit) / 2,
            hashes: Map::default(),
            names: Map::default(),
        }
    }

    /// Where the key's block is.
    #[inline]
    pub(crate) fn offset(&mut self, key: u64) -> Offset {
        if key < self.addresses {
            return Offset::new(key * self.unit);
        }
        self.offset_of_hash(key)
    }

    #[cold]
    fn offset_of_hash(&mut self, key: u64) -> Offset {
        let next = self.addresses + self.numbered();
        let place = *self.hashes.entry(key).or_insert(next);
        Offset::new(place * self.unit)
    }

    /// Where the named object's block is.
    pub(crate) fn offset_of_name(&mut self, name: &[u8]) -> Offset {
        let known = self.names.get(name).copied();
        let place = known.unwrap_or_else(|| {
            let next = self.addresses + self.numbered();
            self.names.insert(name.into(), next);
            next
        });
        Offset::new(place * self.unit)
    }

    fn numbered(&self) -> u64 {
        (self.hashes.len() + self.names.len()) as u64
    }

    /// A read of `count` blocks from `key` on.
    #[inline]
    pub(crate) fn read(
        &mut self,
        volume: VolumeIndex,
        key: u64,
        count: u64,
        out: &mut Out<'_>,
    ) -> Result<(), Wrong> {
        let length = scaled("the number of blocks", count, self.unit)?;
        if count > 1 && key.saturating_add(count) > self.addresses {
            let found = key.to_string();
            return Err(Wrong::found(
                "the first block",
                found,
                "an address below 2^63 bytes",
            ));
        }
        let offset = self.offset(key);
        out.push(Record::new(0, volume, Op::Read, offset, length))
    }

    /// The bytes of a key.
    pub(crate) fn unit(&self) -> Bytes {
        Bytes::new(self.unit)
    }
}

/// Binary records of one size without a header, each a read of the one block that its key names.
pub(crate) trait Keyed: Send {
    const NAME: &'static str;
    /// The size of a record.
    const RECORD_BYTES: usize;
    /// When a record was issued; zero in formats without time.
    fn time_us(record: &[u8]) -> u64;
    /// The key of its block.
    fn key(record: &[u8]) -> u64;
}

/// The decoder of a [`Keyed`] format: all records of a window are one stretch.
pub(crate) struct KeyedRecords<F> {
    keys: Keys,
    format: PhantomData<F>,
}

impl<F> KeyedRecords<F> {
    pub(crate) fn new(keys: Keys) -> Self {
        Self {
            keys,
            format: PhantomData,
        }
    }
}

impl<F: Keyed> Decode for KeyedRecords<F> {
    const NAME: &'static str = F::NAME;

    fn decode(&mut self, window: Window<'_>, out: &mut Out<'_>) -> Result<usize, Fault> {
        let count = out.room().min(window.bytes.len() / F::RECORD_BYTES);
        let used = count * F::RECORD_BYTES;
        if count > 0 {
            let records = || window.bytes[..used].chunks_exact(F::RECORD_BYTES);
            let stretch = Stretch {
                volume: out.only_volume(),
                op: Op::Read,
                length: self.keys.unit(),
                count: u32::try_from(count).expect("a batch has few records"),
            };
            let keys = &mut self.keys;
            let offsets = records().map(|record| keys.offset(F::key(record)));
            out.push_stretch(stretch, records().map(F::time_us), offsets)
                .map_err(|wrong| Fault::Wrong(Position::Byte(window.offset), wrong))?;
        }
        check_rest(window, used, F::RECORD_BYTES, out)?;
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_addresses_as_long_as_they_fit() {
        let mut keys = Keys::new(Bytes::kib(4));
        assert_eq!(keys.offset(3), Offset::kib(12));
        let large = keys.offset(u64::MAX);
        let name = keys.offset_of_name(b"index.html");
        assert_ne!(large, name);
        assert_eq!(keys.offset(u64::MAX), large);
        assert_eq!(keys.offset_of_name(b"index.html"), name);
        assert!(large > keys.offset(1 << 50));
    }
}
