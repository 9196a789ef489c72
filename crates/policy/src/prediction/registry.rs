//! The methods by name: a line each.

use super::{Predictor, dexp, dexp_self, exp, exp_self, last};
use crate::replacement::{About, BadValue, Registered, Settings, SpecError};
use std::fmt;
use std::str::FromStr;

/// For each line an entry in [`Spec::ALL`] and a variant of [`Chosen`], built with its own settings.
macro_rules! registry {
    ($($module:ident :: $method:ident,)*) => {
        /// A method that was chosen, with its settings.
        #[derive(Clone, Debug, PartialEq, Eq)]
        enum Chosen {
            $($method($module::Config),)*
        }

        impl Spec {
            /// Every method, in the order in which messages list them.
            pub const ALL: &[&'static About] = &[$(&$module::ABOUT),*];

            /// What is to be known of it.
            pub fn about(&self) -> &'static About {
                match &self.0 {
                    $(Chosen::$method(_) => &$module::ABOUT,)*
                }
            }

            /// The method at work on a new series.
            pub fn build(&self) -> Box<dyn Predictor> {
                match &self.0 {
                    $(Chosen::$method(config) => Box::new($module::$method::new(config)),)*
                }
            }
        }

        impl Registered for Spec {
            const ALL: &'static [&'static About] = Self::ALL;

            fn by_name(name: &str) -> Option<Self> {
                match name {
                    $(_ if $module::ABOUT.is_called(name) => {
                        Some(Self(Chosen::$method($module::Config::default())))
                    })*
                    _ => None,
                }
            }

            fn about(&self) -> &'static About {
                self.about()
            }

            fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
                match &mut self.0 {
                    $(Chosen::$method(config) => config.set(name, value),)*
                }
            }

            fn get(&self, name: &str) -> String {
                match &self.0 {
                    $(Chosen::$method(config) => config.get(name),)*
                }
            }
        }
    };
}

registry! {
    last::Last,
    exp::Exp,
    dexp::Dexp,
    exp_self::ExpSelf,
    dexp_self::DexpSelf,
}

/// A method of prediction and its parameters: what `name:parameter=value,...` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec(Chosen);

impl Default for Spec {
    /// The paper's choice and ours: `exp-self`.
    fn default() -> Self {
        Self(Chosen::ExpSelf(exp_self::Config))
    }
}

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
    fn every_method_is_found_and_written_by_its_name() {
        for about in Spec::ALL {
            let spec: Spec = about.name.parse().unwrap();
            assert_eq!(spec.to_string(), about.name);
        }
        assert_eq!(Spec::default().to_string(), "exp-self");
        let spec: Spec = "dexp:alpha=0.5,beta=0.3".parse().unwrap();
        assert_eq!(spec.to_string(), "dexp:alpha=0.5");
        assert!("exp:alpha=2".parse::<Spec>().is_err());
        assert!("exp:beta=0.1".parse::<Spec>().is_err());
    }

    /// One conformance body for every method.
    #[test]
    fn a_constant_series_is_predicted_and_nothing_is_predicted_below_zero() {
        for about in Spec::ALL {
            let spec: Spec = about.name.parse().unwrap();
            let mut method = spec.build();
            assert_eq!(method.predicted(), None, "{}", about.name);
            for _ in 0..100 {
                method.observe(700.0);
            }
            let predicted = method.predicted().unwrap();
            assert!((predicted - 700.0).abs() < 1e-6, "{}", about.name);
            for value in [400.0, 100.0, 0.0, 0.0] {
                method.observe(value);
                assert!(method.predicted().unwrap() >= 0.0, "{}", about.name);
            }
        }
    }
}
