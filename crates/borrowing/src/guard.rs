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
    }
}
