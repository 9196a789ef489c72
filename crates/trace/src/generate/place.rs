//! Where requests go: one state for each pattern.
//!
//! Random patterns address the grid of the smallest request size; sequential ones go on where the last
//! request ended. Frequent places of a zipf law are scattered over the footprint, since hot blocks are
//! not neighbours on a disk.
//!
//! ```text
//!  zipf, uniform, zoned   any place, by its law
//!  sequential             ►►►►►►►   jump   ►►►►►►►
//!  loop                   ►►►►►►►►►►►►►►►►►►►►►►►►►►► and again
//!  base-image             image: boot order, then zipf (reads only)      shared by all VMs
//!                         own volume of each VM: zipf
//!  streams                several sequential ones at a time, by turns at random
//!  chains                 places that follow each other though they are no neighbours, by zipf's law of the chains
//!  diurnal                by day zipf, by night more and more of a sequential pass (a backup)
//! ```

use super::arrival::Day;
use super::dice;
use units::{Bytes, Offset, Prng};
use workload::{Scatter, Zipf};

/// Where requests go, in a source of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Zipf's law over the places of the footprint.
    Zipf {
        /// The exponent.
        theta: f64,
        /// Frequent places are neighbours, the most frequent first, instead of scattered.
        clustered: bool,
    },
    /// Zones with a share of the accesses each, uniform inside: fio's `random_distribution=zoned`.
    Zoned {
        /// The zones from the footprint's start.
        zones: Vec<Zone>,
    },
    /// Runs of neighbours from random places.
    Sequential {
        /// How long a run is.
        run: Bytes,
    },
    /// The whole footprint in order, again and again.
    Loop,
    /// Several runs of neighbours at a time, each from a random place.
    Streams {
        /// How many at a time.
        streams: u32,
        /// How long a run is.
        run: Bytes,
    },
    /// Chains of scattered places that are always read one after the other.
    Chains {
        /// How many chains.
        chains: u32,
        /// Places of a chain.
        links: u32,
        /// The exponent of the law by which the next chain is chosen.
        theta: f64,
        /// Share of requests between them that go anywhere.
        noise: f64,
    },
    /// Every place alike.
    Uniform,
    /// VMs that read one base image and have a volume of their own each.
    BaseImage {
        /// How many VMs.
        vms: u32,
        /// Size of the image.
        image: Bytes,
        /// Share of the requests that read the image.
        shared: f64,
        /// Share of the image that a VM first reads in order, as all of them do when they boot.
        boot: f64,
        /// The exponent of the law for image and volumes.
        theta: f64,
    },
    /// Zipf by day, a sequential pass by night.
    Diurnal {
        /// The exponent by day.
        theta: f64,
        /// Share of the sequential pass in the middle of the night.
        night: f64,
        /// The day.
        day: Day,
    },
}

/// A zone of [`Pattern::Zoned`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Its share of the accesses.
    pub accesses: f64,
    /// Its share of the footprint.
    pub range: f64,
}

/// Where one request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The volume, counted within the source.
    pub(super) volume: usize,
    pub(super) offset: Offset,
    /// Where the volume ends.
    pub(super) end: Bytes,
    /// The place is only ever read.
    pub(super) read_only: bool,
}

/// The state of a pattern.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    footprint: Bytes,
    grain: u64,
    state: State,
    dice: Prng,
}

#[derive(Clone, Debug)]
enum State {
    Zipf(Scattered),
    Zoned(Vec<Area>),
    Loop {
        cursor: u64,
    },
    Streams {
        streams: Vec<Stream>,
        run: u64,
    },
    Chains(Box<Chains>),
    Uniform,
    BaseImage(Box<Images>),
    Diurnal {
        hot: Scattered,
        cursor: u64,
        night: f64,
        day: Day,
    },
}

/// A run of neighbours, under way.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    cursor: u64,
    left: u64,
}

impl Stream {
    /// The next of its places; a run that is over begins anew anywhere.
    fn next(&mut self, length: u64, (end, grain, run): (u64, u64, u64), dice: &mut Prng) -> u64 {
        if self.left == 0 {
            self.cursor = dice.below(end / grain) * grain;
            self.left = run;
        }
        self.left = self.left.saturating_sub(length);
        step(&mut self.cursor, length, end)
    }
}

/// Chains, and where in which of them the guest is.
#[derive(Clone, Debug)]
struct Chains {
    law: Zipf,
    scatter: Scatter,
    places: u64,
    links: u64,
    chain: u64,
    link: u64,
    noise: f64,
}

impl Chains {
    fn next(&mut self, dice: &mut Prng) -> u64 {
        if dice::chance(dice, self.noise) {
            return dice.below(self.places);
        }
        if self.link == 0 {
            self.chain = self.law.draw(dice);
        }
        let number = self.chain * self.links + self.link;
        self.link = (self.link + 1) % self.links;
        self.scatter.place(number % self.places)
    }
}

/// A zone in places of the grid.
#[derive(Clone, Copy, Debug)]
struct Area {
    /// Accesses of this zone and those before it.
    until: f64,
    first: u64,
    places: u64,
}

#[derive(Clone, Debug)]
struct Images {
    image: Scattered,
    own: Scattered,
    image_bytes: Bytes,
    shared: f64,
    boot_bytes: u64,
    /// How far each VM has booted.
    booted: Vec<u64>,
}

impl Walk {
    /// The walk of a pattern over `footprint`, whose random places are multiples of `grain`.
    ///
    /// # Panics
    /// If the footprint, or an image, is smaller than a grain.
    pub(super) fn new(pattern: &Pattern, footprint: Bytes, grain: Bytes, dice: Prng) -> Self {
        let places = footprint.get() / grain.get();
        assert!(places > 0, "a footprint has a place");
        let state = match pattern {
            Pattern::Zipf { theta, clustered } => {
                let mut law = Scattered::new(places, *theta);
                if *clustered {
                    law.scatter = Scatter::clustered(places);
                }
                State::Zipf(law)
            }
            Pattern::Zoned { zones } => State::Zoned(areas(zones, places)),
            Pattern::Sequential { run } => State::Streams {
                streams: vec![Stream::default()],
                run: run.get(),
            },
            Pattern::Streams { streams, run } => State::Streams {
                streams: vec![Stream::default(); *streams as usize],
                run: run.get(),
            },
            Pattern::Chains {
                chains,
                links,
                theta,
                noise,
            } => State::Chains(Box::new(Chains {
                law: Zipf::new(u64::from(*chains), *theta),
                scatter: Scatter::new(places),
                places,
                links: u64::from(*links),
                chain: 0,
                link: 0,
                noise: *noise,
            })),
            Pattern::Loop => State::Loop { cursor: 0 },
            Pattern::Uniform => State::Uniform,
            Pattern::BaseImage {
                vms,
                image,
                shared,
                boot,
                theta,
            } => State::BaseImage(Box::new(Images {
                image: Scattered::new(image.get() / grain.get(), *theta),
                own: Scattered::new(places, *theta),
                image_bytes: *image,
                shared: *shared,
                boot_bytes: dice::whole(dice::real(image.get()) * boot),
                booted: vec![0; *vms as usize],
            })),
            Pattern::Diurnal { theta, night, day } => State::Diurnal {
                hot: Scattered::new(places, *theta),
                cursor: 0,
                night: *night,
                day: *day,
            },
        };
        Self {
            footprint,
            grain: grain.get(),
            state,
            dice,
        }
    }

    /// Where a request of this length goes at this time.
    pub(super) fn next(&mut self, length: Bytes, time_us: u64) -> Place {
        let (dice, end) = (&mut self.dice, self.footprint.get());
        let offset = match &mut self.state {
            State::Zipf(law) => law.draw(dice) * self.grain,
            State::Uniform => dice.below(end / self.grain) * self.grain,
            State::Zoned(areas) => zoned(areas, dice) * self.grain,
            State::Loop { cursor } => step(cursor, length.get(), end),
            State::Streams { streams, run } => {
                // One alone draws no dice for whose turn it is.
                let turn = match streams.len() {
                    1 => 0,
                    many => usize::try_from(dice.below(many as u64)).expect("an index of a list"),
                };
                streams[turn].next(length.get(), (end, self.grain, *run), dice)
            }
            State::Chains(chains) => chains.next(dice) * self.grain,
            State::Diurnal {
                hot,
                cursor,
                night,
                day,
            } => {
                let dark = (1.0 - day.light(time_us)) / 2.0;
                if dice::chance(dice, *night * dark) {
                    step(cursor, length.get(), end)
                } else {
                    hot.draw(dice) * self.grain
                }
            }
            State::BaseImage(images) => {
                return images.next(length, self.footprint, self.grain, dice);
            }
        };
        Place {
            volume: 0,
            offset: Offset::new(offset),
            end: self.footprint,
            read_only: false,
        }
    }
}

impl Images {
    fn next(&mut self, length: Bytes, own_bytes: Bytes, grain: u64, dice: &mut Prng) -> Place {
        let vm = usize::try_from(dice.below(self.booted.len() as u64)).expect("an index of a list");
        if !dice::chance(dice, self.shared) {
            return Place {
                volume: 2 * vm,
                offset: Offset::new(self.own.draw(dice) * grain),
                end: own_bytes,
                read_only: false,
            };
        }
        let booted = &mut self.booted[vm];
        let offset = if *booted < self.boot_bytes {
            step(booted, length.get(), self.boot_bytes)
        } else {
            self.image.draw(dice) * grain
        };
        // A VM boots once: the end of its boot is not the start of another.
        if offset + length.get() >= self.boot_bytes {
            *booted = self.boot_bytes;
        }
        Place {
            volume: 2 * vm + 1,
            offset: Offset::new(offset),
            end: self.image_bytes,
            read_only: true,
        }
    }
}

/// Goes on by `length`; at the end it begins anew.
fn step(cursor: &mut u64, length: u64, end: u64) -> u64 {
    let at = if *cursor >= end { 0 } else { *cursor };
    *cursor = at + length;
    at
}

fn areas(zones: &[Zone], places: u64) -> Vec<Area> {
    let (mut until, mut range, mut first) = (0.0, 0.0, 0);
    let mut areas = Vec::with_capacity(zones.len());
    for (at, zone) in zones.iter().enumerate() {
        until += zone.accesses;
        range += zone.range;
        let last = at + 1 == zones.len();
        let end = if last {
            places
        } else {
            dice::whole(dice::real(places) * range).min(places)
        };
        areas.push(Area {
            until: if last { f64::INFINITY } else { until },
            first,
            places: end.saturating_sub(first),
        });
        first = end;
    }
    areas
}

fn zoned(areas: &[Area], dice: &mut Prng) -> u64 {
    let at = dice.unit();
    let area = areas.iter().find(|area| at < area.until);
    let area = area.expect("the last zone takes the rest");
    // A zone that is smaller than a place shares its neighbour's.
    let last = areas.last().map_or(0, |last| last.first + last.places);
    let place = area.first + dice.below(area.places.max(1));
    place.min(last.saturating_sub(1))
}

/// A zipf law whose ranks lie scattered over the places.
#[derive(Clone, Debug)]
struct Scattered {
    law: Zipf,
    scatter: Scatter,
}

impl Scattered {
    fn new(places: u64, theta: f64) -> Self {
        Self {
            law: Zipf::new(places, theta),
            scatter: Scatter::new(places),
        }
    }

    fn draw(&self, dice: &mut Prng) -> u64 {
        self.scatter.place(self.law.draw(dice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const BLOCK: Bytes = Bytes::kib(4);

    fn walk(pattern: &Pattern, blocks: u64) -> Walk {
        Walk::new(pattern, Bytes::new(blocks * 4096), BLOCK, Prng::new(9))
    }

    fn offsets(walk: &mut Walk, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| walk.next(BLOCK, 0).offset.get() / 4096)
            .collect()
    }

    #[test]
    fn a_loop_visits_all_in_order_and_begins_again() {
        let mut walk = walk(&Pattern::Loop, 3);
        assert_eq!(offsets(&mut walk, 7), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn a_sequential_run_goes_on_and_then_jumps() {
        let pattern = Pattern::Sequential {
            run: Bytes::kib(16),
        };
        let offsets = offsets(&mut walk(&pattern, 1 << 20), 4000);
        let jumps = offsets.windows(2).filter(|p| p[1] != p[0] + 1).count();
        assert_eq!(jumps, 999);
    }

    #[test]
    fn streams_go_on_by_turns() {
        let pattern = Pattern::Streams {
            streams: 4,
            run: Bytes::mib(1),
        };
        let offsets = offsets(&mut walk(&pattern, 1 << 20), 4000);
        let follows = |at: usize| {
            let before = offsets[at.saturating_sub(40)..at].iter();
            before.rev().any(|one| one + 1 == offsets[at])
        };
        let followers = (1..4000).filter(|at| follows(*at)).count();
        assert!(followers > 3900, "{followers}");
        let neighbours = offsets.windows(2).filter(|p| p[1] == p[0] + 1).count();
        assert!(neighbours.abs_diff(1000) < 120, "{neighbours}");
    }

    #[test]
    fn a_place_of_a_chain_says_what_comes_next() {
        let pattern = |noise| Pattern::Chains {
            chains: 50,
            links: 8,
            theta: 0.8,
            noise,
        };
        let predictable = |noise| {
            let offsets = offsets(&mut walk(&pattern(noise), 10_000), 20_000);
            let mut after = std::collections::HashMap::new();
            let pairs = offsets.windows(2);
            let known = pairs.filter(|pair| after.insert(pair[0], pair[1]) == Some(pair[1]));
            (
                known.count(),
                offsets.windows(2).filter(|p| p[1] == p[0] + 1).count(),
            )
        };
        let (known, neighbours) = predictable(0.0);
        // Seven of eight steps stay in a chain, and the chains are seen early.
        assert!(known > 20_000 * 13 / 16, "{known}");
        assert!(neighbours < 200, "{neighbours}");
        assert!(predictable(0.5).0 < known / 2);
    }

    #[test]
    fn zones_get_their_shares_of_the_accesses() {
        let zones = [(0.6, 0.1), (0.3, 0.2), (0.08, 0.3), (0.02, 0.4)];
        let zones = zones.map(|(accesses, range)| Zone { accesses, range });
        let pattern = Pattern::Zoned {
            zones: zones.to_vec(),
        };
        let offsets = offsets(&mut walk(&pattern, 1000), 100_000);
        let within = |from, to| offsets.iter().filter(|o| (from..to).contains(*o)).count();
        assert!(within(0, 100).abs_diff(60_000) < 700);
        assert!(within(100, 300).abs_diff(30_000) < 700);
        assert!(within(300, 600).abs_diff(8_000) < 400);
        assert!(within(600, 1000).abs_diff(2_000) < 250);
    }

    #[test]
    fn zones_without_room_stay_within_the_footprint() {
        let zone = |accesses, range| Zone { accesses, range };
        for zones in [
            vec![zone(0.5, 1.0), zone(0.5, 0.0)],
            vec![zone(0.5, 0.1), zone(0.5, 0.9)],
            vec![zone(1.0, 1.0)],
        ] {
            for blocks in [1, 2, 7] {
                let mut walk = walk(
                    &Pattern::Zoned {
                        zones: zones.clone(),
                    },
                    blocks,
                );
                assert!(offsets(&mut walk, 200).iter().all(|&at| at < blocks));
            }
        }
    }

    #[test]
    fn clustered_places_are_as_frequent_as_they_lie_near_the_beginning() {
        let pattern = Pattern::Zipf {
            theta: 0.9,
            clustered: true,
        };
        let offsets = offsets(&mut walk(&pattern, 1000), 20_000);
        let within = |from, to| offsets.iter().filter(|o| (from..to).contains(*o)).count();
        let tens: Vec<usize> = (0..4).map(|ten| within(ten * 10, ten * 10 + 10)).collect();
        assert!(tens.is_sorted_by(|a, b| a > b), "{tens:?}");
        assert!(within(0, 500) > 4 * within(500, 1000));
    }

    #[test]
    fn vms_read_the_image_alike_when_they_boot_and_write_only_their_own() {
        let pattern = Pattern::BaseImage {
            vms: 3,
            image: Bytes::mib(1),
            shared: 0.5,
            boot: 0.25,
            theta: 1.0,
        };
        let mut walk = walk(&pattern, 64);
        let places: Vec<Place> = (0..3000).map(|_| walk.next(BLOCK, 0)).collect();
        let volumes: HashSet<usize> = places.iter().map(|place| place.volume).collect();
        assert_eq!(volumes, HashSet::from([0, 1, 2, 3, 4, 5]));
        let reads_image = |p: &Place| p.volume % 2 == 1;
        assert!(places.iter().all(|p| p.read_only == reads_image(p)));
        let State::BaseImage(images) = &walk.state else {
            unreachable!("it is one")
        };
        assert_eq!(images.booted, [256 << 10; 3]);
        // Each VM reads the first 64 blocks in order: block 63 three times at least.
        let last = places
            .iter()
            .filter(|p| reads_image(p) && p.offset.get() == 63 * 4096);
        assert!(last.count() >= 3);
    }

    #[test]
    fn nights_are_sequential() {
        let day = Day {
            period_us: 1000,
            swing: 0.5,
        };
        let pattern = Pattern::Diurnal {
            theta: 0.8,
            night: 1.0,
            day,
        };
        let mut walk = walk(&pattern, 1000);
        let night: Vec<u64> = (0..50)
            .map(|_| walk.next(BLOCK, 0).offset.get() / 4096)
            .collect();
        assert!(night.windows(2).all(|pair| pair[1] == pair[0] + 1));
        let noon: Vec<u64> = (0..50)
            .map(|_| walk.next(BLOCK, 500).offset.get() / 4096)
            .collect();
        assert!(noon.windows(2).filter(|p| p[1] == p[0] + 1).count() < 5);
    }
}
