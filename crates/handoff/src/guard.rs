//! The rules of a hand-over, each of which a test takes out: the test `model`, or the one of the rule's file. It must
//! then find what goes wrong.

guards::guards! {
    /// A guard against one hazard of a hand-over.
    pub enum Guard {
        /// A unit is given away when it is evident that the owner's guest has stopped, or when it only comes
        /// back.
        ProofOrSigns,
        /// A flush is a sign of a move only if the move was announced, or the standby's client looks incoming.
        LooksIncoming,
        /// A guest of the standby that asks for the unit before there is a sign is none that moves: no sign counts for it.
        ClaimBehindSign,
        /// A flush is no sign while rings run (vhost-user).
        RingsSayWhenTheyStop,
        /// A sign at one disk of a VM counts only if its other disks were silent since.
        SilentEverywhere,
        /// A unit is taken only if the records of all its disks name the host that takes it.
        OneDecision,
        /// What comes while a hand-over is under way waits for what becomes of it.
        HeldRequestsWait,
        /// A client that the disk was taken from is not served from another owner's bytes.
        OldClientsWait,
        /// A client whose disk was changed elsewhere is never served again.
        OldClientsEnd,
        /// A request of the owner's guest before the decision ends the hand-over.
        HoldWhileGranting,
        /// The origin has everything, and no write is under way, before the unit is given away.
        SettledBeforeGrant,
        /// The decision to give a unit away is durable before the claimant is told.
        DecisionFirst,
        /// What a decision says of the log counts with the epoch alone that it gives.
        DecisionGivesOnce,
        /// A decision that failed, and may stand, is made void by a later epoch of the owner.
        DoubtRaisesEpoch,
        /// A unit goes back to the client that it was taken from only if nothing was changed meanwhile.
        ReturnIfUnchanged,
        /// A host that has just started does not know that nothing was changed.
        ChangedUnlessGranted,
        /// A host that turns to another one does not know what was changed since that one had the unit.
        TurnedIsChanged,
        /// A grant is repeated when a session begins: the peer may be the owner without knowing so.
        GrantAgain,
        /// A grant that the receiver has followed with one of its own is answered with that.
        LaterGrantCounts,
        /// What another host was shipped counts only in the copy that is under way: one that begins anew begins with an empty
        /// log.
        ShippedToThisCopy,
        /// ... and only if it was looked up when nothing moved any more.
        ShippedSinceHeld,
        /// It has everything when it asks from the end of the owner's log.
        ShippedToTheEnd,
        /// ... and when it knows how far the origin has it: a crash must not bring back what is older.
        SettledIsShipped,
        /// Blocks of another host's base image are read as this host's only if nothing says that it is another image.
        ImageIdentity,
    }
}
