//! Generated traces: a text and a seed decide every record, on every machine.
//!
//! ```text
//!  "gen:zipf,..+loop,.." ─► Spec ─► Generator ── earliest of its sources ──► Record
//!                                    │ source: Clock (when) · Walk (where) · mix (what, how much)
//! ```
//!
//! A [`Generator`] is a [`Reader`], so whatever takes a trace takes a generator. Each source draws when,
//! where and what from dice of its own: changing one leaves the others as they were.
//!
//! Pure: no clock, no file, no dice but those of the seed. Units: microseconds and bytes.

mod arrival;
mod dice;
mod place;
mod spec;
mod values;

pub use arrival::{Arrival, Day};
pub use place::{Pattern, Zone};
pub use spec::{FOOTPRINT_BLOCKS_MAX, KINDS, PARTS_MAX, PREFIX, Part, Spec, SpecError, VMS_MAX};

use crate::error::ReadError;
use crate::limits::BATCH_RECORDS;
use crate::record::{Op, Record, Volume, VolumeIndex, Volumes};
use crate::records::{Reader, Records};
use arrival::Clock;
use place::Walk;
use units::{Bytes, Offset, Prng};

/// The records of a [`Spec`], in order of time.
#[derive(Clone, Debug)]
pub struct Generator {
    volumes: Volumes,
    sources: Vec<Source>,
}

impl Generator {
    /// The trace of that description.
    ///
    /// # Panics
    /// If the description was put together by hand and breaks what [`Spec`]'s parser checks.
    pub fn new(spec: &Spec) -> Self {
        let mut dice = Prng::new(spec.seed);
        let mut volumes = Volumes::new();
        let sources = spec
            .parts
            .iter()
            .map(|part| Source::new(part, &mut volumes, dice.fork()))
            .collect();
        Self { volumes, sources }
    }

    /// How many records are left.
    pub fn left(&self) -> u64 {
        let left = self.sources.iter().map(|source| source.left);
        left.fold(0, u64::saturating_add)
    }
}

impl Iterator for Generator {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        // The first of those at the same time, so that the order is decided.
        let earliest = self
            .sources
            .iter_mut()
            .filter(|source| source.left > 0)
            .min_by_key(|source| source.next_us)?;
        Some(earliest.draw())
    }
}

impl Reader for Generator {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        records.clear();
        records.extend(self.by_ref().take(BATCH_RECORDS));
        Ok(!records.is_empty())
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

/// One source of requests.
#[derive(Clone, Debug)]
struct Source {
    clock: Clock,
    walk: Walk,
    mix: Prng,
    /// Request sizes with the sum of the weights up to each.
    sizes: Vec<(Bytes, f64)>,
    reads: f64,
    discards: f64,
    flush_every: u64,
    writes: u64,
    flush_is_due: bool,
    last_volume: VolumeIndex,
    volumes: Vec<VolumeIndex>,
    /// When its next request comes.
    next_us: u64,
    left: u64,
}

impl Source {
    fn new(part: &Part, volumes: &mut Volumes, mut dice: Prng) -> Self {
        let mut volume = |vm: &str, name: &str| {
            volumes.intern(&Volume {
                vm: vm.to_owned(),
                name: name.to_owned(),
            })
        };
        let own = match &part.pattern {
            Pattern::BaseImage { vms, .. } => {
                // As places count them: VM k has its disk at 2k and the image at 2k + 1.
                let image = format!("{}image", Volume::BASE_IMAGE);
                (1..=*vms)
                    .map(|vm| format!("{}-{vm}", part.vm))
                    .flat_map(|vm| [volume(&vm, &part.volume), volume(&vm, &image)])
                    .collect()
            }
            _ => vec![volume(&part.vm, &part.volume)],
        };
        let mut until = 0.0;
        let sizes = part.sizes.iter().map(|(size, weight)| {
            until += weight;
            (*size, until)
        });
        let sizes = sizes.collect();
        let mut clock = Clock::new(part.arrival, part.rate, part.start_us, dice.fork());
        let next_us = clock.next();
        Self {
            clock,
            walk: Walk::new(
                &part.pattern,
                part.footprint,
                spec::grain(part),
                dice.fork(),
            ),
            mix: dice.fork(),
            sizes,
            reads: part.reads,
            discards: part.discards,
            flush_every: part.flush_every,
            writes: 0,
            flush_is_due: false,
            last_volume: own[0],
            volumes: own,
            next_us,
            left: part.requests,
        }
    }

    /// The next request.
    fn draw(&mut self) -> Record {
        let time_us = self.next_us;
        self.left -= 1;
        self.next_us = self.clock.next();
        let bare = Record {
            time_us,
            offset: Offset::ZERO,
            length: Bytes::ZERO,
            response_us: None,
            volume: self.last_volume,
            op: Op::Flush,
            hash: None,
        };
        if self.flush_is_due {
            self.flush_is_due = false;
            return bare;
        }
        let size = self.size();
        let place = self.walk.next(size, time_us);
        let op = self.op(place.read_only);
        let length = size.get().min(place.end.get() - place.offset.get());
        let volume = self.volumes[place.volume];
        if op == Op::Write {
            self.writes += 1;
            self.last_volume = volume;
            self.flush_is_due =
                self.flush_every > 0 && self.writes.is_multiple_of(self.flush_every);
        }
        Record {
            offset: place.offset,
            length: Bytes::new(length),
            volume,
            op,
            ..bare
        }
    }

    fn size(&mut self) -> Bytes {
        let [.., (_, total)] = self.sizes[..] else {
            unreachable!("a part has a size")
        };
        let at = self.mix.unit() * total;
        let found = self.sizes.iter().find(|(_, until)| at < *until);
        found.map_or(self.sizes[0].0, |(size, _)| *size)
    }

    fn op(&mut self, read_only: bool) -> Op {
        // Two draws always, so that a share of zero changes nothing else.
        let is_read = dice::chance(&mut self.mix, self.reads);
        let is_discard = dice::chance(&mut self.mix, self.discards);
        match (read_only || is_read, is_discard) {
            (true, _) => Op::Read,
            (false, true) => Op::Discard,
            (false, false) => Op::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::Xxh3;

    fn generate(text: &str) -> (Vec<Record>, Volumes) {
        let mut generator = Generator::new(&text.parse().unwrap());
        let (mut all, mut batch) = (Vec::new(), Records::new());
        while generator.read_batch(&mut batch).unwrap() {
            all.extend(&batch);
        }
        assert!(!generator.read_batch(&mut batch).unwrap());
        (all, generator.volumes().clone())
    }

    fn hash(text: &str) -> u64 {
        let mut hash = Xxh3::new();
        for record in generate(text).0 {
            for number in [
                record.time_us,
                u64::from(record.volume.get()),
                record.offset.get(),
                record.length.get(),
                record.op as u64,
            ] {
                hash.update(&number.to_le_bytes());
            }
        }
        hash.digest()
    }

    const ALL: &str = "gen:zipf,requests=2k,seed=7+zoned,requests=2k,zones=60/10:40/90,arrival=fixed\
        +sequential,requests=2k,size=4KiB:3/64KiB:1+loop,requests=2k,discards=0.1+uniform,requests=2k,\
        flush=5+base-image,requests=2k,vms=3+diurnal,requests=2k,period=10s";

    #[test]
    fn a_seed_gives_the_same_trace_in_every_release_and_on_every_machine() {
        assert_eq!(hash(ALL), 11_513_678_093_925_063_698);
        let foreseeable = "gen:streams,requests=2k,seed=7+chains,requests=2k";
        assert_eq!(hash(foreseeable), 16_361_492_679_809_480_444);
    }

    #[test]
    fn another_seed_gives_another_trace() {
        assert_ne!(
            hash("zipf,requests=100,seed=1"),
            hash("zipf,requests=100,seed=2")
        );
    }

    #[test]
    fn sources_are_merged_by_time() {
        let (records, volumes) = generate(ALL);
        assert_eq!(records.len(), 14_000);
        assert!(records.is_sorted_by_key(|record| record.time_us));
        // Six of a VM each, and three VMs with a disk and the image.
        assert_eq!(volumes.len(), 6 + 3 * 2);
    }

    #[test]
    fn the_share_of_reads_is_as_asked_for_and_changes_nothing_else() {
        let places = |reads: &str| {
            let (records, _) = generate(&format!("zipf,requests=20k,seed=3,reads={reads}"));
            let reads = records.iter().filter(|r| r.op == Op::Read).count();
            let places: Vec<_> = records.iter().map(|r| (r.time_us, r.offset)).collect();
            (reads, places)
        };
        let (few, these) = places("0.25");
        let (all, those) = places("1");
        assert!(few.abs_diff(5000) < 250, "{few}");
        assert_eq!(all, 20_000);
        assert_eq!(these, those);
    }

    #[test]
    fn nothing_reaches_beyond_the_footprint() {
        let (records, _) = generate("uniform,requests=5k,footprint=100KiB,size=4KiB/64KiB");
        assert!(
            records
                .iter()
                .all(|r| r.offset + r.length <= Offset::kib(100))
        );
        assert!(records.iter().any(|r| r.length == Bytes::kib(64)));
        assert!(
            records
                .iter()
                .any(|r| r.length < Bytes::kib(64) && r.length > Bytes::kib(4))
        );
    }

    /// Words that a generator's text is made of, and some that it is not.
    const WORDS: [&str; 40] = [
        "gen:",
        "zipf",
        "zoned",
        "sequential",
        "loop",
        "uniform",
        "base-image",
        "diurnal",
        ",",
        "+",
        "=",
        "requests=9",
        "blocks=1",
        "blocks=3",
        "footprint=4608B",
        "footprint=1TiB",
        "size=512B/4KiB:2",
        "size=4KiB",
        "reads=1",
        "discards=1",
        "flush=1",
        "rate=1e9",
        "rate=0.000001",
        "arrival=diurnal",
        "arrival=fixed",
        "period=1us",
        "swing=0.99",
        "start=500000h",
        "theta=0",
        "theta=10",
        "zones=100/0:0/",
        "zones=0/100:100/0",
        "run=512B",
        "vms=1024",
        "image=512B",
        "shared=1",
        "boot=1",
        "night=1",
        "seed=18446744073709551615",
        "\u{fe}7M",
    ];

    #[test]
    fn any_text_is_a_generator_or_an_error_and_its_records_fit() {
        let mut dice = Prng::new(21);
        let mut generators = 0;
        for _ in 0..40_000 {
            let mut text = String::new();
            for place in 0..=dice.below(7) {
                if place > 0 && !dice.one_in(6) {
                    text.push(',');
                }
                let word = usize::try_from(dice.below(WORDS.len() as u64)).unwrap();
                // Texts that begin with a kind get further.
                let word = if place == 0 && !dice.one_in(6) {
                    1 + word % 7
                } else {
                    word
                };
                text.push_str(WORDS[word]);
            }
            let Ok(spec) = text.parse::<Spec>() else {
                continue;
            };
            generators += 1;
            let most = |part: &Part| match part.pattern {
                Pattern::BaseImage { image, .. } => part.footprint.max(image),
                _ => part.footprint,
            };
            let end = spec.parts.iter().map(most).max().unwrap();
            for record in Generator::new(&spec).take(50) {
                let record_end = (record.offset + record.length).from_start();
                assert!(record_end <= end, "{text}: {record:?}");
                assert_eq!(
                    record.length.is_zero(),
                    record.op == Op::Flush,
                    "{text}: {record:?}"
                );
            }
        }
        assert!(generators > 3000, "{generators}");
    }

    #[test]
    fn a_flush_follows_so_many_writes() {
        let (records, _) = generate("uniform,requests=1k,reads=0,flush=4");
        let flushes = records.iter().filter(|r| r.op == Op::Flush).count();
        assert_eq!(flushes, 200);
    }
}
