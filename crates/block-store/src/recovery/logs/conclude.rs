//! What becomes of the segments of dirty logs, and of the tables, once it is known where each ends.

use super::super::chain::{self, Chunk, End};
use super::super::tables::Replayed;
use super::{Logs, Wanted};
use crate::guard::{Guard, holds};
use crate::lock::LockReason;
use flash_format::{PAGE_BYTES, Position, SegmentIndex, SegmentKind, SegmentState};
use units::{DiskId, DiskSlot};

/// A disk's dirty log as it is on flash.
pub(in super::super) struct FoundLog {
    pub(in super::super) disk: DiskSlot,
    pub(in super::super) watermark: Position,
    /// The tables say that it was durable up to here.
    pub(in super::super) logged: Position,
    /// Chunks that count, in order. Of a damaged log all that were found.
    pub(in super::super) chunks: Vec<Chunk>,
    /// Bytes that were durable are missing.
    pub(in super::super) is_damaged: bool,
    /// The watermark may be wrong.
    pub(in super::super) in_doubt: bool,
}

impl FoundLog {
    /// The latest period in which a record of it was written.
    pub(in super::super) fn epoch(&self) -> u64 {
        let epochs = self.chunks.iter().map(|chunk| chunk.header.epoch);
        epochs.max().unwrap_or(0)
    }

    /// Why it does not go to the origin on its own, if so.
    pub(in super::super) fn locked(&self) -> Option<LockReason> {
        match (self.is_damaged, self.in_doubt) {
            (true, _) => Some(LockReason::Damaged),
            (false, true) => Some(LockReason::Unbelievable),
            (false, false) => None,
        }
    }

    /// Whether the origin may lack anything of it.
    pub(in super::super) fn is_dirty(&self) -> bool {
        let last = self.chunks.last().map(|chunk| chunk.header.last());
        self.is_damaged || last.is_some_and(|last| last > self.watermark)
    }

    /// Whether a segment of its disk has to stay as it is.
    fn has(&self, segment: SegmentIndex) -> bool {
        let counts =
            |chunk: &Chunk| chunk.header.segment == segment && chunk.header.last() > self.watermark;
        self.is_damaged || self.chunks.iter().any(counts)
    }
}

impl Logs {
    /// Says of each log where it ends, and of each segment what it is. Asks for what is in memory
    /// only to be written.
    pub(super) fn conclude(&mut self) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        self.make_void();
        for mut log in std::mem::take(&mut self.found) {
            let unreadable = self.unreadable(log.disk);
            let mut end = chain::end(log.watermark, log.logged, &log.chunks, unreadable);
            // Where the watermark may be wrong a chunk that does not follow is no torn tail.
            end.is_damaged |= log.in_doubt && end.chunks < log.chunks.len();
            end.is_damaged &= holds(Guard::DamageLocks);
            log.is_damaged = end.is_damaged;
            if !end.is_damaged {
                log.chunks.truncate(end.chunks);
            }
            self.conclude_segments(&log, end);
            if let Some(entry) = &mut self.replayed.disks[log.disk.index()] {
                // What is above the watermark may be in a segment that was not found.
                entry.in_doubt = log.in_doubt;
            }
            for chunk in &log.chunks {
                wanted.extend(self.to_be_written(log.watermark, chunk));
            }
            self.found.push(log);
        }
        if self.replayed.in_doubt && holds(Guard::DoubtLocks) {
            self.doubt_the_rest();
        }
        wanted
    }

    /// Any disk of which no log was found may have one all the same: the tables do not tell, and the
    /// first page of its segment may be damaged, too.
    fn doubt_the_rest(&mut self) {
        for (entry, disk) in self.replayed.disks.iter_mut().zip((0..).map(DiskSlot::new)) {
            let is_void = |id: &DiskId| self.void.contains(id);
            if let Some(entry) = entry.as_mut().filter(|entry| !is_void(&entry.id))
                && !self.found.iter().any(|log| log.disk == disk)
            {
                entry.in_doubt = true;
            }
        }
    }

    /// Makes the logs void of which the operator says so, with all else that is here of their disks.
    fn make_void(&mut self) {
        for (entry, disk) in self.replayed.disks.iter_mut().zip((0..).map(DiskSlot::new)) {
            let Some(entry) = entry else { continue };
            if !self.void.contains(&entry.id) {
                continue;
            }
            entry.in_doubt = false;
            entry.destaged = entry.destaged.max(entry.logged);
            for segment in &mut self.replayed.segments {
                if segment.disk != disk || segment.state == SegmentState::Free {
                    continue;
                }
                if segment.state == SegmentState::Used(SegmentKind::Dirty) {
                    let end = Position::of_page(segment.generation, self.geometry.segment_pages());
                    entry.destaged = entry.destaged.max(end);
                }
                segment.state = SegmentState::Free;
                segment.trusted.fill(0);
            }
            self.found.retain(|log| log.disk != disk);
        }
    }

    fn conclude_segments(&mut self, log: &FoundLog, end: End) {
        // Of a damaged log everything stays for the operator to look at.
        if end.is_damaged {
            return;
        }
        for number in self.walks.keys() {
            let entry = &mut self.replayed.segments[SegmentIndex::new(*number).index()];
            if entry.disk != log.disk {
                continue;
            }
            if entry.generation > end.last.generation {
                // Behind the cut, and never to be looked at again.
                entry.state = SegmentState::Free;
                entry.trusted.fill(0);
            } else if entry.generation == end.last.generation && end.last > log.watermark {
                entry.cut = Some(u32::from(end.last.page) + 1);
            }
        }
    }

    /// A chunk that counts and is in memory only.
    fn to_be_written(&self, watermark: Position, chunk: &Chunk) -> Option<Wanted> {
        let left = chunk.left.as_ref()?;
        let header = &chunk.header;
        if header.last() <= watermark || self.looks_only {
            return None;
        }
        let mut bytes = header.encode(self.uuid()).to_vec();
        let blocks = usize::try_from(header.blocks()).unwrap_or(0);
        bytes.extend_from_slice(&left.pages[..blocks * PAGE_BYTES]);
        Some(Wanted::Write(header.segment, header.page, bytes))
    }

    /// The tables as the walks have left them, and the logs.
    pub(in super::super) fn into_found(mut self) -> (Replayed, Vec<FoundLog>) {
        // What has nothing above its disk's watermark is as clean as any other segment.
        for (number, entry) in (0..).zip(&mut self.replayed.segments) {
            let log = self.found.iter().find(|log| log.disk == entry.disk);
            let holds = log.is_some_and(|log| log.has(SegmentIndex::new(number)));
            if entry.state == SegmentState::Used(SegmentKind::Dirty) && !holds {
                entry.state = SegmentState::Used(SegmentKind::Clean);
                entry.cut = None;
            }
        }
        let disks = &self.replayed.disks;
        for entry in &mut self.replayed.segments {
            if disks[entry.disk.index()].is_none() && holds(Guard::SegmentNeedsItsDisk) {
                entry.state = SegmentState::Free;
                entry.trusted.fill(0);
            }
        }
        (self.replayed, self.found)
    }
}
