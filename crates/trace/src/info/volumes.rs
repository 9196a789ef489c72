//! One row a volume: counts, where it ends, and how sequential its requests are.

use super::spread::Spread;
use super::{Count, Sequentiality, VolumeInfo, share};
use crate::record::{Op, Record, Volume, Volumes};

/// A volume's row so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    requests: u64,
    reads: Count,
    writes: Count,
    blocks: u64,
    /// Where the furthest request ends.
    pub(super) end: u64,
    sequential: u64,
    /// Where the last read or write ended; `None` before the first.
    last_end: Option<u64>,
    run: Count,
}

/// The rows, and what all volumes have together.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    list: Vec<Row>,
    run_requests: Spread,
    run_bytes: Spread,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            list: Vec::new(),
            run_requests: Spread::new(),
            run_bytes: Spread::new(),
        }
    }

    /// Takes in a record of any kind that touches so many new blocks.
    pub(super) fn add(&mut self, record: &Record, new_blocks: u64) {
        let index = record.volume.to_usize();
        if index >= self.list.len() {
            self.list.resize(index + 1, Row::default());
        }
        let row = &mut self.list[index];
        row.requests += 1;
        let count = match record.op {
            Op::Read => &mut row.reads,
            Op::Write => &mut row.writes,
            Op::Flush | Op::Discard | Op::WriteZeroes => return,
        };
        let (offset, bytes) = (record.offset.get(), record.length.get());
        count.add(bytes);
        row.blocks += new_blocks;
        let end = offset.saturating_add(bytes);
        row.end = row.end.max(end);
        if row.last_end == Some(offset) {
            row.sequential += 1;
        } else if row.run.requests > 0 {
            self.run_requests.add(row.run.requests);
            self.run_bytes.add(row.run.bytes);
            row.run = Count::default();
        }
        row.run.add(bytes);
        row.last_end = Some(end);
    }

    pub(super) fn sequentiality(&mut self) -> Sequentiality {
        for row in &mut self.list {
            if row.run.requests > 0 {
                self.run_requests.add(row.run.requests);
                self.run_bytes.add(row.run.bytes);
                row.run = Count::default();
            }
        }
        let sum = |of: fn(&Row) -> u64| self.list.iter().map(of).sum::<u64>();
        let sequential = sum(|row| row.sequential);
        let all = sum(|row| row.reads.requests + row.writes.requests);
        Sequentiality {
            sequential_requests: sequential,
            sequential_share: share(sequential, all),
            run_requests: self.run_requests.quantiles(),
            run_bytes: self.run_bytes.quantiles(),
        }
    }

    /// The rows with their names, the busiest first.
    pub(super) fn infos(&self, volumes: &Volumes) -> Vec<VolumeInfo> {
        let named = volumes.iter().zip(&self.list);
        let mut infos: Vec<VolumeInfo> = named
            .map(|((_, volume), row)| VolumeInfo {
                vm: volume.vm.clone(),
                volume: volume.name.clone(),
                requests: row.requests,
                reads: row.reads,
                writes: row.writes,
                blocks: row.blocks,
                end_bytes: row.end,
                sequential_share: share(row.sequential, row.reads.requests + row.writes.requests),
            })
            .collect();
        infos.sort_by_key(|info| std::cmp::Reverse(info.requests));
        infos
    }
}

impl VolumeInfo {
    /// `vm/volume`, or the one that is known, or `-`.
    pub fn name(&self) -> String {
        let volume = Volume {
            vm: self.vm.clone(),
            name: self.volume.clone(),
        };
        volume.to_string()
    }
}

impl Count {
    /// One more request.
    pub(super) fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::VolumeIndex;
    use units::{Bytes, Offset};

    fn add(rows: &mut Rows, volume: u32, offset: u64, length: u64) {
        let record = Record {
            time_us: 0,
            offset: Offset::new(offset),
            length: Bytes::new(length),
            response_us: None,
            volume: VolumeIndex::new(volume),
            op: Op::Read,
            hash: None,
        };
        rows.add(&record, 1);
    }

    #[test]
    fn runs_are_followed_volume_by_volume() {
        let mut rows = Rows::new();
        for (volume, offset) in [(0, 0), (1, 0), (0, 4096), (1, 8192), (0, 8192), (0, 0)] {
            add(&mut rows, volume, offset, 4096);
        }
        let found = rows.sequentiality();
        assert_eq!(found.sequential_requests, 2);
        // Of 3, 1, 1 and 1 requests.
        assert_eq!((found.run_requests.count, found.run_requests.max), (4, 3));
        assert_eq!(found.run_bytes.max, 3 * 4096);
    }

    #[test]
    fn the_busiest_volume_comes_first() {
        let mut volumes = Volumes::new();
        for name in ["a", "b"] {
            volumes.intern(&Volume {
                vm: "vm".to_owned(),
                name: name.to_owned(),
            });
        }
        let mut rows = Rows::new();
        for (volume, offset) in [(0, 0), (1, 0), (1, 4096)] {
            add(&mut rows, volume, offset, 512);
        }
        let infos = rows.infos(&volumes);
        assert_eq!((infos[0].volume.as_str(), infos[0].requests), ("b", 2));
        assert_eq!((infos[1].volume.as_str(), infos[1].end_bytes), ("a", 512));
        assert!((infos[0].sequential_share - 0.0).abs() < 1e-9);
    }
}
