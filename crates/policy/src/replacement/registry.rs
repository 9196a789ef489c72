//! The policies by name: a line each.

use super::{Index, Key, Replacement, Setup};
use super::{
    arc, belady, clock, clock2q_plus, fifo, lfu, lirs, lru, random, s3_fifo, sieve, slru, two_q,
    w_tiny_lfu,
};
use crate::registry::registry;

/// The policies, for a macro that makes something of each.
macro_rules! policies {
    ($with:ident) => {
        $with! {
            fifo::Fifo(fifo::Config),
            lru::Lru(lru::Config),
            random::Random(random::Config),
            clock::Clock(clock::Config),
            lfu::Lfu(lfu::Config),
            slru::Slru(slru::Config),
            two_q::TwoQ(two_q::Config),
            arc::Arc(arc::Config),
            lirs::Lirs(lirs::Config),
            s3_fifo::S3Fifo(s3_fifo::Config),
            sieve::Sieve(sieve::Config),
            clock2q_plus::Clock2QPlus(clock2q_plus::Config),
            w_tiny_lfu::WTinyLfu(w_tiny_lfu::Config),
            belady::Belady(belady::Config),
        }
    };
}

policies!(registry);

macro_rules! build {
    ($($module:ident :: $policy:ident ($settings:ty),)*) => {
        impl Spec {
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
    };
}

policies!(build);
