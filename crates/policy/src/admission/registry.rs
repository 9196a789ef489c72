//! The policies by name: a line each.

use units::Bytes;

use super::sequential::{CUTOFF, Cutoff, parse_cutoff, write_cutoff};
use super::{Admission, Share};
use super::{always, frequency, hec, larc, probation, reuse_age, staging};
use crate::registry::{Registered, registry};
use crate::replacement::{BadValue, Key, Settings};

/// Parameters of an admission policy. All have the cut-off, which is not the policy's own.
pub trait Configured: Settings {
    /// The cut-off unless another one is set.
    const CUTOFF: Option<Bytes> = None;
}

/// A policy's parameters and the cut-off.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut<C> {
    config: C,
    /// Runs longer than this are refused.
    over: Option<Bytes>,
}

impl<C: Configured> Default for Cut<C> {
    fn default() -> Self {
        Self {
            config: C::default(),
            over: C::CUTOFF,
        }
    }
}

impl<C: Configured> Settings for Cut<C> {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        if name == CUTOFF.name {
            self.over = parse_cutoff(value)?;
            return Ok(());
        }
        self.config.set(name, value)
    }

    fn get(&self, name: &str) -> String {
        if name == CUTOFF.name {
            return write_cutoff(self.over);
        }
        self.config.get(name)
    }
}

impl<C> Cut<C> {
    /// This policy, which does not hear of what is cut off.
    fn over<K: Key>(&self, policy: impl Admission<K> + 'static) -> Box<dyn Admission<K>> {
        match self.over {
            None => Box::new(policy),
            Some(over) => Box::new(Cutoff { over, policy }),
        }
    }
}

/// The policies, for a macro that makes something of each.
macro_rules! policies {
    ($with:ident) => {
        $with! {
            always::Always(Cut<always::Config>),
            staging::Staging(Cut<staging::Config>),
            larc::Larc(Cut<larc::Config>),
            hec::Hec(Cut<hec::Config>),
            frequency::Frequency(Cut<frequency::Config>),
            probation::Probation(Cut<probation::Config>),
            reuse_age::ReuseAge(Cut<reuse_age::Config>),
        }
    };
}

policies!(registry);

macro_rules! build {
    ($($module:ident :: $policy:ident ($settings:ty),)*) => {
        impl Spec {
            /// The policy at work for a tenant with this share.
            pub fn build<K: Key>(&self, share: Share) -> Box<dyn Admission<K>> {
                match &self.0 {
                    $(Chosen::$policy(cut) => {
                        cut.over($module::$policy::new(&cut.config, share))
                    })*
                }
            }
        }
    };
}

policies!(build);

impl Spec {
    /// Whether it needs memory to tell blocks apart: without any it would let nothing in.
    pub const fn remembers(&self) -> bool {
        !matches!(self.0, Chosen::Always(_))
    }

    /// A parameter's value as text, by its name in [`About::parameters`]; `None` if it has no such.
    ///
    /// [`About::parameters`]: crate::replacement::About::parameters
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut parameters = self.about().parameters.iter();
        parameters
            .any(|parameter| parameter.name == name)
            .then(|| self.get(name))
    }
}
