//! The policies by name: a line each.

use super::spec::Registered;
use super::{About, BadValue, Index, Key, Replacement, Settings, Setup};
use super::{
    arc, belady, clock, clock2q_plus, fifo, lfu, lirs, lru, random, s3_fifo, sieve, slru, two_q,
    w_tiny_lfu,
};

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
                match &self.0 {
                    $(Chosen::$policy(_) => &$module::ABOUT,)*
                }
            }

            /// The policy at work.
            ///
            /// # Panics
            /// If it knows the future and the setup does not tell it.
            pub fn build<K: Key, I: Index<K> + Send + 'static>(
                &self,
                setup: Setup<I>,
            ) -> Box<dyn Replacement<K> + Send> {
                match &self.0 {
                    $(Chosen::$policy(config) => Box::new($module::$policy::new(config, setup)),)*
                }
            }
        }

        impl Registered for Spec {
            const ALL: &'static [&'static About] = Self::ALL;

            fn by_name(name: &str) -> Option<Self> {
                match name {
                    $(_ if $module::ABOUT.is_called(name) => {
                        Some(Self(Chosen::$policy($module::Config::default())))
                    })*
                    _ => None,
                }
            }

            fn about(&self) -> &'static About {
                self.about()
            }

            fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
                match &mut self.0 {
                    $(Chosen::$policy(config) => config.set(name, value),)*
                }
            }

            fn get(&self, name: &str) -> String {
                match &self.0 {
                    $(Chosen::$policy(config) => config.get(name),)*
                }
            }
        }
    };
}

registry! {
    fifo::Fifo,
    lru::Lru,
    random::Random,
    clock::Clock,
    lfu::Lfu,
    slru::Slru,
    two_q::TwoQ,
    arc::Arc,
    lirs::Lirs,
    s3_fifo::S3Fifo,
    sieve::Sieve,
    clock2q_plus::Clock2QPlus,
    w_tiny_lfu::WTinyLfu,
    belady::Belady,
}

/// A policy and its parameters: what `name:parameter=value,...` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec(Chosen);
