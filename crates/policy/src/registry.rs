//! What the registries of all families have in common: one of many policies, chosen by name, with its
//! settings.
//!
//! ```text
//!   a family's registry.rs:  a line a policy ──► registry! ──► Spec ◄── parse ── "name:parameter=value"
//!                                    │                          │  └─── write ─► the same
//!                                    └──► the family's own macro, which puts the chosen one to work
//! ```
//!
//! A line is `module::Policy(Settings)`: the module has what is to be known of the policy (`ABOUT`),
//! the settings read and write its parameters ([`Settings`]). A family lists its lines in a macro
//! that hands them to another one, so that each policy has one line although two macros need it.
//!
//! [`Settings`]: crate::replacement::Settings

use std::fmt;

use crate::replacement::{About, BadValue, SpecError, nearest};

/// Makes the type `Spec` of a family from its lines: the policy of one line and its settings, read
/// from text and written as text. In it, for the family, is the enum `Chosen` with a variant a line.
///
/// A family may be in a crate of its own: its policies are described and set as those of this one.
#[macro_export]
macro_rules! registry {
    ($($module:ident :: $policy:ident ($settings:ty),)*) => {
        /// What was chosen, with its settings.
        #[derive(Clone, Debug, PartialEq, Eq)]
        enum Chosen {
            $($policy($settings),)*
        }

        /// One of the registered and its parameters: what `name:parameter=value,...` says.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Spec(Chosen);

        impl Spec {
            /// All that are registered, in the order in which messages list them.
            pub const ALL: &[&'static $crate::replacement::About] = &[$(&$module::ABOUT),*];

            /// What is to be known of it.
            pub fn about(&self) -> &'static $crate::replacement::About {
                match &self.0 {
                    $(Chosen::$policy(_) => &$module::ABOUT,)*
                }
            }
        }

        impl $crate::registry::Registered for Spec {
            const ALL: &'static [&'static $crate::replacement::About] = Self::ALL;

            fn by_name(name: &str) -> Option<Self> {
                match name {
                    $(_ if $module::ABOUT.is_called(name) => {
                        Some(Self(Chosen::$policy(<$settings>::default())))
                    })*
                    _ => None,
                }
            }

            fn about(&self) -> &'static $crate::replacement::About {
                self.about()
            }

            fn set(
                &mut self,
                name: &str,
                value: &str,
            ) -> Result<(), $crate::replacement::BadValue> {
                use $crate::replacement::Settings;
                match &mut self.0 {
                    $(Chosen::$policy(settings) => settings.set(name, value),)*
                }
            }

            fn get(&self, name: &str) -> String {
                use $crate::replacement::Settings;
                match &self.0 {
                    $(Chosen::$policy(settings) => settings.get(name),)*
                }
            }
        }

        impl std::str::FromStr for Spec {
            type Err = $crate::replacement::SpecError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::registry::Registered::parse(text)
            }
        }

        impl std::fmt::Display for Spec {
            /// The name, and the parameters that differ from their defaults.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::registry::Registered::write(self, f)
            }
        }
    };
}

pub(crate) use registry;

/// What a text chooses from a registry: a policy and its parameters.
pub trait Registered: Sized {
    /// Every policy, in the order in which messages list them.
    const ALL: &'static [&'static About];

    /// The policy of this name, with its parameters' defaults.
    fn by_name(name: &str) -> Option<Self>;

    /// What is to be known of it.
    fn about(&self) -> &'static About;

    /// Sets one of its parameters.
    ///
    /// # Errors
    /// If the parameter does not take this value.
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue>;

    /// The value of one of its parameters.
    fn get(&self, name: &str) -> String;

    /// Reads `name` or `name:parameter=value,parameter=value`.
    ///
    /// # Errors
    /// If no policy has this name, or it does not take what follows.
    fn parse(text: &str) -> Result<Self, SpecError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut spec = Self::by_name(name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|about| about.name).collect();
            SpecError::UnknownPolicy {
                name: name.to_owned(),
                nearest: nearest(name, &known),
                known,
            }
        })?;
        for part in settings.split(',').filter(|part| !part.is_empty()) {
            set_part(&mut spec, part)?;
        }
        Ok(spec)
    }

    /// Writes the name, and the parameters that differ from their defaults.
    ///
    /// # Errors
    /// If the formatter takes no more.
    ///
    /// # Panics
    /// If a registry does not find a policy by the name that the policy gives itself.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = self.about();
        let default = Self::by_name(about.name).expect("it is registered by its own name");
        f.write_str(about.name)?;
        let mut before = ':';
        for parameter in about.parameters {
            let value = self.get(parameter.name);
            if value != default.get(parameter.name) {
                write!(f, "{before}{}={value}", parameter.name)?;
                before = ',';
            }
        }
        Ok(())
    }
}

fn set_part<S: Registered>(spec: &mut S, part: &str) -> Result<(), SpecError> {
    let about = spec.about();
    let (name, value) = part.split_once('=').ok_or_else(|| SpecError::NoValue {
        policy: about.name,
        part: part.to_owned(),
    })?;
    let Some(parameter) = about.parameters.iter().find(|known| known.name == name) else {
        let known: Vec<_> = about
            .parameters
            .iter()
            .map(|parameter| parameter.name)
            .collect();
        return Err(SpecError::UnknownParameter {
            policy: about.name,
            name: name.to_owned(),
            nearest: nearest(name, &known),
            known,
        });
    };
    spec.set(name, value).map_err(|_| SpecError::BadValue {
        policy: about.name,
        parameter: parameter.name,
        value: value.to_owned(),
        takes: parameter.takes,
    })
}
