//! The policies that can be simulated, by name: those that replace in place, and the daemon's own log of
//! segments, and any that the caller brings.

mod custom;
mod daemon;
mod divided;
mod guarded;
pub(crate) mod shared;

pub use crate::cache::divided::Tenants;
pub use custom::Custom;
pub use divided::{Divided, Host};
pub use guarded::{Admission, Guarded, ParseStagingError, Staging};
pub use shared::Settings as SharedSettings;

use crate::cache::admitted::Admitted;
use crate::cache::in_place::{Blocks, InPlace};
use crate::cache::segments::{Segments, segment_for};
use crate::cache::shared::Shared;
use crate::cache::{CacheModel, Maker};
use crate::memory::{self, Facts};
use crate::write_policy::WritePolicy;
use flash_format::{FormatError, Geometry};
use policy::admission::Share;
use policy::reclaim::Kind;
use policy::replacement::{
    About, BadCapacity, Capacity, Dense, Parameter, Setup, Spec, SpecError, nearest, split_list,
};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use units::Bytes;

/// A policy with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Blocks stay where they are written.
    InPlace {
        /// Which, with its parameters.
        spec: Spec,
        /// How the caller wrote it: a script finds its own names in the answer.
        written: String,
    },
    /// What `hearth serve` does by default.
    Daemon,
    /// The daemon's log.
    Segment {
        /// How it reclaims.
        kind: Kind,
        /// The size of its segments; chosen by the size of the cache if not said.
        segment: Option<Bytes>,
    },
    /// Blocks that VMs share stay where they are written, and space moves between VMs.
    Shared(SharedSettings),
    /// The caller's own code, over blocks that stay where they are written.
    Custom(Custom),
    /// One of the above behind an admission policy.
    Guarded(Guarded),
    /// One of the above with the daemon's tenancy in front.
    Divided(Box<Divided>),
}

/// The daemon's log under each way to reclaim: a line each.
const SEGMENT_POLICIES: [(Kind, About); 3] = [
    (
        Kind::TwinClock,
        segment_about(
            "segment-twin-clock",
            "the daemon's own: a log of segments that spares warm segments where they lie",
        ),
    ),
    (
        Kind::Clock,
        segment_about(
            "segment-clock",
            "the daemon's log of segments, reclaiming the oldest and keeping what was read since",
        ),
    ),
    (
        Kind::Fifo,
        segment_about(
            "segment-fifo",
            "the daemon's log of segments, reclaiming the oldest and keeping nothing",
        ),
    ),
];

const fn segment_about(name: &'static str, paper: &'static str) -> About {
    About {
        name,
        other_names: &[],
        paper,
        queues: &[
            (
                "new",
                "segments of blocks that came in, by the time of opening",
            ),
            ("survivors", "segments of blocks that reclaim kept"),
        ],
        parameters: &[SEGMENT],
        knows_future: false,
    }
}

const SEGMENT: Parameter = Parameter {
    name: "segment",
    meaning: "size of a segment; by default the one that wastes least, 4MiB at most",
    takes: "a power of two from 64KiB to 16MiB",
};

/// Why a text is no policy, or a policy cannot be had as it is asked for.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The text is none.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The size does not suit any policy.
    #[error(transparent)]
    Capacity(#[from] BadCapacity),
    /// The size does not suit the daemon's log.
    #[error("the daemon's log cannot be had so")]
    Log(#[from] FormatError),
    /// The daemon's blocks have one size.
    #[error("the daemon's log has blocks of 4KiB, not of {0}")]
    Block(Bytes),
    /// Admission cannot be put in front.
    #[error("{0} takes no admission in front: it is for policies that replace in place")]
    Admission(String),
    /// It cannot be divided among VMs.
    #[error("{0} cannot be divided among VMs: lru and the daemon's log can")]
    Undivided(String),
    /// A budget that lets nothing in.
    #[error(transparent)]
    Budget(#[from] policy::admission::budget::BudgetError),
    /// What is to divide it contradicts itself.
    #[error("the cache cannot be divided so")]
    Settings(#[from] tenancy::SettingsError),
    /// The daemon's defaults are changed in its log, with what stands in front said one by one.
    #[error(
        "daemon is what hearth serve does by default and takes no {0}: take segment-twin-clock with --admission, \
         --allocation, --staging and --fill, which say one by one what daemon has"
    )]
    OfDaemon(String),
    /// Caches that only papers have are simulated without write-back.
    #[error(
        "LRU lists of VMs, and VMs that share blocks, have no log on flash, which the daemon's write-back needs"
    )]
    WriteBack,
    /// A dirty log takes every write.
    #[error("the daemon's log takes every write under back, so that no write goes past it")]
    LoggedWrites,
}

/// A policy as a list shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Known {
    /// What `--policy` takes.
    pub name: &'static str,
    /// Its parameters.
    pub parameters: Vec<KnownParameter>,
    /// Its queues, and what is in each.
    pub queues: Vec<String>,
    /// Where it was published.
    pub paper: &'static str,
}

/// A parameter as a list shows it.
#[derive(Clone, Debug, Serialize)]
pub struct KnownParameter {
    /// What is written before the `=`.
    pub name: &'static str,
    /// What it sets.
    pub meaning: &'static str,
    /// Which values it takes.
    pub takes: &'static str,
}

/// Every policy, in the order in which messages list them.
pub fn known() -> Vec<Known> {
    let as_listed = |about: &About| Known {
        name: about.name,
        parameters: about
            .parameters
            .iter()
            .map(|parameter| KnownParameter {
                name: parameter.name,
                meaning: parameter.meaning,
                takes: parameter.takes,
            })
            .collect(),
        queues: about
            .queues
            .iter()
            .map(|(name, what)| format!("{name}: {what}"))
            .collect(),
        paper: about.paper,
    };
    let daemon = std::iter::once(&daemon::ABOUT);
    let in_place = Spec::ALL.iter().copied();
    let segments = SEGMENT_POLICIES.iter().map(|(_, about)| about);
    let shared = shared::SHARED_POLICIES.iter().map(|(.., about)| about);
    daemon
        .chain(in_place)
        .chain(segments)
        .chain(shared)
        .map(as_listed)
        .collect()
}

impl Policy {
    /// The policies of a list such as `lru,s3-fifo:small=0.2,ghosts=1,segment-clock`.
    ///
    /// # Errors
    /// If one is not known, or does not have a parameter, or the parameter does not have the value.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, PolicyError> {
        split_list(list).iter().map(|text| text.parse()).collect()
    }

    /// The daemon's log as it reclaims by default, with nothing in front.
    pub fn of_log() -> Self {
        Self::Segment {
            kind: Kind::default(),
            segment: None,
        }
    }

    /// Whether it is the daemon's log of segments, whose reclaim writes to flash.
    pub fn is_log(&self) -> bool {
        match self {
            Self::Daemon | Self::Segment { .. } => true,
            Self::Divided(divided) => divided.is_log(),
            Self::InPlace { .. } | Self::Shared(_) | Self::Custom(_) | Self::Guarded(_) => false,
        }
    }

    /// Whether a cache of that many blocks can be had: the daemon's log needs some segments.
    pub fn takes(&self, blocks: u32) -> bool {
        let segment = match self {
            Self::Segment { segment, .. } => *segment,
            _ => None,
        };
        let segment = segment.unwrap_or_else(|| segment_for(blocks));
        blocks > 0 && (!self.is_log() || Geometry::of_slots(blocks, segment).is_ok())
    }

    /// Whether it wants the next use of each access.
    pub fn knows_the_future(&self) -> bool {
        match self {
            Self::InPlace { spec, .. } => spec.about().knows_future,
            Self::Daemon
            | Self::Segment { .. }
            | Self::Shared(_)
            | Self::Custom(_)
            | Self::Divided(_) => false,
            Self::Guarded(guarded) => guarded.policy.knows_the_future(),
        }
    }

    /// Bytes of a cache of that many blocks, estimated.
    pub(crate) fn memory(&self, blocks: u64, facts: &Facts) -> u64 {
        match self {
            Self::InPlace { .. } | Self::Custom(_) => memory::IN_PLACE.of(blocks, facts),
            Self::Guarded(_) => memory::ADMITTED.of(blocks, facts),
            Self::Segment { .. } => memory::LOG.of(blocks, facts),
            Self::Shared(_) => memory::IN_PLACE.of(blocks, facts) + memory::of_vms(facts),
            Self::Daemon => memory::DIVIDED.of(blocks, facts) + memory::of_vms(facts),
            Self::Divided(divided) => divided.memory(blocks, facts),
        }
    }

    /// The policy at work over blocks that stay where they are written; `None` if it is of another kind.
    fn blocks(&self, maker: &Maker) -> Result<Option<Blocks>, PolicyError> {
        match self {
            Self::InPlace { spec, .. } => {
                let setup = Setup {
                    capacity: Capacity::new(maker.blocks.into())?,
                    index: Dense::new(),
                    future: maker.future.as_ref().map(|future| future.0.clone()),
                };
                Ok(Some(spec.build(setup)))
            }
            Self::Custom(custom) => Ok(Some(custom.build(maker.blocks))),
            Self::Daemon
            | Self::Segment { .. }
            | Self::Shared(_)
            | Self::Guarded(_)
            | Self::Divided(_) => Ok(None),
        }
    }

    pub(crate) fn build(&self, maker: &Maker) -> Result<Box<dyn CacheModel>, PolicyError> {
        if let Some(blocks) = self.blocks(maker)? {
            let (policy, miss) = (maker.write_policy, maker.write_miss);
            return Ok(Box::new(InPlace::new(blocks, policy, miss)));
        }
        match self {
            Self::Daemon => {
                Capacity::new(maker.blocks.into())?;
                daemon::build(maker)
            }
            Self::Segment { kind, segment } => Ok(Box::new(Segments::new(*kind, *segment, maker)?)),
            Self::Shared(settings) => {
                if maker.write_policy == WritePolicy::Back {
                    return Err(PolicyError::WriteBack);
                }
                Capacity::new(maker.blocks.into())?;
                Ok(Box::new(Shared::new(settings, maker)))
            }
            Self::Guarded(guarded) => {
                let blocks = guarded.policy.blocks(maker)?;
                let blocks = blocks.ok_or_else(|| PolicyError::Admission(self.to_string()))?;
                let flash = Bytes::new(u64::from(maker.blocks) * maker.block.get());
                let share = Share::new(maker.blocks.into(), guarded.staging.bytes(flash));
                let admission = guarded.admission.build(share);
                Ok(Box::new(Admitted::new(blocks, admission, maker)))
            }
            Self::Divided(divided) => {
                Capacity::new(maker.blocks.into())?;
                divided.build(maker)
            }
            Self::InPlace { .. } | Self::Custom(_) => unreachable!("built above"),
        }
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        if name == daemon::ABOUT.name {
            return without_parameters(settings).map(|()| Self::Daemon);
        }
        if let Some(shared) = SharedSettings::parse(text) {
            return Ok(Self::Shared(shared?));
        }
        let of_log = SEGMENT_POLICIES
            .iter()
            .find(|(_, about)| about.name == name);
        match of_log {
            Some((kind, about)) => Ok(Self::Segment {
                kind: *kind,
                segment: segment(about.name, settings)?,
            }),
            None => text
                .parse()
                .map(|spec| Self::InPlace {
                    spec,
                    written: text.to_owned(),
                })
                .map_err(|error| match error {
                    SpecError::UnknownPolicy { name, .. } => unknown(name).into(),
                    other => other.into(),
                }),
        }
    }
}

/// The daemon's own settings are not changed here: then it would be another policy.
fn without_parameters(settings: &str) -> Result<(), PolicyError> {
    match settings.split(['=', ',']).next() {
        None | Some("") => Ok(()),
        Some(name) => Err(PolicyError::OfDaemon(name.to_owned())),
    }
}

/// The size of a segment that the parameters of a policy of the daemon's log say.
fn segment(policy: &'static str, settings: &str) -> Result<Option<Bytes>, SpecError> {
    let mut segment = None;
    for part in settings.split(',').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| SpecError::NoValue {
            policy,
            part: part.to_owned(),
        })?;
        if name != SEGMENT.name {
            return Err(SpecError::UnknownParameter {
                policy,
                name: name.to_owned(),
                nearest: nearest(name, &[SEGMENT.name]),
                known: vec![SEGMENT.name],
            });
        }
        let sizes = flash_format::SEGMENT_BYTES_MIN..=flash_format::SEGMENT_BYTES_MAX;
        let size: Option<Bytes> = value.parse().ok();
        let fits = |size: &Bytes| size.get().is_power_of_two() && sizes.contains(size);
        segment = Some(size.filter(fits).ok_or_else(|| SpecError::BadValue {
            policy,
            parameter: SEGMENT.name,
            value: value.to_owned(),
            takes: SEGMENT.takes,
        })?);
    }
    Ok(segment)
}

/// No policy has this name; those of the log are among those that could have been meant.
fn unknown(name: String) -> SpecError {
    let names: Vec<&'static str> = known().iter().map(|policy| policy.name).collect();
    SpecError::UnknownPolicy {
        nearest: nearest(&name, &names),
        name,
        known: names,
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InPlace { written, .. } => f.write_str(written),
            Self::Daemon => f.write_str(daemon::ABOUT.name),
            Self::Segment { kind, segment } => {
                let named = SEGMENT_POLICIES.iter().find(|(other, _)| other == kind);
                f.write_str(named.map_or("segment", |(_, about)| about.name))?;
                match segment {
                    Some(size) => write!(f, ":{}={size}", SEGMENT.name),
                    None => Ok(()),
                }
            }
            Self::Shared(settings) => settings.fmt(f),
            Self::Custom(custom) => custom.fmt(f),
            Self::Guarded(guarded) => guarded.policy.fmt(f),
            Self::Divided(divided) => f.write_str(divided.policy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_prints_as_it_was_written() {
        for written in [
            "s3fifo",
            "s3-fifo",
            "twoq:kin=0.3",
            "segment-clock:segment=1MiB",
        ] {
            assert_eq!(written.parse::<Policy>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn every_known_policy_parses_and_prints_as_its_name() {
        for policy in known() {
            let parsed: Policy = policy.name.parse().unwrap();
            assert_eq!(parsed.to_string(), policy.name);
        }
        let text = "segment-fifo:segment=1MiB";
        assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
    }

    #[test]
    fn every_way_to_reclaim_has_its_line() {
        for kind in Kind::ALL {
            assert!(
                SEGMENT_POLICIES.iter().any(|(other, _)| *other == kind),
                "{kind}"
            );
        }
    }

    #[test]
    fn a_list_may_mix_both_kinds() {
        let list = Policy::parse_list("lru,segment-clock:segment=64KiB,fifo").unwrap();
        let names: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["lru", "segment-clock:segment=64KiB", "fifo"]);
    }

    #[test]
    fn mistakes_name_what_could_have_been_meant() {
        for (text, expected) in [
            ("segment-clok", "did you mean 'segment-clock'?"),
            ("lruu", "did you mean 'lru'?"),
            ("magic", "segment-fifo"),
            ("segment-clock:size=1MiB", "it has segment"),
            ("segment-clock:segment=3MiB", "a power of two"),
            ("segment-clock:segment", "name=value"),
        ] {
            let message = text.parse::<Policy>().unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
