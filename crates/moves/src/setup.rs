//! What is simulated: two hosts, their devices, the VMs, and how the first of them moves.

use simulator::device::DeviceSettings;
use std::collections::BTreeMap;
use strategies::Row;
use trace::Record;
use trace::generate::Spec;
use units::{BLOCK_BYTES, Bytes, Duration, Offset};

/// Where requests of a VM come from.
#[derive(Clone, Debug)]
pub enum Requests {
    /// They are generated.
    Generated(Spec),
    /// They are a trace's, one volume's.
    Recorded(Vec<Record>),
}

/// When requests of a VM come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// At the times that they have.
    Timed,
    /// As soon as fewer than that many are under way.
    Depth(u32),
}

/// A VM.
#[derive(Clone, Debug)]
pub struct Vm {
    /// What it asks for.
    pub requests: Requests,
    /// When.
    pub arrival: Arrival,
    /// How many blocks its disk has.
    pub blocks: u32,
    /// How many blocks its cache has at each host.
    pub cache_blocks: u32,
    /// How many requests warm its cache before time begins; they take none.
    pub warming: u64,
    /// Which; if not given, its own.
    pub warmed_by: Option<Spec>,
    /// Part of the cached blocks that the origin lacks when time begins; only under write-back.
    pub dirty: f64,
    /// Whether it runs at the host that the first VM comes to. Of the first VM itself this says nothing.
    pub is_there: bool,
}

/// What keeps a VM's blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cache {
    /// The daemon's own store.
    Daemon,
    /// Least recently used, in sets of that many blocks, of a disk that is longer than what is used of it by this
    /// factor.
    Sets {
        /// Blocks of a set.
        ways: u32,
        /// Length of the disk to what is used of it; below 1 what is used lies at its beginning, else anywhere.
        spread: f64,
    },
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// The cached block leaves, and the origin is written.
    Around,
    /// The origin is written, and then the block, if it was cached.
    Through,
    /// The flash is written, and the origin lacks it.
    Back,
}

/// What becomes of blocks that the origin lacks when the VM moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirty {
    /// They go to the origin while the VM is stopped.
    Flush,
    /// They go to the origin from when the move begins; the rest of them while the VM is stopped. So does Hearth.
    Drain,
    /// They go to the other host from when the move begins; the rest of them while the VM is stopped.
    Ship,
    /// Their addresses go along, and they are read from the other host.
    Addresses,
}

/// How fast blocks are copied that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Most blocks under way.
    pub window: u32,
    /// Blocks of one I/O, of those that lie together.
    pub piece: u32,
    /// After a window nothing is copied for as long as the window took. So does Hearth.
    pub rests: bool,
    /// Bytes a second.
    pub rate: Option<Bytes>,
    /// In order of address instead of the newest first, if from the origin: a piece is one I/O, with what lies between
    /// its blocks.
    pub by_address: bool,
}

impl Pace {
    /// Hearth's: half of the time is the guests'.
    pub const HEARTH: Self = Self {
        window: 128,
        piece: 32,
        rests: true,
        rate: None,
        by_address: false,
    };
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How the cache comes along.
    pub row: Row,
    /// What becomes of dirty blocks.
    pub dirty: Dirty,
    /// Of what is copied behind the hand-over only what the origin lacks.
    pub only_dirty: bool,
    /// How fast blocks are copied.
    pub pace: Pace,
    /// What keeps blocks.
    pub cache: Cache,
    /// A read that brings a block in is answered when flash has it, as in flashcache and `EnhanceIO`.
    pub waits_for_fills: bool,
    /// What writes do.
    pub writes: Writes,
    /// Each host's flash.
    pub flash: DeviceSettings,
    /// Each host's way to the origin.
    pub path: DeviceSettings,
    /// The origin.
    pub origin: DeviceSettings,
    /// The link between the hosts.
    pub link: DeviceSettings,
    /// The VMs. The first one moves.
    pub vms: Vec<Vm>,
    /// How long it goes on before the move begins.
    pub before: Duration,
    /// How long the move takes while the VM runs: its memory is copied.
    pub ahead: Duration,
    /// How long the VM is stopped in any case.
    pub pause: Duration,
    /// How long it goes on from when the VM stops.
    pub after: Duration,
    /// How long what is told over time is counted together.
    pub interval: Duration,
    /// How often the other host asks what has been changed.
    pub stale_pause: Duration,
    /// Decides all that is random.
    pub seed: u64,
}

/// The records of a trace with its blocks numbered in the order in which they are named first, so that its volumes are
/// one disk without holes. A request whose blocks do not follow each other then becomes several.
pub fn dense(records: Vec<Record>) -> Vec<Record> {
    let mut numbers = BTreeMap::new();
    let mut all = Vec::with_capacity(records.len());
    for record in records {
        let first = record.offset.get() / BLOCK_BYTES;
        let end = (record.offset.get() + record.length.get()).div_ceil(BLOCK_BYTES);
        let volume = record.volume.to_usize();
        let mut number = |block| {
            let next = numbers.len() as u64;
            *numbers.entry((volume, block)).or_insert(next)
        };
        let blocks: Vec<u64> = (first..end).map(&mut number).collect();
        for run in blocks.chunk_by(|one, next| one + 1 == *next) {
            let offset = Offset::new(run[0] * BLOCK_BYTES);
            let length = Bytes::new(run.len() as u64 * BLOCK_BYTES);
            let Record {
                time_us,
                volume,
                op,
                ..
            } = record;
            all.push(Record::new(time_us, volume, op, offset, length));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Op, Volumes};

    #[test]
    fn blocks_are_numbered_in_the_order_of_their_first_request() {
        let volume = Volumes::new().intern(&trace::Volume {
            vm: "vm".to_owned(),
            name: "disk".to_owned(),
        });
        let record = |block: u64, count: u64| {
            let (offset, length) = (
                Offset::new(block * BLOCK_BYTES),
                Bytes::new(count * BLOCK_BYTES),
            );
            Record::new(0, volume, Op::Read, offset, length)
        };
        let dense = dense(vec![record(900, 2), record(100, 1), record(899, 2)]);
        let found = dense.iter().map(|record| {
            let of = |bytes: u64| bytes / BLOCK_BYTES;
            (of(record.offset.get()), of(record.length.get()))
        });
        assert_eq!(found.collect::<Vec<_>>(), [(0, 2), (2, 1), (3, 1), (0, 1)]);
    }
}
