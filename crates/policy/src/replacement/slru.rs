//! Segmented LRU: a block climbs one segment with each use, and falls back when the segment is full.
//!
//! ```text
//!   segment 3  newest ... oldest ─┐        a use: to the front of the segment above
//!   segment 2  newest ... oldest ◄┘─┐      too many in a segment: its oldest to the front of the one below
//!   segment 1  newest ... oldest ◄──┘─┐
//!   segment 0  newest ... oldest ◄────┘──► evicted
//! ```
//!
//! The paper has two segments, probationary and protected; four of equal size are what the photo caches
//! of Q. Huang et al. (SOSP 2013) made known as S4LRU, and the default here. While there is room the
//! cache evicts nothing: a newcomer goes to the lowest segment that is not full.

use super::limits::SLRU_SEGMENTS_MAX;
use super::list::List;
use super::parameters::parse_count;
use super::table::Table;
use super::{
    About, BadValue, Capacity, Evicted, Index, Key, Parameter, Place, Policy, Settings, Setup,
};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "slru",
    other_names: &["s4lru"],
    paper: "R. Karedla, J. S. Love, B. G. Wherry, \"Caching strategies to improve disk system performance\", IEEE Computer 27(3), 1994",
    queues: &[(
        "segment 0 .. n-1",
        "blocks by last use; higher ones were used more often",
    )],
    parameters: &[Parameter {
        name: "segments",
        meaning: "segments of equal size",
        takes: "1 to 16",
    }],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Segments of equal size.
    pub segments: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { segments: 4 }
    }
}

impl Settings for Config {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.segments = parse_count(value, 1, SLRU_SEGMENTS_MAX)?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        self.segments.to_string()
    }
}

#[derive(Debug)]
struct Segment {
    queue: List,
    blocks_max: u32,
}

/// Segmented LRU. A node's tag is its segment.
#[derive(Debug)]
pub struct Slru<K, I> {
    table: Table<K, I>,
    segments: Vec<Segment>,
    blocks: u32,
    capacity: u32,
}

impl<K: Key, I: Index<K>> Slru<K, I> {
    /// An empty cache.
    pub fn new(config: &Config, setup: Setup<I>) -> Self {
        Self {
            table: Table::new(setup.index),
            segments: segments(config.segments, setup.capacity),
            blocks: 0,
            capacity: setup.capacity.get(),
        }
    }

    fn segment_of(&self, place: Place) -> usize {
        self.table.nodes[place].tag as usize
    }

    fn take(&mut self, place: Place) {
        let segment = self.segment_of(place);
        self.segments[segment]
            .queue
            .remove(place, &mut self.table.nodes);
    }

    /// Puts a block in front of a segment; what is too much there falls, as far as it must.
    fn put(&mut self, place: Place, segment: usize) {
        let mut falling = place;
        for segment in (0..=segment).rev() {
            self.table.nodes[falling].tag = u32::try_from(segment).expect("at most 16");
            let Segment { queue, blocks_max } = &mut self.segments[segment];
            queue.push_front(falling, &mut self.table.nodes);
            if segment == 0 || queue.len() <= *blocks_max {
                return;
            }
            falling = queue
                .pop_back(&mut self.table.nodes)
                .expect("it is too long");
        }
    }

    /// The lowest segment with room for a newcomer, else the lowest.
    fn lowest_with_room(&self) -> usize {
        self.segments
            .iter()
            .position(|segment| segment.queue.len() < segment.blocks_max)
            .unwrap_or(0)
    }

    fn victim(&self) -> Option<Place> {
        self.segments
            .iter()
            .find_map(|segment| segment.queue.back(&self.table.nodes))
    }
}

/// Segments of equal size; what is left over belongs to the lowest. No more of them than blocks.
fn segments(count: u32, capacity: Capacity) -> Vec<Segment> {
    let count = count.min(capacity.get());
    let each = capacity.get() / count;
    (0..count)
        .map(|segment| Segment {
            queue: List::new(),
            blocks_max: if segment == 0 {
                capacity.get() - each * (count - 1)
            } else {
                each
            },
        })
        .collect()
}

impl<K: Key, I: Index<K>> Policy<K> for Slru<K, I> {
    fn access(&mut self, key: K, evicted: &mut impl Evicted<K>) -> bool {
        if let Some(place) = self.table.find(key) {
            let segment = self.segment_of(place);
            self.take(place);
            self.put(place, (segment + 1).min(self.segments.len() - 1));
            return true;
        }
        if self.blocks == self.capacity {
            let victim = self.victim().expect("the cache is full");
            self.take(victim);
            evicted.push(self.table.release(victim));
        } else {
            self.blocks += 1;
        }
        let place = self.table.insert(key, 0);
        self.put(place, self.lowest_with_room());
        false
    }

    fn remove(&mut self, key: K) -> bool {
        let Some(place) = self.table.find(key) else {
            return false;
        };
        self.take(place);
        self.table.release(place);
        self.blocks -= 1;
        true
    }

    fn contains(&self, key: K) -> bool {
        self.table.find(key).is_some()
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}
