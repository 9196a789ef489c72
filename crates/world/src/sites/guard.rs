//! The rules of a host with a disk that roams, beside those of [`handoff`]: each of them a test takes out.

guards::guards! {
    /// A guard against one hazard of a move, kept by who carries out what the ownership says.
    pub enum Guard {
        /// A standby reads nothing from the origin: it asks the owner.
        StandbyAsksOwner,
        /// A disk is given away when no change that was given up can land any more.
        GhostsHoldGrant,
        /// A record is replaced only by a later one.
        RecordOnlyRises,
        /// Who was served before the disk went away gets errors when another guest has had it.
        DeadConnections,
        /// The origin is closed before the disk is given away.
        CloseBeforeGrant,
        /// A disk borrows only in the epoch that it was granted, and what is asked in another one is not lent.
        LoansHaveEpochs,
        /// What another host has been shipped goes to the origin no more before the disk is closed here.
        HeldUntilClosed,
        /// The decision to give a disk away says who has what the origin lacks.
        DecisionNamesKept,
        /// A cache that went ahead of its disk counts when nothing is stale that was asked after the owner has let go.
        StaleOnceMore,
    }
}
