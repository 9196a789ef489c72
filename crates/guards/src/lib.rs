//! Rules that a crate keeps, each of which a test can take out.
//!
//! ```text
//!   guards! { pub enum Guard { First, Second, } }     declares the rules of a crate
//!   if holds(Guard::First) { ... }                    what is done because of one
//!   remove(Some(Guard::First))                        a test takes it out, on its own thread
//! ```
//!
//! A rule that can go without any test's notice is not needed, or not tested. The feature `mutants` of
//! the crate that declares the rules lets them be taken out; no product has it. Without it `holds` is
//! constantly true and leaves no trace in the program.

#![no_std]
#![forbid(unsafe_code)]

/// Declares the rules of a crate as `enum Guard`, with the function `holds`. The crate has to have a
/// feature `mutants`; with it there are `Guard::ALL`, `Guard::named` and `remove`, too.
#[macro_export]
macro_rules! guards {
    ($(#[$of_all:meta])* pub enum Guard { $($(#[$doc:meta])* $name:ident,)+ }) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            not(feature = "mutants"),
            allow(
                unreachable_pub,
                reason = "it is reached from outside with the feature"
            )
        )]
        pub enum Guard {
            $($(#[$doc])* $name,)+
        }

        #[cfg(feature = "mutants")]
        impl Guard {
            /// Every rule, as declared.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The rule of this name, as it is declared.
            ///
            /// # Errors
            /// When none is called so.
            pub fn named(name: &str) -> Result<Self, String> {
                let mut all = Self::ALL.iter().copied();
                let found = all.find(|guard| format!("{guard:?}") == name);
                found.ok_or_else(|| format!("no guard is called {name}"))
            }
        }

        #[cfg(feature = "mutants")]
        mod removed {
            use super::Guard;
            use std::cell::Cell;

            thread_local! {
                static REMOVED: Cell<Option<Guard>> = const { Cell::new(None) };
            }

            /// Takes a rule out on this thread, or puts all back.
            pub fn remove(guard: Option<Guard>) {
                REMOVED.set(guard);
            }

            /// Whether this rule has been left in.
            pub fn holds(guard: Guard) -> bool {
                REMOVED.get() != Some(guard)
            }
        }

        #[cfg(feature = "mutants")]
        pub use removed::{holds, remove};

        /// Whether this rule has been left in: always.
        #[cfg(not(feature = "mutants"))]
        #[inline]
        pub const fn holds(_guard: Guard) -> bool {
            true
        }
    };
}
