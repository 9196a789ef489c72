//! A policy behind admission: what may enter it, and the RAM that deciding takes.

use super::{Policy, PolicyError, daemon};
use policy::admission::Spec;
use std::fmt;
use std::str::FromStr;
use units::Bytes;

/// RAM for admission: addresses, and bytes of staged blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Staging {
    /// So many percent of the flash.
    Percent(f64),
    /// That much.
    Bytes(Bytes),
}

impl Default for Staging {
    /// A hundredth of the flash, the most that `CloudCache` gives it.
    fn default() -> Self {
        Self::Percent(1.0)
    }
}

/// The text is no amount of staging memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no staging memory: write a part of the flash up to 100% (1%) or a size (64MiB)")]
pub struct ParseStagingError(String);

impl Staging {
    /// The bytes beside that much flash.
    pub fn bytes(self, flash: Bytes) -> Bytes {
        match self {
            Self::Percent(percent) => {
                let part = crate::number::real(flash.get()) * percent / 100.0;
                Bytes::new(crate::number::count(part))
            }
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl FromStr for Staging {
    type Err = ParseStagingError;

    fn from_str(text: &str) -> Result<Self, ParseStagingError> {
        let error = || ParseStagingError(text.to_owned());
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(Self::Bytes).map_err(|_| error());
        };
        let percent: f64 = percent.parse().map_err(|_| error())?;
        if (0.0..=100.0).contains(&percent) {
            Ok(Self::Percent(percent))
        } else {
            Err(error())
        }
    }
}

impl fmt::Display for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

/// A policy with admission in front.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarded {
    /// What is behind it.
    pub(super) policy: Box<Policy>,
    /// What may enter.
    pub(super) admission: Spec,
    /// How the caller wrote that.
    pub(super) written: String,
    /// RAM for it.
    pub(super) staging: Staging,
}

/// What may enter a cache, as a word of `--admission`.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    spec: Spec,
    written: String,
}

impl Default for Admission {
    /// Everything may enter.
    fn default() -> Self {
        let written = "always".to_owned();
        let spec = written.parse().expect("it is registered by this name");
        Self { spec, written }
    }
}

impl Admission {
    /// The policies of a list such as `always,larc,staging:kind=data,n=2`.
    ///
    /// # Errors
    /// If one is not known, or does not have a parameter, or the parameter does not have the value.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, PolicyError> {
        let parts = policy::replacement::split_list(list);
        parts.iter().map(|text| text.parse()).collect()
    }

    /// The policy by itself.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
}

impl FromStr for Admission {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Ok(Self {
            spec: text.parse()?,
            written: text.to_owned(),
        })
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Policy {
    /// The same policy behind admission.
    ///
    /// # Errors
    /// If the policy admits by itself or is behind admission already.
    pub fn behind(&self, admission: &Admission, staging: Staging) -> Result<Self, PolicyError> {
        match self {
            Self::InPlace { .. } | Self::Custom(_) => Ok(Self::Guarded(Guarded {
                policy: Box::new(self.clone()),
                admission: admission.spec.clone(),
                written: admission.written.clone(),
                staging,
            })),
            Self::Daemon => Err(PolicyError::OfDaemon("other admission".to_owned())),
            Self::Segment { .. } | Self::Shared(_) | Self::Guarded(_) | Self::Divided(_) => {
                Err(PolicyError::Admission(self.to_string()))
            }
        }
    }

    /// The admission in front, as it was written; none lets everything in.
    pub fn admission(&self) -> Option<String> {
        match self {
            Self::Guarded(guarded) => Some(guarded.written.clone()),
            Self::Divided(divided) => Some(divided.admission().to_owned()),
            Self::Daemon => Some(daemon::words().0),
            _ => None,
        }
    }

    /// What divides the cache among VMs; nothing does, or the policy does by itself.
    pub fn allocation(&self) -> Option<String> {
        match self {
            Self::Divided(divided) => divided.allocation(),
            Self::Daemon => Some(daemon::words().1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_is_a_part_of_the_flash_or_a_size() {
        let flash = Bytes::gib(1);
        for (text, bytes) in [("1%", 10_737_418), ("64MiB", 64 << 20), ("0%", 0)] {
            let staging: Staging = text.parse().unwrap();
            assert_eq!(staging.bytes(flash).get(), bytes);
            assert_eq!(staging.to_string(), text);
        }
        for text in ["", "101%", "-1%", "much", "nan%"] {
            assert!(text.parse::<Staging>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_replaces_in_place_can_have_admission_in_front_and_shared_blocks_cannot() {
        let always: Admission = "always".parse().unwrap();
        let behind = |text: &str| {
            let policy: Policy = text.parse().unwrap();
            policy.behind(&always, Staging::default())
        };
        let lru = behind("lru").unwrap();
        assert_eq!(
            (lru.to_string().as_str(), lru.admission()),
            ("lru", Some("always".to_owned()))
        );
        let message = behind("s-cave").unwrap_err().to_string();
        assert!(message.contains("s-cave"), "{message}");
    }
}
