//! The rules around the paper's, and those of a move's driver. A test takes each one out and must then find what
//! goes wrong.

guards::guards! {
    /// A guard against one hazard of planning, or of driving a move.
    pub enum Guard {
        /// A target stays a margin below the load that would trigger a plan of its own.
        TargetMargin,
        /// A VM that has moved rests.
        Rest,
        /// A host takes one arrival a round: hosts that plan together choose the same empty target.
        OneArrival,
        /// A host sends one VM at a time.
        OneOutbound,
        /// The cluster carries out a few moves at a time.
        ClusterLimit,
        /// The demand of a VM that is on its way counts at its target.
        ArrivalsCount,
        /// A move's gain exceeds a multiple of its cost.
        Worth,
        /// No move raises the variance of the loads.
        VarianceFalls,
        /// A target has the processors that the VM needs.
        Cpu,
        /// A target has the memory that the VM needs.
        Memory,
        /// VMs of one anti-affinity group stay apart.
        AntiAffinity,
        /// A pinned VM stays.
        Pins,
        /// A target reaches the VM's origins.
        Reach,
        /// A VM that two hosts name is not moved.
        NamedTwice,
        /// A host whose published load did not fit what moves found takes no part.
        Trust,
        /// A driver commits a state before it carries out the state's action.
        CommitFirst,
        /// A commit compares the revision that it was decided on.
        CompareRevision,
        /// A driver reads the move again when it does not know the outcome of a commit.
        UnknownIsRead,
        /// A host refuses an action of an earlier driver than the latest that it has heard of.
        Fenced,
        /// A move that is late is withdrawn before its migration counts as ended.
        WithdrawFirst,
        /// A VM that had left its source when its move was withdrawn is followed by its disks.
        FollowTheVm,
        /// A driver whose lease is gone is replaced.
        LostDriverReplaced,
    }
}
