//! The allocators by name: a line each. An allocator is its own settings.

use super::{Allocator, equal, rcrs, rcrs_plus, recs, rwss, static_shares, utility, wss};
use crate::registry::registry;

/// The allocators, for a macro that makes something of each.
macro_rules! allocators {
    ($with:ident) => {
        $with! {
            equal::Equal(equal::Equal),
            static_shares::Static(static_shares::Static),
            wss::Wss(wss::Wss),
            rwss::Rwss(rwss::Rwss),
            recs::Recs(recs::Recs),
            rcrs::Rcrs(rcrs::Rcrs),
            rcrs_plus::RcrsPlus(rcrs_plus::RcrsPlus),
            utility::Utility(utility::Utility),
        }
    };
}

allocators!(registry);

macro_rules! allocator {
    ($($module:ident :: $allocator:ident ($settings:ty),)*) => {
        impl Spec {
            pub(super) fn allocator(&self) -> &dyn Allocator {
                match &self.0 {
                    $(Chosen::$allocator(allocator) => allocator,)*
                }
            }
        }
    };
}

allocators!(allocator);

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
