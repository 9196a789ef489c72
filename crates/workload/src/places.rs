//! Where requests go within a region.

use crate::spread::Sampler;
use crate::untouched::Untouched;
use crate::{Direction, Spread};
use units::Prng;

/// A part of a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
}

impl Region {
    /// Where it ends.
    pub const fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// Where one request goes, in bytes of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

impl Place {
    /// Whether they have a byte in common.
    pub const fn overlaps(self, other: Self) -> bool {
        self.offset < other.offset + other.length && other.offset < self.offset + self.length
    }
}

/// The state of going through a region.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    region: Region,
    /// Bytes that every address and length is a multiple of.
    unit: u64,
    units: u64,
    order: Order,
    dice: Prng,
}

#[derive(Clone, Debug)]
enum Order {
    /// The next unit of each direction.
    InOrder([u64; 3]),
    Random {
        sampler: Sampler,
        map: Option<Untouched>,
    },
}

impl Places {
    /// In order, each direction by itself.
    ///
    /// # Panics
    /// If the region is not at least one unit, or no multiple of it.
    pub(crate) fn in_order(region: Region, unit: u64, dice: Prng) -> Self {
        Self::new(region, unit, dice, |_| Order::InOrder([0; 3]))
    }

    /// By a distribution; with `each_once`, which only the uniform one can have, no byte is
    /// visited again before all of them were.
    ///
    /// # Panics
    /// If the region is not at least one unit, or no multiple of it.
    pub(crate) fn random(
        region: Region,
        unit: u64,
        spread: &Spread,
        each_once: bool,
        dice: Prng,
    ) -> Self {
        assert!(
            !each_once || *spread == Spread::Uniform,
            "places that are drawn more often are visited more often"
        );
        Self::new(region, unit, dice, |units| Order::Random {
            sampler: Sampler::new(spread, units),
            map: each_once.then(|| Untouched::new(units)),
        })
    }

    fn new(region: Region, unit: u64, dice: Prng, order: impl FnOnce(u64) -> Order) -> Self {
        assert!(unit > 0, "a unit has bytes");
        assert!(region.length >= unit, "a region has a unit");
        assert!(
            region.length.is_multiple_of(unit),
            "a region consists of units"
        );
        let units = region.length / unit;
        Self {
            region,
            unit,
            units,
            order: order(units),
            dice,
        }
    }

    /// The next place of up to `length` bytes, a multiple of the unit. It is shorter at the end
    /// of the region, and where something longer would visit a byte twice.
    pub(crate) fn next(&mut self, direction: Direction, length: u64) -> Place {
        let wanted = (length / self.unit).max(1).min(self.units);
        let (first, count) = match &mut self.order {
            Order::InOrder(cursors) => {
                let cursor = &mut cursors[direction.index()];
                if *cursor == self.units {
                    *cursor = 0;
                }
                let first = *cursor;
                let count = wanted.min(self.units - first);
                *cursor += count;
                (first, count)
            }
            Order::Random { sampler, map: None } => {
                let first = sampler.draw(&mut self.dice);
                (first.min(self.units - wanted), wanted)
            }
            Order::Random {
                sampler,
                map: Some(map),
            } => {
                if map.is_empty() {
                    map.reset();
                }
                let drawn = sampler.draw(&mut self.dice);
                let first = map.next(drawn).expect("a pass has begun");
                let mut count = 0;
                while count < wanted && map.has(first + count) {
                    map.touch(first + count);
                    count += 1;
                }
                (first, count)
            }
        };
        Place {
            offset: self.region.offset + first * self.unit,
            length: count * self.unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REGION: Region = Region {
        offset: 1 << 20,
        length: 10 * 4096,
    };

    fn visits(places: &mut Places, region: Region, sizes: &[u64]) -> Vec<u32> {
        let mut counts = vec![0; usize::try_from(region.length / 512).unwrap()];
        let mut bytes = 0;
        let mut turn = 0;
        while bytes < region.length {
            let place = places.next(Direction::Read, sizes[turn % sizes.len()]);
            turn += 1;
            assert!(place.length > 0 && place.offset >= region.offset);
            assert!(place.offset + place.length <= region.end());
            let first = (place.offset - region.offset) / 512;
            for sector in first..first + place.length / 512 {
                counts[usize::try_from(sector).unwrap()] += 1;
            }
            bytes += place.length;
        }
        counts
    }

    #[test]
    fn each_direction_has_its_own_order_and_begins_again_at_the_end() {
        let mut places = Places::in_order(REGION, 4096, Prng::new(1));
        let mut block = |direction| {
            let place = places.next(direction, 3 * 4096);
            ((place.offset - REGION.offset) / 4096, place.length / 4096)
        };
        let reads: Vec<_> = (0..3).map(|_| block(Direction::Read)).collect();
        assert_eq!(reads, [(0, 3), (3, 3), (6, 3)]);
        assert_eq!(block(Direction::Write), (0, 3));
        assert_eq!(block(Direction::Read), (9, 1));
        assert_eq!(block(Direction::Read), (0, 3));
    }

    proptest! {
        #[test]
        fn a_pass_visits_every_byte_once(
            units in 1_u64..300,
            sizes in proptest::collection::vec(1_u64..9, 1..5),
            random in any::<bool>(),
            seed in any::<u64>(),
        ) {
            let region = Region { offset: 8192, length: units * 1024 };
            let sizes: Vec<u64> = sizes.iter().map(|size| size * 1024).collect();
            let dice = Prng::new(seed);
            let mut places = if random {
                Places::random(region, 1024, &Spread::Uniform, true, dice)
            } else {
                Places::in_order(region, 1024, dice)
            };
            for _pass in 0..2 {
                let counts = visits(&mut places, region, &sizes);
                prop_assert!(counts.iter().all(|count| *count == 1));
            }
        }

        #[test]
        fn every_place_lies_within_the_region(
            units in 1_u64..100,
            size in 1_u64..200,
            spread in prop_oneof![
                Just("random"), Just("zipf:1.2"), Just("pareto:0.3"), Just("zoned:90/1:10/99"),
            ],
            seed in any::<u64>(),
        ) {
            let region = Region { offset: 4096, length: units * 512 };
            let spread: Spread = spread.parse().unwrap();
            let mut places = Places::random(region, 512, &spread, false, Prng::new(seed));
            for _ in 0..200 {
                let place = places.next(Direction::Write, size * 512);
                prop_assert!(place.length > 0);
                prop_assert!(place.offset >= 4096 && place.offset + place.length <= region.end());
                prop_assert!((place.offset - 4096).is_multiple_of(512));
            }
        }
    }

    #[test]
    fn without_the_map_places_come_again() {
        let spread = Spread::Uniform;
        let mut places = Places::random(REGION, 4096, &spread, false, Prng::new(1));
        let counts = visits(&mut places, REGION, &[4096]);
        assert!(counts.iter().any(|count| *count > 1));
    }

    #[test]
    fn ranges_overlap_if_they_share_a_byte() {
        let at = |offset, length| Place { offset, length };
        assert!(at(0, 10).overlaps(at(9, 1)));
        assert!(!at(0, 10).overlaps(at(10, 1)));
        assert!(at(5, 1).overlaps(at(0, 10)));
    }
}
