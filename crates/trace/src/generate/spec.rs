//! The text of a generator: `gen:KIND,KEY=VALUE,...`, several joined by `+`.
//!
//! ```text
//!  gen:zipf,blocks=1M,requests=10M,theta=0.99,seed=7
//!  gen:loop,blocks=100k,vm=batch+uniform,blocks=1M,reads=0.5,vm=db,start=10s
//! ```
//!
//! One word each, so that it stands wherever a trace's path may stand. Counts take `k`, `M`, `G` (powers
//! of 1000) and `Ki`, `Mi`, `Gi` (of 1024); sizes and times take the units of the rest of the program.

use super::arrival::{Arrival, Day};
use super::place::{Pattern, Zone};
use super::values::{count, few, name, number, share, size, sizes, time, zones};
use std::str::FromStr;
use units::{BLOCK_BYTES, Bytes};

/// What a text that describes a generator begins with.
pub const PREFIX: &str = "gen:";

/// Parts of one trace: each has a clock to look at for every request.
pub const PARTS_MAX: usize = 64;
/// VMs of one part, each with a volume.
pub const VMS_MAX: u32 = 1024;
/// Streams of one part at a time.
const STREAMS_MAX: u32 = 1 << 16;
/// The largest footprint in blocks of 4 KiB: more cannot be numbered.
pub const FOOTPRINT_BLOCKS_MAX: u64 = 1 << 32;

/// A trace to be generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// What decides everything that is random.
    pub seed: u64,
    /// The sources whose requests are merged by time.
    pub parts: Vec<Part>,
}

/// One source of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Where its requests go.
    pub pattern: Pattern,
    /// The VM that they come from; of several VMs, what their names begin with.
    pub vm: String,
    /// The volume.
    pub volume: String,
    /// How many requests.
    pub requests: u64,
    /// How much of the volume they touch.
    pub footprint: Bytes,
    /// Request sizes with their weights.
    pub sizes: Vec<(Bytes, f64)>,
    /// Share of reads; the rest are writes.
    pub reads: f64,
    /// Share of discards among what is not read.
    pub discards: f64,
    /// A flush comes after so many writes; never for 0.
    pub flush_every: u64,
    /// How requests come.
    pub arrival: Arrival,
    /// Requests a second, on average.
    pub rate: f64,
    /// When the first comes.
    pub start_us: u64,
}

/// Why a text describes no generator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such kind of generator.
    #[error(
        "generator: '{0}' is no kind of generator; there are zipf, zoned, sequential, streams, loop, uniform, \
         chains, base-image and diurnal, as in gen:zipf,blocks=1M,requests=10M,theta=0.99,seed=7"
    )]
    Kind(String),
    /// No such key, or not for this kind.
    #[error("generator: {kind} has no key '{key}'; its keys are {known}")]
    Key {
        /// The kind of generator.
        kind: &'static str,
        /// The key as it was written.
        key: String,
        /// Every key that it has.
        known: String,
    },
    /// A value that is none.
    #[error("generator: {key}={value} makes no sense: {expected}")]
    Value {
        /// The key.
        key: String,
        /// The value as it was written.
        value: String,
        /// What it should be.
        expected: String,
    },
    /// More parts than [`PARTS_MAX`].
    #[error("generator: more than {PARTS_MAX} parts are joined by '+'")]
    Parts,
}

const COMMON_KEYS: [&str; 15] = [
    "requests",
    "blocks",
    "footprint",
    "size",
    "reads",
    "discards",
    "flush",
    "rate",
    "arrival",
    "period",
    "swing",
    "start",
    "vm",
    "volume",
    "seed",
];

/// The kinds with the keys of their own and what they are, for help and messages.
pub const KINDS: [(&str, &[&str], &str); 9] = [
    (
        "zipf",
        &["theta", "places"],
        "place k of n is as frequent as k^-theta, scattered or clustered",
    ),
    (
        "zoned",
        &["zones"],
        "zones with a share of accesses and range each, as fio's zoned:60/10:30/20",
    ),
    (
        "sequential",
        &["run"],
        "runs of neighbours from random places",
    ),
    (
        "streams",
        &["streams", "run"],
        "several runs of neighbours at a time, by turns at random",
    ),
    (
        "chains",
        &["chains", "links", "theta", "noise"],
        "scattered places that are always read one after the other",
    ),
    ("loop", &[], "the whole footprint in order, again and again"),
    ("uniform", &[], "every place alike"),
    (
        "base-image",
        &["vms", "image", "shared", "boot", "theta"],
        "VMs that boot from one image and have a volume of their own each",
    ),
    (
        "diurnal",
        &["theta", "night"],
        "zipf by day, a sequential pass by night, a rate that swings",
    ),
];

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.strip_prefix(PREFIX).unwrap_or(text);
        let mut seed = None;
        let mut parts = Vec::new();
        for (place, part) in text.split('+').enumerate() {
            if place == PARTS_MAX {
                return Err(SpecError::Parts);
            }
            parts.push(parse_part(part, place, &mut seed)?);
        }
        Ok(Self {
            seed: seed.unwrap_or(1),
            parts,
        })
    }
}

/// The keys of a part that are not in [`Part`] as they are.
struct Draft {
    part: Part,
    theta: f64,
    clustered: bool,
    zones: Vec<Zone>,
    run: Bytes,
    streams: u32,
    chains: u32,
    links: u32,
    noise: f64,
    vms: u32,
    image: Bytes,
    shared: f64,
    boot: f64,
    night: f64,
    day: Day,
    arrival: String,
}

impl Draft {
    fn new(kind: &str, place: usize) -> Self {
        let day = Day {
            period_us: 86_400_000_000,
            swing: 0.8,
        };
        Self {
            part: Part {
                pattern: Pattern::Uniform,
                vm: format!("vm{}", place + 1),
                volume: "disk".to_owned(),
                requests: 1_000_000,
                footprint: Bytes::gib(1),
                sizes: vec![(Bytes::new(BLOCK_BYTES), 1.0)],
                reads: 0.7,
                discards: 0.0,
                flush_every: 0,
                arrival: Arrival::Poisson,
                rate: 1000.0,
                start_us: 0,
            },
            theta: 0.99,
            clustered: false,
            zones: Vec::new(),
            run: Bytes::mib(1),
            streams: 8,
            chains: 1000,
            links: 8,
            noise: 0.1,
            vms: 4,
            image: Bytes::gib(1),
            shared: 0.5,
            boot: 0.1,
            night: 0.5,
            day,
            arrival: if kind == "diurnal" {
                "diurnal"
            } else {
                "poisson"
            }
            .to_owned(),
        }
    }
}

fn parse_part(text: &str, place: usize, seed: &mut Option<u64>) -> Result<Part, SpecError> {
    let mut words = text.split(',');
    let kind = words.next().unwrap_or_default();
    let (kind, own, _) = *KINDS
        .iter()
        .find(|(name, ..)| *name == kind)
        .ok_or_else(|| SpecError::Kind(kind.to_owned()))?;
    let mut draft = Draft::new(kind, place);
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if !COMMON_KEYS.contains(&key) && !own.contains(&key) {
            let known = own.iter().chain(&COMMON_KEYS);
            return Err(SpecError::Key {
                kind,
                key: key.to_owned(),
                known: known.copied().collect::<Vec<_>>().join(", "),
            });
        }
        let set = set_common(&mut draft, key, value, seed)
            .or_else(|| set_own(&mut draft, key, value))
            .unwrap_or_else(|| Err("there is no such key".to_owned()));
        set.map_err(|expected| wrong(key, value, expected))?;
    }
    finish(draft, kind)
}

fn wrong(key: &str, value: &str, expected: impl Into<String>) -> SpecError {
    SpecError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        expected: expected.into(),
    }
}

type Set = Option<Result<(), String>>;

/// Sets a key that every kind has; `None` if it is not one.
fn set_common(draft: &mut Draft, key: &str, value: &str, seed: &mut Option<u64>) -> Set {
    let part = &mut draft.part;
    Some(match key {
        "requests" => count(value, 1 << 40).map(|n| part.requests = n),
        "blocks" => count(value, FOOTPRINT_BLOCKS_MAX)
            .map(|blocks| part.footprint = Bytes::new(blocks * BLOCK_BYTES)),
        "footprint" => size(value).map(|bytes| part.footprint = bytes),
        "size" => sizes(value).map(|sizes| part.sizes = sizes),
        "reads" => share(value).map(|share| part.reads = share),
        "discards" => share(value).map(|share| part.discards = share),
        "flush" => count(value, 1 << 40).map(|every| part.flush_every = every),
        "rate" => number(value, 1e-6, 1e9).map(|rate| part.rate = rate),
        "period" => time(value).and_then(|period| {
            draft.day.period_us = period;
            if period == 0 {
                Err("a day takes time".to_owned())
            } else {
                Ok(())
            }
        }),
        "swing" => number(value, 0.0, 0.99).map(|swing| draft.day.swing = swing),
        "start" => time(value).map(|start| part.start_us = start),
        "vm" => name(value).map(|name| part.vm = name),
        "volume" => name(value).map(|name| part.volume = name),
        "arrival" => match value {
            "fixed" | "poisson" | "diurnal" => {
                value.clone_into(&mut draft.arrival);
                Ok(())
            }
            _ => Err("fixed, poisson or diurnal".to_owned()),
        },
        "seed" => match (value.parse(), &seed) {
            (Err(_), _) => Err("a whole number below 2^64".to_owned()),
            (Ok(new), Some(old)) if new != *old => Err(format!(
                "the seed is that of the whole trace and was {old} before"
            )),
            (Ok(new), _) => {
                *seed = Some(new);
                Ok(())
            }
        },
        _ => return None,
    })
}

/// Sets a key that some kinds have; `None` if it is not one.
fn set_own(draft: &mut Draft, key: &str, value: &str) -> Set {
    Some(match key {
        "theta" => number(value, 0.0, 10.0).map(|theta| draft.theta = theta),
        "places" => match value {
            "scattered" | "clustered" => {
                draft.clustered = value == "clustered";
                Ok(())
            }
            _ => Err("scattered or clustered".to_owned()),
        },
        "zones" => zones(value).map(|zones| draft.zones = zones),
        "run" => size(value).map(|run| draft.run = run),
        "streams" => few(value, STREAMS_MAX).map(|streams| draft.streams = streams),
        "chains" => few(value, u32::MAX).map(|chains| draft.chains = chains),
        "links" => few(value, u32::MAX).map(|links| draft.links = links),
        "noise" => share(value).map(|noise| draft.noise = noise),
        "image" => size(value).map(|image| draft.image = image),
        "shared" => share(value).map(|shared| draft.shared = shared),
        "boot" => share(value).map(|boot| draft.boot = boot),
        "night" => share(value).map(|night| draft.night = night),
        "vms" => few(value, VMS_MAX).map(|vms| draft.vms = vms),
        _ => return None,
    })
}

/// Puts the pattern together and checks what concerns several keys.
fn finish(draft: Draft, kind: &str) -> Result<Part, SpecError> {
    let Draft { mut part, day, .. } = draft;
    part.arrival = match draft.arrival.as_str() {
        "fixed" => Arrival::Fixed,
        "diurnal" => Arrival::Diurnal(day),
        _ => Arrival::Poisson,
    };
    part.pattern = match kind {
        "zipf" => Pattern::Zipf {
            theta: draft.theta,
            clustered: draft.clustered,
        },
        "zoned" if draft.zones.is_empty() => {
            return Err(wrong(
                "zones",
                "",
                "zoned needs its zones, such as zones=60/10:30/20:10/70",
            ));
        }
        "zoned" => Pattern::Zoned { zones: draft.zones },
        "sequential" => Pattern::Sequential { run: draft.run },
        "streams" => Pattern::Streams {
            streams: draft.streams,
            run: draft.run,
        },
        "chains" => Pattern::Chains {
            chains: draft.chains,
            links: draft.links,
            theta: draft.theta,
            noise: draft.noise,
        },
        "loop" => Pattern::Loop,
        "base-image" => Pattern::BaseImage {
            vms: draft.vms,
            image: draft.image,
            shared: draft.shared,
            boot: draft.boot,
            theta: draft.theta,
        },
        "diurnal" => Pattern::Diurnal {
            theta: draft.theta,
            night: draft.night,
            day,
        },
        _ => Pattern::Uniform,
    };
    let smallest = grain(&part);
    let image = match &part.pattern {
        Pattern::BaseImage { image, .. } => *image,
        _ => part.footprint,
    };
    for (key, bytes) in [("footprint", part.footprint), ("image", image)] {
        if bytes < smallest || bytes.get() / BLOCK_BYTES > FOOTPRINT_BLOCKS_MAX {
            return Err(wrong(
                key,
                &bytes.to_string(),
                format!("at least one request of {smallest}, and at most 2^32 blocks of 4 KiB"),
            ));
        }
    }
    Ok(part)
}

/// The smallest request of a part: its random places are multiples of it.
pub(super) fn grain(part: &Part) -> Bytes {
    let sizes = part.sizes.iter().map(|(size, _)| *size);
    sizes.min().unwrap_or(Bytes::new(BLOCK_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Spec {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn refuse(text: &str) -> String {
        text.parse::<Spec>().expect_err(text).to_string()
    }

    #[test]
    fn a_text_has_kinds_with_keys() {
        let spec =
            parse("gen:zipf,blocks=1M,requests=10M,theta=0.8,seed=7+loop,footprint=1GiB,vm=b");
        assert_eq!(spec.seed, 7);
        assert_eq!(spec.parts.len(), 2);
        let [zipf, again] = &spec.parts[..] else {
            unreachable!("two parts")
        };
        assert_eq!(
            zipf.pattern,
            Pattern::Zipf {
                theta: 0.8,
                clustered: false
            }
        );
        assert_eq!(zipf.footprint, Bytes::new(4_096_000_000));
        assert_eq!((zipf.requests, zipf.vm.as_str()), (10_000_000, "vm1"));
        assert_eq!(again.pattern, Pattern::Loop);
        assert_eq!((again.footprint, again.vm.as_str()), (Bytes::gib(1), "b"));
    }

    #[test]
    fn zones_that_are_left_out_share_the_rest() {
        let spec = parse("zoned,zones=60/10:30/:10/");
        let Pattern::Zoned { zones } = &spec.parts[0].pattern else {
            unreachable!("it is zoned")
        };
        assert_eq!(
            zones.iter().map(|zone| zone.range).collect::<Vec<_>>(),
            [0.1, 0.45, 0.45]
        );
    }

    #[test]
    fn sizes_have_weights() {
        let spec = parse("uniform,size=4KiB:60/64KiB:40");
        assert_eq!(
            spec.parts[0].sizes,
            [(Bytes::kib(4), 60.0), (Bytes::kib(64), 40.0)]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (text, part) in [
            ("gen:zipff", "zipf, zoned"),
            ("gen:", "no kind"),
            (
                "loop,theta=1",
                "loop has no key 'theta'; its keys are requests",
            ),
            ("zipf,=3", "no key ''"),
            (
                "zipf,theta=x",
                "theta=x makes no sense: a number from 0 to 10",
            ),
            ("zipf,theta=nan", "from 0 to 10"),
            ("zipf,reads=1.5", "from 0 to 1"),
            ("zipf,blocks=0", "from 1"),
            ("zipf,blocks=1X", "10M (10^7)"),
            ("zipf,blocks=99999999999G", "from 1"),
            ("zipf,requests", "requests= makes no sense"),
            ("zipf,size=100B", "multiple of 512"),
            ("zipf,size=1GiB", "at most 256MiB"),
            ("zipf,size=4KiB:0", "must not be zero"),
            ("zipf,blocks=1,size=64KiB", "at least one request of 64KiB"),
            ("zoned", "needs its zones"),
            ("zoned,zones=60/10:30/20", "100 in all"),
            ("zoned,zones=60/10:60/90", "100 in all"),
            ("zipf,seed=1+zipf,seed=2", "whole trace"),
            ("zipf,vm=a b", "letters"),
            ("diurnal,period=0s", "a day takes time"),
            ("zipf,arrival=weekly", "fixed, poisson or diurnal"),
            ("base-image,vms=100k", "1 to 1024"),
        ] {
            let complaint = refuse(text);
            assert!(complaint.contains(part), "{text}: {complaint}");
        }
        assert!(refuse(&["loop"; 65].join("+")).contains("64 parts"));
    }
}
