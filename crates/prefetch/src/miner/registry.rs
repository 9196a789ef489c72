//! The miners by name: a line each.

use super::{Miner, Setup, delta, mithril, none, readahead, sequential, vip};

/// The miners, for a macro that makes something of each.
macro_rules! miners {
    ($($with:ident)::*) => {
        $($with)::*! {
            none::Nothing(none::Config),
            sequential::Sequential(sequential::Config),
            readahead::Readahead(readahead::Config),
            vip::Vip(vip::Config),
            mithril::Mithril(mithril::Config),
            delta::Delta(delta::Config),
        }
    };
}

miners!(policy::registry);

macro_rules! build {
    ($($module:ident :: $miner:ident ($settings:ty),)*) => {
        impl Spec {
            /// The miner at work for a disk.
            pub fn build(&self, setup: Setup) -> Box<dyn Miner> {
                match &self.0 {
                    $(Chosen::$miner(config) => Box::new($module::$miner::new(config, setup)),)*
                }
            }
        }
    };
}

miners!(build);

#[cfg(test)]
mod tests {
    use super::*;
    use policy::registry::Registered;

    #[test]
    fn every_miner_is_found_and_written_by_its_name() {
        for about in Spec::ALL {
            let spec: Spec = about.name.parse().unwrap();
            assert_eq!(spec.to_string(), about.name);
            for parameter in about.parameters {
                let value = spec.get(parameter.name);
                let same = format!("{}:{}={value}", about.name, parameter.name);
                assert_eq!(same.parse(), Ok(spec.clone()), "{same}");
            }
        }
        let spec: Spec = "vip:length=8,sup=3,conf=0.25,memory=384KiB"
            .parse()
            .unwrap();
        assert_eq!(
            spec.to_string(),
            "vip:length=8,sup=3,conf=0.25,memory=384KiB"
        );
        for wrong in ["vip:length=9", "vip:memory=1KiB", "mithril:record=some"] {
            assert!(wrong.parse::<Spec>().is_err(), "{wrong}");
        }
    }
}
