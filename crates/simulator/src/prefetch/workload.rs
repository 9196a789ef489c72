//! The requests of a trace, read once for many experiments.

use crate::SimError;
use prefetch::{Key, Run};
use trace::{Op, Reader, Record, Records, Volumes};
use units::{BLOCK_BYTES, BlockIndex};

/// What a request does to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Its blocks are wanted.
    Read,
    /// Its blocks change, or go.
    Change,
}

/// A request for whole blocks of a disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) what: What,
    /// The number of the disk.
    pub(super) disk: u16,
    pub(super) run: Run,
}

/// A disk as one VM sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk {
    /// Its VM.
    pub(super) vm: u32,
    /// The disk whose blocks it has: itself, or the first one of the same base image.
    pub(super) blocks_of: u16,
    /// Blocks up to the last that the trace names.
    pub(super) blocks: u64,
}

/// A trace's requests and disks.
#[derive(Clone, Debug)]
pub struct Workload {
    pub(super) requests: Vec<Request>,
    pub(super) disks: Vec<Disk>,
    reads: u64,
}

impl Workload {
    /// Reads a trace to its end. Flushes are left out: a buffer of reads has nothing to do with them.
    ///
    /// # Errors
    /// If it cannot be read, has more than 65,536 volumes, a request beyond the end of any disk, or no reads.
    pub fn read(reader: &mut dyn Reader) -> Result<Self, SimError> {
        let (mut requests, mut batch) = (Vec::new(), Records::new());
        while reader.read_batch(&mut batch)? {
            for record in &batch {
                requests.extend(request(&record)?);
            }
        }
        let reads = requests.iter().filter(|one| one.what == What::Read).count() as u64;
        if reads == 0 {
            return Err(SimError::Empty);
        }
        let disks = disks(reader.volumes(), &requests);
        Ok(Self {
            requests,
            disks,
            reads,
        })
    }

    /// How many reads there are.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// How many VMs there are.
    pub(super) fn vms(&self) -> usize {
        let last = self.disks.iter().map(|disk| disk.vm).max();
        last.map_or(0, |last| last as usize + 1)
    }

    /// The VM of a disk.
    pub(super) fn vm(&self, disk: u16) -> u32 {
        self.disks[usize::from(disk)].vm
    }

    /// The block of a disk as a buffer knows it: one for all VMs that have the same base image.
    pub(super) fn key(&self, disk: u16, block: BlockIndex) -> Key {
        Key::new(self.disks[usize::from(disk)].blocks_of, block)
    }
}

fn request(record: &Record) -> Result<Option<Request>, SimError> {
    let what = match record.op {
        Op::Read => What::Read,
        Op::Write | Op::Discard | Op::WriteZeroes => What::Change,
        Op::Flush => return Ok(None),
    };
    if record.length.is_zero() {
        return Ok(None);
    }
    let first = record.offset.get() / BLOCK_BYTES;
    let end = record.offset.checked_add(record.length);
    let end = end.map_or(u64::MAX, |end| end.get().div_ceil(BLOCK_BYTES));
    let disk = u16::try_from(record.volume.get());
    match (disk, Run::new(first, end - first)) {
        (Ok(disk), Some(run)) => Ok(Some(Request { what, disk, run })),
        _ => Err(SimError::Split(trace::SplitError::TooLong {
            offset: record.offset,
            length: record.length,
        })),
    }
}

fn disks(volumes: &Volumes, requests: &[Request]) -> Vec<Disk> {
    let role = |role: &trace::Role| Disk {
        vm: role.vm,
        blocks_of: u16::try_from(role.blocks.get())
            .expect("an image's first volume is an earlier one"),
        blocks: 0,
    };
    let mut disks: Vec<Disk> = volumes.roles().iter().map(role).collect();
    for request in requests {
        let disk = &mut disks[usize::from(request.disk)];
        disk.blocks = disk.blocks.max(request.run.end());
    }
    disks
}
