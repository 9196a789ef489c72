//! Where on the volumes the accesses of a trace lie, over time.
//!
//! ```text
//!   bytes ▲  · · ▒ ▒ · ·      64 rows up, 128 columns along; both double what a cell covers
//!         │  █ █ █ █ █ █      whenever an access lies beyond the last one
//!         └────────────────► time, or accesses
//! ```
//!
//! One map for each volume, for the volumes that appear first up to [`MAPS_MAX`].

use crate::number::length;
use crate::series::Axis;
use serde::Serialize;
use trace::Request;

/// Columns: time.
pub(crate) const COLUMNS: usize = 128;
/// Rows: address.
pub(crate) const ROWS: usize = 64;
/// Volumes that have a map: each takes 64 KiB, and a report shows four.
const MAPS_MAX: usize = 1024;

/// The map of one volume.
#[derive(Clone, Debug, Serialize)]
pub struct HeatMap {
    /// What a column covers: microseconds or accesses.
    pub column: u64,
    /// Bytes that a row covers.
    pub row_bytes: u64,
    /// Blocks accessed, a row after the other from address zero up.
    pub cells: Vec<u64>,
    /// All of them.
    pub accesses: u64,
}

impl HeatMap {
    fn new() -> Self {
        Self {
            column: 1,
            row_bytes: 4096,
            cells: vec![0; COLUMNS * ROWS],
            accesses: 0,
        }
    }

    fn add(&mut self, at: u64, offset: u64, blocks: u64) {
        while at / self.column >= COLUMNS as u64 {
            self.column *= 2;
            self.fold(|column, row| (column / 2, row));
        }
        while offset / self.row_bytes >= ROWS as u64 {
            self.row_bytes *= 2;
            self.fold(|column, row| (column, row / 2));
        }
        let column = usize::try_from(at / self.column).expect("a column of the map");
        let row = usize::try_from(offset / self.row_bytes).expect("a row of the map");
        self.cells[row * COLUMNS + column] += blocks;
        self.accesses += blocks;
    }

    fn fold(&mut self, to: impl Fn(usize, usize) -> (usize, usize)) {
        let mut folded = vec![0; self.cells.len()];
        for (place, blocks) in self.cells.iter().enumerate() {
            let (column, row) = to(place % COLUMNS, place / COLUMNS);
            folded[row * COLUMNS + column] += blocks;
        }
        self.cells = folded;
    }
}

/// The maps of a trace, by volume.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What columns count.
    pub axis: Axis,
    /// By the volume's place.
    pub maps: Vec<HeatMap>,
    accesses: u64,
    first_us: Option<u64>,
}

impl Heat {
    pub(crate) fn new(has_time: bool) -> Self {
        Self {
            axis: if has_time {
                Axis::TimeUs
            } else {
                Axis::Accesses
            },
            maps: Vec::new(),
            accesses: 0,
            first_us: None,
        }
    }

    pub(crate) fn add(&mut self, request: &Request) {
        let record = &request.record;
        if !record.op.carries_data() {
            return;
        }
        let blocks = length(request.keys.len());
        let at = match self.axis {
            Axis::Accesses => self.accesses,
            Axis::TimeUs => {
                let first = *self.first_us.get_or_insert(record.time_us);
                record.time_us.saturating_sub(first)
            }
        };
        self.accesses += blocks;
        let place = record.volume.to_usize();
        if place >= MAPS_MAX {
            return;
        }
        if place >= self.maps.len() {
            self.maps.resize_with(place + 1, HeatMap::new);
        }
        self.maps[place].add(at, record.offset.get(), blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_grows_both_ways_and_loses_nothing() {
        let mut map = HeatMap::new();
        map.add(0, 0, 1);
        map.add(127, 4096 * 63, 2);
        assert_eq!((map.column, map.row_bytes), (1, 4096));
        map.add(128, 4096 * 200, 4);
        assert_eq!((map.column, map.row_bytes), (2, 16384));
        assert_eq!(map.cells[0], 1);
        assert_eq!(map.cells[15 * COLUMNS + 63], 2);
        assert_eq!(map.cells[50 * COLUMNS + 64], 4);
        assert_eq!(map.cells.iter().sum::<u64>(), map.accesses);
    }

    #[test]
    fn the_end_of_the_address_space_is_an_address() {
        let mut map = HeatMap::new();
        map.add(u64::MAX, u64::MAX, 1);
        assert_eq!(map.cells[ROWS * COLUMNS - 1], 1);
    }
}
