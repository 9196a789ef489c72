//! A trace without its names and addresses, that is worth as much to a study of caches.
//!
//! ```text
//!   volume   │ extent 0 │ extent 1 │ extent 2 │ ...      extents of 1 MiB
//!                 ╲           │          ╱               a keyed permutation of each volume
//!   stands   │ ...  │ extent 1 │ ... │ extent 0 │ ...    what is in an extent keeps its order
//! ```
//!
//! Kept: which requests go to the same block, in which order; runs within an extent; which volume and which VM a
//! request is of, as other names; operations; base images that VMs share. So every policy that sees blocks
//! as numbers has the same hits at every size. A request over the border of two extents becomes one for
//! each. Not kept: runs over borders of extents, and which extents are neighbours.

mod key;
mod permutation;

pub use key::Key;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use key::Purpose;
use permutation::Permutation;
use units::{Bytes, Offset};

use crate::error::ReadError;
use crate::limits::REQUEST_BYTES_MAX;
use crate::record::{ContentHash, Record, Volume, VolumeIndex, Volumes};
use crate::records::{Reader, Records};

/// The length of an extent.
pub const EXTENT: Bytes = Bytes::mib(1);

/// A discard of more extents becomes one for each that was accessed before: of others no cache has anything.
const EXTENTS_OF_DISCARD_MAX: u64 = 1024;

/// What becomes coarser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coarseness {
    /// Times and response times are rounded down to whole multiples of so many microseconds.
    pub time_us: u64,
    /// Requests are widened to whole multiples of so many bytes.
    pub size: Bytes,
}

impl Coarseness {
    /// Nothing does.
    pub const EXACT: Self = Self {
        time_us: 1,
        size: Bytes::new(1),
    };
}

/// A reader of another reader's records under other names and addresses. Times count from the first record's.
pub struct Anonymizer {
    reader: Box<dyn Reader>,
    key: Key,
    coarseness: Coarseness,
    batch: Records,
    volumes: Volumes,
    /// What stands for each of the other reader's volumes.
    stand_ins: Vec<StandIn>,
    extents: Vec<Extents>,
    first_us: Option<u64>,
    divided: u64,
}

#[derive(Clone, Copy)]
struct StandIn {
    volume: VolumeIndex,
    /// The place in `extents` of its blocks: those of a base image are the same for all VMs.
    extents: usize,
}

/// The extents of a volume that were accessed, and what stands for each.
struct Extents {
    permutation: Permutation,
    known: BTreeMap<u64, u64>,
}

impl Extents {
    fn of(&mut self, extent: u64) -> u64 {
        let permutation = &self.permutation;
        *self
            .known
            .entry(extent)
            .or_insert_with(|| permutation.of(extent))
    }
}

impl Anonymizer {
    /// The records of a reader under this key.
    ///
    /// # Panics
    /// If a step of `coarseness` is zero, or that of sizes is no power of two up to [`EXTENT`].
    pub fn new(reader: Box<dyn Reader>, key: Key, coarseness: Coarseness) -> Self {
        assert!(coarseness.time_us > 0, "a step of time is not zero");
        assert!(
            coarseness.size.get().is_power_of_two(),
            "a size is a power of two"
        );
        assert!(coarseness.size <= EXTENT, "a size is an extent at most");
        Self {
            reader,
            key,
            coarseness,
            batch: Records::new(),
            volumes: Volumes::new(),
            stand_ins: Vec::new(),
            extents: Vec::new(),
            first_us: None,
            divided: 0,
        }
    }

    /// How many requests so far crossed a border of extents and became several.
    pub fn divided(&self) -> u64 {
        self.divided
    }

    /// Finds stand-ins for volumes that are new.
    fn know_volumes(&mut self) {
        let known = self.stand_ins.len();
        let roles = self.reader.volumes().roles();
        for ((_, volume), role) in self.reader.volumes().iter().zip(roles).skip(known) {
            let named = renamed(&self.key, volume);
            let first = self.stand_ins.get(role.blocks.to_usize());
            let extents = first.map_or(self.extents.len(), |first| first.extents);
            if extents == self.extents.len() {
                let permutation = Permutation::new(self.key.of_volume(&identity(volume)));
                self.extents.push(Extents {
                    permutation,
                    known: BTreeMap::new(),
                });
            }
            self.stand_ins.push(StandIn {
                volume: self.volumes.intern(&named),
                extents,
            });
        }
    }

    fn take(&mut self, record: Record, into: &mut Records) {
        let StandIn { volume, extents } = self.stand_ins[record.volume.to_usize()];
        let step = self.coarseness.time_us;
        let first_us = *self.first_us.get_or_insert(record.time_us);
        let time_us = record.time_us.saturating_sub(first_us);
        let key = &self.key;
        let content = |ContentHash(hash)| ContentHash(key.bytes(Purpose::Content, &hash));
        let whole = Record {
            time_us: time_us - time_us % step,
            response_us: record.response_us.map(|time| coarse(time, step)),
            volume,
            hash: record.hash.map(content),
            ..record
        };
        let extents = &mut self.extents[extents];
        let (begin, end) = widened(&record, self.coarseness.size);
        let pieces = pieces(begin, end, record.op.carries_data(), extents);
        self.divided += u64::from(pieces.len() > 1);
        for (at, (offset, length)) in pieces.into_iter().enumerate() {
            into.push(Record {
                offset: Offset::new(offset),
                length: Bytes::new(length),
                hash: whole.hash.filter(|_| at == 0),
                ..whole
            });
        }
    }
}

impl Reader for Anonymizer {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        records.clear();
        let mut batch = std::mem::take(&mut self.batch);
        let outcome = loop {
            let outcome = self.reader.read_batch(&mut batch);
            self.know_volumes();
            for record in &batch {
                self.take(record, records);
            }
            // Discards of what nobody has accessed may be all of a batch.
            if !matches!(outcome, Ok(true)) || !records.is_empty() {
                break outcome;
            }
        };
        self.batch = batch;
        outcome
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

/// A time in steps, rounded down.
fn coarse(time_us: u32, step: u64) -> u32 {
    let rest = u64::from(time_us) % step;
    time_us - u32::try_from(rest).unwrap_or(time_us)
}

/// Where a request begins and ends, in whole steps. A flush has no length, and keeps none.
fn widened(record: &Record, step: Bytes) -> (u64, u64) {
    let (begin, length) = (record.offset.get(), record.length.get());
    let end = begin.saturating_add(length);
    if length == 0 || end == u64::MAX {
        return (begin, end);
    }
    let within = step.get() - 1;
    (begin & !within, end.saturating_add(within) & !within)
}

/// What stands for the bytes from `begin` to `end`: offset and length of each piece, in the order of the request.
fn pieces(begin: u64, end: u64, carries_data: bool, extents: &mut Extents) -> Vec<(u64, u64)> {
    let extent = EXTENT.get();
    let first = begin / extent;
    if begin == end || (carries_data && end - begin > REQUEST_BYTES_MAX.get()) {
        // The second is a mangled length, and stays one: it is the reader's to complain about.
        let offset = extents.of(first) * extent + begin % extent;
        return vec![(offset, end - begin)];
    }
    let last = (end - 1) / extent;
    let numbers: Vec<u64> = if last - first < EXTENTS_OF_DISCARD_MAX {
        (first..=last).collect()
    } else {
        extents
            .known
            .range(first..=last)
            .map(|(number, _)| *number)
            .collect()
    };
    let piece = |number: u64| {
        let from = begin.max(number * extent);
        let to = end.min((number * extent).saturating_add(extent));
        (extents.of(number) * extent + from % extent, to - from)
    };
    numbers.into_iter().map(piece).collect()
}

/// What tells a volume's blocks from another's.
fn identity(volume: &Volume) -> Vec<u8> {
    let vm = if volume.is_base_image() {
        ""
    } else {
        &volume.vm
    };
    [vm.as_bytes(), b"\0", volume.name.as_bytes()].concat()
}

/// A volume under other names; what has no name still has none.
fn renamed(key: &Key, volume: &Volume) -> Volume {
    let of = |prefix: &str, purpose, text: &[u8]| {
        if text.is_empty() {
            return String::new();
        }
        let mut name = prefix.to_owned();
        for byte in &key.bytes(purpose, text)[..8] {
            let _ = write!(name, "{byte:02x}");
        }
        name
    };
    let name = match volume.name.strip_prefix(Volume::BASE_IMAGE) {
        Some(image) => of(Volume::BASE_IMAGE, Purpose::Image, image.as_bytes()),
        None if volume.name.is_empty() => String::new(),
        None => of("disk-", Purpose::Disk, &identity(volume)),
    };
    Volume {
        vm: of("vm-", Purpose::Vm, volume.vm.as_bytes()),
        name,
    }
}

#[cfg(test)]
mod tests;
