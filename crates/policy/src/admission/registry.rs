//! The policies by name: a line each.

use std::fmt;
use std::str::FromStr;

use units::Bytes;

use super::sequential::{CUTOFF, Cutoff, parse_cutoff, write_cutoff};
use super::{Admission, Share};
use super::{always, frequency, hec, larc, probation, reuse_age, staging};
use crate::replacement::{About, BadValue, Key, Registered, Settings, SpecError};

/// Parameters of an admission policy. All have the cut-off, which is not the policy's own.
pub trait Configured: Settings {
    /// The cut-off unless another one is set.
    const CUTOFF: Option<Bytes> = None;
}

const fn cutoff_of<C: Configured>() -> Option<Bytes> {
    C::CUTOFF
}

/// For each line an entry in [`Spec::ALL`] and a variant of [`Chosen`], built with its own settings.
macro_rules! registry {
    ($($module:ident :: $policy:ident,)*) => {
        /// A policy that was chosen, with its settings.
        #[derive(Clone, Debug, PartialEq, Eq)]
        enum Chosen {
            $($policy($module::Config),)*
        }

        impl Spec {
            /// Every policy, in the order in which messages list them.
            pub const ALL: &[&'static About] = &[$(&$module::ABOUT),*];

            /// What is to be known of it.
            pub fn about(&self) -> &'static About {
                match &self.chosen {
                    $(Chosen::$policy(_) => &$module::ABOUT,)*
                }
            }

            /// The policy at work for a tenant with this share.
            pub fn build<K: Key>(&self, share: Share) -> Box<dyn Admission<K>> {
                match &self.chosen {
                    $(Chosen::$policy(config) => {
                        self.finish($module::$policy::new(config, share))
                    })*
                }
            }
        }

        impl Registered for Spec {
            const ALL: &'static [&'static About] = Self::ALL;

            fn by_name(name: &str) -> Option<Self> {
                match name {
                    $(_ if $module::ABOUT.is_called(name) => Some(Self {
                        chosen: Chosen::$policy($module::Config::default()),
                        cutoff: cutoff_of::<$module::Config>(),
                    }),)*
                    _ => None,
                }
            }

            fn about(&self) -> &'static About {
                self.about()
            }

            fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
                if name == CUTOFF.name {
                    self.cutoff = parse_cutoff(value)?;
                    return Ok(());
                }
                match &mut self.chosen {
                    $(Chosen::$policy(config) => config.set(name, value),)*
                }
            }

            fn get(&self, name: &str) -> String {
                if name == CUTOFF.name {
                    return write_cutoff(self.cutoff);
                }
                match &self.chosen {
                    $(Chosen::$policy(config) => config.get(name),)*
                }
            }
        }
    };
}

registry! {
    always::Always,
    staging::Staging,
    larc::Larc,
    hec::Hec,
    frequency::Frequency,
    probation::Probation,
    reuse_age::ReuseAge,
}

/// A policy and its parameters: what `name:parameter=value,...` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    chosen: Chosen,
    /// Runs longer than this are refused.
    cutoff: Option<Bytes>,
}

impl Spec {
    fn finish<K: Key, A: Admission<K> + 'static>(&self, policy: A) -> Box<dyn Admission<K>> {
        match self.cutoff {
            None => Box::new(policy),
            Some(over) => Box::new(Cutoff { over, policy }),
        }
    }

    /// Whether it needs memory to tell blocks apart: without any it would let nothing in.
    pub const fn remembers(&self) -> bool {
        !matches!(self.chosen, Chosen::Always(_))
    }

    /// A parameter's value as text, by its name in [`About::parameters`]; `None` if it has no such.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut parameters = self.about().parameters.iter();
        parameters
            .any(|parameter| parameter.name == name)
            .then(|| self.get(name))
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text)
    }
}

impl fmt::Display for Spec {
    /// The name, and the parameters that differ from their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}
