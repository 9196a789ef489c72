//! The rules of the client, each of which a test can take out.
//!
//! With the feature `mutants`, which no product has, one rule at a time can be removed on the calling
//! thread. The test `world` must then find that the invariant is broken for which the rule is there.
//! Without the feature [`holds`] is constantly true and leaves no trace in the program.

macro_rules! guards {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A rule of the client.
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
        }
    };
}

guards! {
    /// A change begins when the earlier changes of its range have ended.
    ChangesInOrder,
    /// A read begins when the earlier changes of its range have ended.
    ReadsAfterChanges,
    /// A change begins when the earlier reads of its range have ended.
    ChangesAfterReads,
    /// A change that ran out of time holds its range until it can happen no more.
    LateHoldsRange,
    /// A change that failed leaves its range in doubt: what is read there is remembered.
    FailedLeavesDoubt,
    /// A change that was sent before a loss, and runs out of time after it, leaves doubt too.
    SentBeforeLossLeavesDoubt,
    /// Connections are made anew when nothing that the old ones carried can happen any more.
    DrainBeforeDial,
    /// A connection that carries nonsense is drained like any other.
    NonsenseIsDrained,
    /// What the server may have forgotten is repeated.
    RepeatUnstable,
    /// It is repeated before anything else is sent.
    RepeatFirst,
    /// A change that is durable is not undone by the repetition of an older one.
    DurableReplacesUnstable,
    /// A flush vouches for what was acknowledged before it was sent.
    FlushVouchesForEarlier,
    /// One flush is in flight at a time.
    OneFlushAtATime,
    /// Changes that a failed flush may have dropped are repeated.
    FailedFlushRepeats,
    /// A change that is to be durable is followed by a flush where the server knows no FUA.
    FlushForFua,
    /// A request that a server refuses because it shuts down is a loss, and no error.
    ShutdownIsLoss,
    /// An operation of which one request was refused so has not succeeded.
    RefusedIsNotDone,
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

    pub(crate) fn holds(guard: Guard) -> bool {
        REMOVED.get() != Some(guard)
    }
}

#[cfg(feature = "mutants")]
pub(crate) use removed::holds;
#[cfg(feature = "mutants")]
pub use removed::remove;

/// Whether this rule has been left in: always.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn holds(_guard: Guard) -> bool {
    true
}
