//! The blocks of a sample and their LRU stack: what both forms of SHARDS and the miniature
//! simulations keep, and all that they keep.

use crate::olken::Stack;
use policy::sampling::{Run, Spatial, mix};
use units::Table;
use units::number::real;

/// A block, anywhere.
pub(crate) type Place = (u32, u64);

/// A place in 12 bytes instead of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    volume: u32,
    block: [u32; 2],
}

#[allow(clippy::cast_possible_truncation, reason = "the halves of a number")]
const fn packed((volume, block): Place) -> Packed {
    Packed {
        volume,
        block: [(block >> 32) as u32, block as u32],
    }
}

impl Packed {
    const fn place(self) -> Place {
        let [high, low] = self.block;
        (self.volume, (high as u64) << 32 | low as u64)
    }

    const fn hash(self) -> u64 {
        let (volume, block) = self.place();
        mix(block ^ mix(volume as u64))
    }
}

/// Small dense keys for sampled blocks. Keys of blocks that are let go are given out again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// The keys, found by where their blocks are.
    of: Table<u32>,
    /// By key; of a key that is free, where its last block was.
    places: Vec<Packed>,
    free: Vec<u32>,
}

impl Keys {
    /// The key of a block, and whether it is new.
    ///
    /// # Panics
    /// If 2^32 blocks have keys.
    pub(crate) fn key(&mut self, place: Place) -> (u32, bool) {
        let place = packed(place);
        if let Some(key) = self.find(place) {
            return (key, false);
        }
        let key = self.free.pop().unwrap_or_else(|| {
            if self.places.len() == self.places.capacity() {
                // A quarter more at a time: doubling holds up to half of it in vain.
                self.places.reserve_exact((self.places.len() / 4).max(64));
            }
            self.places.push(place);
            u32::try_from(self.places.len() - 1).expect("a sample of fewer than 2^32 blocks")
        });
        self.places[key as usize] = place;
        let places = &self.places;
        self.of
            .insert_unique(place.hash(), key, |&key| places[key as usize].hash());
        (key, true)
    }

    /// The key of a block that has one.
    pub(crate) fn get(&self, place: Place) -> Option<u32> {
        self.find(packed(place))
    }

    fn find(&self, place: Packed) -> Option<u32> {
        let is = |key: &u32| self.places[*key as usize] == place;
        self.of.find(place.hash(), is).copied()
    }

    /// The keys of the blocks of a run that have one, in time that does not grow with the run: a
    /// discard may be of a whole volume.
    pub(crate) fn keys_in(&self, run: Run) -> impl Iterator<Item = u32> + '_ {
        let places = (0..).zip(&self.places);
        let within = move |place: Packed| {
            let (volume, block) = place.place();
            volume == run.volume && block >= run.first && block - run.first < run.count
        };
        places
            .filter(move |(_, place)| within(**place))
            .filter(|(key, place)| self.find(**place) == Some(*key))
            .map(|(key, _)| key)
    }

    /// How many keys were given out, which is what [`Keys::keys_in`] looks at.
    pub(crate) fn given(&self) -> u64 {
        self.places.len() as u64
    }

    /// Lets the block of a key go.
    ///
    /// # Panics
    /// If no block has the key.
    pub(crate) fn release(&mut self, key: u32) {
        let hash = self.places[key as usize].hash();
        let found = self.of.find_entry(hash, |known| *known == key);
        let entry = found.expect("a key that is let go was given");
        entry.remove();
        self.free.push(key);
    }

    /// Blocks that have keys.
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// Bytes of memory held, the map's control bytes included.
    pub(crate) fn bytes(&self) -> usize {
        self.of.allocation_size()
            + self.places.capacity() * size_of::<Packed>()
            + self.free.capacity() * size_of::<u32>()
    }
}

/// A sample's keys and stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) keys: Keys,
    pub(crate) stack: Stack,
}

impl Sample {
    /// Takes the blocks of a run out of the cache, each leaving a hole.
    pub(crate) fn remove(&mut self, spatial: Spatial, run: Run) {
        // Looking at every hash of the run, or at every block of the sample: whatever is less.
        if run.count / 128 > self.keys.given() {
            for key in self.keys.keys_in(run) {
                self.stack.remove(key);
            }
            return;
        }
        spatial.sampled(run, |block, _| {
            if let Some(key) = self.keys.get((run.volume, block)) {
                self.stack.remove(key);
            }
        });
    }

    /// Bytes of memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes() + self.stack.bytes()
    }
}

/// The cache size that a depth in a sample stands for: each sampled block stands for `1 / rate`.
pub(crate) fn scaled(depth: u32, rate: f64) -> u64 {
    units::number::count_near(real(u64::from(depth)) / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_given_out_again() {
        let mut keys = Keys::default();
        assert_eq!(keys.key((0, 7)), (0, true));
        assert_eq!(keys.key((1, 7)), (1, true));
        keys.release(0);
        assert_eq!(keys.key((2, 9)), (0, true));
        assert_eq!(keys.key((1, 7)), (1, false));
        assert_eq!(keys.len(), 2);
    }

    #[test]
    fn a_discard_of_a_whole_volume_takes_that_volumes_blocks() {
        let whole = Run {
            volume: 1,
            first: 0,
            count: u64::MAX,
        };
        let mut sample = Sample::default();
        for place in [(0, 5), (1, 5), (1, 6)] {
            let (key, _) = sample.keys.key(place);
            sample.stack.access(key);
        }
        sample.keys.release(2);
        sample.remove(Spatial::new(1.0, 0), whole);
        assert_eq!(sample.stack.access(1), None);
        assert_eq!(sample.stack.access(0), Some(3));
    }
}
