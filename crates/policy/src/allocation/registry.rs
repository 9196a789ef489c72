//! The allocators by name: a line each.

use super::{Allocator, equal, rcrs, rcrs_plus, recs, rwss, static_shares, utility, wss};
use crate::replacement::{About, BadValue, Registered, Settings, SpecError};
use std::fmt;
use std::str::FromStr;

/// For each line an entry in [`Spec::ALL`] and a variant of [`Chosen`].
macro_rules! registry {
    ($($module:ident :: $allocator:ident,)*) => {
        /// An allocator that was chosen, which is its own settings.
        #[derive(Clone, Debug, PartialEq, Eq)]
        enum Chosen {
            $($allocator($module::$allocator),)*
        }

        impl Spec {
            /// Every allocator, in the order in which messages list them.
            pub const ALL: &[&'static About] = &[$(&$module::ABOUT),*];

            /// What is to be known of it.
            pub fn about(&self) -> &'static About {
                match &self.0 {
                    $(Chosen::$allocator(_) => &$module::ABOUT,)*
                }
            }

            pub(super) fn allocator(&self) -> &dyn Allocator {
                match &self.0 {
                    $(Chosen::$allocator(allocator) => allocator,)*
                }
            }
        }

        impl Registered for Spec {
            const ALL: &'static [&'static About] = Self::ALL;

            fn by_name(name: &str) -> Option<Self> {
                match name {
                    $(_ if $module::ABOUT.is_called(name) => {
                        Some(Self(Chosen::$allocator($module::$allocator::default())))
                    })*
                    _ => None,
                }
            }

            fn about(&self) -> &'static About {
                self.about()
            }

            fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
                match &mut self.0 {
                    $(Chosen::$allocator(allocator) => allocator.set(name, value),)*
                }
            }

            fn get(&self, name: &str) -> String {
                match &self.0 {
                    $(Chosen::$allocator(allocator) => allocator.get(name),)*
                }
            }
        }
    };
}

registry! {
    equal::Equal,
    static_shares::Static,
    wss::Wss,
    rwss::Rwss,
    recs::Recs,
    rcrs::Rcrs,
    rcrs_plus::RcrsPlus,
    utility::Utility,
}

/// An allocator and its parameters: what `name:parameter=value,...` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec(Chosen);

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        <Self as Registered>::parse(text)
    }
}

impl fmt::Display for Spec {
    /// The name, and the parameters that differ from their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allocator_is_found_and_written_by_its_name() {
        for about in Spec::ALL {
            let spec: Spec = about.name.parse().unwrap();
            assert_eq!(spec.to_string(), about.name);
            for other in about.other_names {
                assert_eq!(other.parse(), Ok(spec.clone()));
            }
        }
        let spec: Spec = "s-cave:step=0.05".parse().unwrap();
        assert_eq!(spec.to_string(), "recs:step=0.05");
        assert!("recs:step=0".parse::<Spec>().is_err());
        assert!("equal:step=0.1".parse::<Spec>().is_err());
    }
}
