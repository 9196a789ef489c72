//! The rules of borrowing, each of which a test takes out: it must then find what goes wrong.

guards::guards! {
    /// A guard against one hazard of borrowing.
    pub enum Guard {
        /// A block that was changed here since the disk came is read from the origin, listed or not.
        ChangedIsNotBorrowed,
        /// A read whose lender is late, or gone, is passed to the origin.
        LateGoesToOrigin,
        /// An answer of a loan that was given up is nobody's.
        LoansAreNumbered,
        /// A block that was changed at the host that has the disk is told to the one that copies its cache.
        ChangesAreTold,
        /// After a request that has failed what was copied does not count.
        FailureEndsWatch,
        /// After a flush of the origin that has failed what was copied does not count.
        FailedFlushEndsCopy,
    }
}
