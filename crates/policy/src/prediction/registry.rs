//! The methods by name: a line each.

use super::{Predictor, dexp, dexp_self, exp, exp_self, last};
use crate::registry::registry;

/// The methods, for a macro that makes something of each.
macro_rules! methods {
    ($with:ident) => {
        $with! {
            last::Last(last::Config),
            exp::Exp(exp::Config),
            dexp::Dexp(dexp::Config),
            exp_self::ExpSelf(exp_self::Config),
            dexp_self::DexpSelf(dexp_self::Config),
        }
    };
}

methods!(registry);

macro_rules! build {
    ($($module:ident :: $method:ident ($settings:ty),)*) => {
        impl Spec {
            /// The method at work on a new series.
            pub fn build(&self) -> Box<dyn Predictor> {
                match &self.0 {
                    $(Chosen::$method(config) => Box::new($module::$method::new(config)),)*
                }
            }
        }
    };
}

methods!(build);

impl Default for Spec {
    /// The paper's choice and ours: `exp-self`.
    fn default() -> Self {
        Self(Chosen::ExpSelf(exp_self::Config))
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
