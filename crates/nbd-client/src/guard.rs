//! The rules of the client, each of which the test `nbd_mutants` of the world takes out: it must then find
//! that the invariant is broken for which the rule is there. See the crate `guards`.

guards::guards! {
    /// A rule of the client.
    pub enum Guard {
        /// A change begins when the earlier changes of its range have ended.
        ChangesInOrder,
        /// A read begins when the earlier changes of its range have ended.
        ReadsAfterChanges,
        /// A change begins when the earlier reads of its range have ended.
        ChangesAfterReads,
        /// A change that ran out of time holds its range until it can happen no more.
        LateHoldsRange,
        /// An operation begins when the changes of former sessions in its range are over.
        FormerChangesFirst,
        /// A change that failed leaves its range in doubt: what is read there is remembered.
        FailedLeavesDoubt,
        /// A change that was sent before a loss, and runs out of time after it, leaves doubt too.
        SentBeforeLossLeavesDoubt,
        /// A read of what is in doubt says that no flush vouches for it.
        DoubtIsVolatile,
        /// A change whose connection was cut may land until that has settled.
        CutMayLand,
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
}
