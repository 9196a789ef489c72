//! Caches over blocks that VMs share, by name: S-CAVE and the poster's three, each with a partition metric.

use policy::allocation;
use policy::replacement::t_clock::Rule;
use policy::replacement::{About, BadValue, Parameter, SpecError, nearest};
use std::fmt;

/// A policy over shared blocks with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What a hand takes.
    pub rule: Rule,
    /// What moves space; nothing does if there is none, and shares stay equal.
    pub metric: Option<allocation::Spec>,
    /// Accesses between two moves; as many as the cache has blocks if not said.
    pub interval: Option<u64>,
    /// How the caller wrote it.
    written: String,
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "metric",
        meaning: "what VMs are compared by when space moves",
        takes: "none, recs, rcrs or rcrs-plus",
    },
    Parameter {
        name: "interval",
        meaning: "accesses between two moves; by default as many as the cache has blocks",
        takes: "a number from 1",
    },
    Parameter {
        name: "step",
        meaning: "the part of the cache that is moved at once; by default 0.02",
        takes: "a number from 0.0001 to 1",
    },
];

/// The metrics; each is an allocator of its name.
const METRICS: [&str; 3] = ["recs", "rcrs", "rcrs-plus"];
const POSTER: &str = "D.-H. Song, Y. Lee, J.-S. Kim, \"Improving flash cache management for virtualized systems\", poster, 2014";

const fn about(name: &'static str, paper: &'static str) -> About {
    About {
        name,
        other_names: &[],
        paper,
        queues: &[("blocks", "an array; a hand and a share for each VM")],
        parameters: PARAMETERS,
        knows_future: false,
    }
}

/// The policies: a line each.
pub(super) const SHARED_POLICIES: [(Rule, &str, About); 4] = [
    (
        Rule::Private,
        "recs",
        about(
            "s-cave",
            "T. Luo et al., \"S-CAVE: effective SSD caching to improve virtual machine storage performance\", PACT'13",
        ),
    ),
    (Rule::Clock, "rcrs", about("shr-clock", POSTER)),
    (Rule::References, "rcrs", about("shr-ref", POSTER)),
    (Rule::TClock, "rcrs", about("shr-tclock", POSTER)),
];

impl Settings {
    /// The policy of that text, if its name is one of these.
    pub(super) fn parse(text: &str) -> Option<Result<Self, SpecError>> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let found = SHARED_POLICIES.iter();
        let (rule, metric, about) = found.into_iter().find(|(.., about)| about.name == name)?;
        let mut draft = Draft {
            metric,
            interval: None,
            step: None,
        };
        for part in parameters.split(',').filter(|part| !part.is_empty()) {
            if let Err(error) = draft.set_part(about.name, part) {
                return Some(Err(error));
            }
        }
        let settings = draft.metric().map(|metric| Self {
            rule: *rule,
            metric,
            interval: draft.interval,
            written: text.to_owned(),
        });
        Some(settings)
    }
}

/// Parameters as they are read.
struct Draft<'a> {
    metric: &'a str,
    interval: Option<u64>,
    step: Option<&'a str>,
}

impl<'a> Draft<'a> {
    fn metric(&self) -> Result<Option<allocation::Spec>, SpecError> {
        if self.metric == "none" {
            return Ok(None);
        }
        let step = self.step.map(|step| format!(":step={step}"));
        let text = format!("{}{}", self.metric, step.unwrap_or_default());
        text.parse().map(Some)
    }

    fn set_part(&mut self, policy: &'static str, part: &'a str) -> Result<(), SpecError> {
        let (name, value) = part.split_once('=').ok_or_else(|| SpecError::NoValue {
            policy,
            part: part.to_owned(),
        })?;
        let known: Vec<&'static str> = PARAMETERS.iter().map(|known| known.name).collect();
        let parameter = PARAMETERS.iter().find(|known| known.name == name);
        let parameter = parameter.ok_or_else(|| SpecError::UnknownParameter {
            policy,
            name: name.to_owned(),
            nearest: nearest(name, &known),
            known,
        })?;
        self.set(name, value).map_err(|_| SpecError::BadValue {
            policy,
            parameter: parameter.name,
            value: value.to_owned(),
            takes: parameter.takes,
        })
    }

    fn set(&mut self, name: &str, value: &'a str) -> Result<(), BadValue> {
        match name {
            "metric" => {
                let known = METRICS.iter().chain(&["none"]);
                self.metric = known
                    .copied()
                    .find(|known| *known == value)
                    .ok_or(BadValue)?;
            }
            "interval" => {
                let accesses = value.parse().ok().filter(|accesses| *accesses > 0);
                self.interval = Some(accesses.ok_or(BadValue)?);
            }
            _ => {
                self.step = Some(value);
            }
        }
        Ok(())
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_mistakes_named() {
        let parse = |text| Settings::parse(text).expect("its name is known");
        let settings = parse("shr-tclock:metric=rcrs-plus,interval=500,step=0.05").unwrap();
        let metric = |settings: &Settings| settings.metric.as_ref().map(ToString::to_string);
        assert_eq!(metric(&settings).as_deref(), Some("rcrs-plus:step=0.05"));
        assert_eq!(settings.interval, Some(500));
        assert_eq!(metric(&parse("s-cave").unwrap()).as_deref(), Some("recs"));
        assert_eq!(metric(&parse("shr-ref:metric=none").unwrap()), None);
        assert!(Settings::parse("lru").is_none());
        for (text, expected) in [
            ("s-cave:metric=size", "none, recs, rcrs or rcrs-plus"),
            ("s-cave:interval=0", "from 1"),
            ("s-cave:intervall=5", "did you mean 'interval'"),
            ("s-cave:step=0", "from 0.0001 to 1"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
