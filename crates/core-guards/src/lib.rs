//! The rules that the core keeps, each of which a test can take out.
//!
//! One list for all crates of the core, so that the world takes each of them out in turn and finds what
//! goes wrong without it (`world`'s test `mutants`). How they are taken out: the crate `guards`.

#![forbid(unsafe_code)]

guards::guards! {
    /// A guard against one hazard.
    pub enum Guard {
        /// The origin is written only when the old copy is durably distrusted.
        DistrustBeforeOrigin,
        /// A write that overlaps one that waits for its distrust waits too.
        WaitForOverlappingWrite,
        /// Copies are not put to rest again before the commit that does so is durable.
        RestOnce,
        /// The rest of a copy ends with the use of its segment: a later copy in the same slot is another.
        RestOfOneUse,
        /// A fill on its way is not admitted when its block is written.
        KillFills,
        /// A fill that starts while its block is being written is not admitted.
        NoFillDuringWrite,
        /// A fill that was killed brings nothing into the cache, nor into staging.
        KilledFillStaysOut,
        /// A staged block leaves when a write to it arrives.
        WriteUnstages,
        /// A staged block leaves when it is discarded or zeroed.
        ErasureUnstages,
        /// Staged blocks leave with their disk.
        DetachUnstages,
        /// What was read from flash has a frame in memory only if its block has not changed meanwhile.
        FrameDies,
        /// What was prefetched while its block was written has no frame in memory.
        KilledGuessStaysOut,
        /// No block is fetched that is staged: two copies would be admitted.
        NoFillOfStaged,
        /// A write that overlapped another does not enter a block that was not cached.
        NoAllocationOfContendedWrite,
        /// A block that is refused is not written to flash.
        RefusedStaysOut,
        /// A rewritten block is not written to flash when the budget is used up.
        RewriteWithinBudget,
        /// Two writes to one block at a time leave no copy.
        NoCopyOfContendedWrite,
        /// A block that is written in part leaves the cache.
        PartialWriteDrops,
        /// A block that is discarded or zeroed leaves the cache.
        ErasureDrops,
        /// What is read from flash is compared with its checksum.
        VerifyChecksum,
        /// A segment is not written again while it is being read.
        PinReaders,
        /// A reclaimed segment is written again only when it is durably free.
        FreeBeforeReuse,
        /// A copy is trusted only when the origin cannot lose its bytes.
        OriginFlushBeforeTrust,
        /// What a change that the origin gave up has left is flushed before it is trusted.
        LateBytesAreFlushed,
        /// Under write-back, what a guest has read of a change that the origin gave up is flushed with the guest's flush.
        LateReadsAreFlushed,
        /// Copies of what the origin may have lost leave the cache when a flush of it fails.
        FailedFlushForgets,
        /// A guest is told of a flush that failed and that it had not asked for.
        FailedFlushIsTold,
        /// What another host has read is durable: its guest goes on when this host has lost power.
        DurableBeforePeerReads,
        /// A flush of an origin says nothing if another has failed since it was asked for.
        FailedFlushSpoils,
        /// A disk that stays under write-back since its closed record could not be made has its record opened
        /// before it accepts a write: nobody knows whether it is closed.
        OpenAfterDoubt,
        /// What a dirty log has written to an origin is written again if a flush of it fails before it is
        /// durable, whoever had asked for the flush.
        FailedFlushComesAgain,
        /// A missing page of the journal means that nothing is trusted.
        JournalGap,
        /// The origin is not written without the flash until that is recorded.
        RetireBeforeOrigin,
        /// A write passes flash that is late only when it is recorded that the flash is in doubt.
        RecordBeforePassing,
        /// The host believes flash again when what writes had passed is durable.
        KnownBeforeReinstated,
        /// Writes wait for the flash again before the host believes it.
        WaitWhileReturning,
        /// An owner's record is opened when the host believes the flash.
        OpenRecordInTime,
        /// An incarnation that the host no longer trusts is not believed.
        Incarnation,
        /// What waits on an older copy of the flash is in doubt.
        OldCopyIsDoubt,
        /// Flash on which less is found than was durable is an older copy: nothing on it is believed.
        CommittedIsThere,
        /// Numbers of checkpoints that lives may have used of which the tables know nothing are not used again.
        NumbersAreSkipped,
        /// A disk whose origin was changed by somebody else starts cold.
        Fingerprint,
        /// A checkpoint is replayed from the first entry that may not be in it.
        CheckpointStart,
        /// A checkpoint has of trust what the journal has durably.
        CheckpointIsDurable,
        /// The journal goes on when the tables that a recovery has made are durable.
        TablesBeforeJournal,
        /// Descriptors of an earlier use of a segment are not believed.
        Generation,
        /// A journal that could not be read does not pass for an empty one.
        UnreadJournal,
        /// A segment whose disk's entry could not be read does not go to the slot's next disk.
        SegmentNeedsItsDisk,
        /// What a commit has freed is free in the checkpoint that follows it.
        FreedBeforeCheckpoint,
        /// Who has a disk is in both superblocks.
        OwnerInBothSuperblocks,
        /// A disk is not given away while it is not recorded that the flash failed.
        RecordBeforeDetach,
        /// Blocks are decrypted by the key that they were encrypted by.
        SameKey,
        /// The log on a flash that has failed is read with the key of the disk that comes meanwhile.
        KeyForFailedFlash,
        /// An accepted write outlives the process, whether or not it was flushed.
        AcceptedOutlivesProcess,
        /// A chunk leaves retained memory when the journal says durably that its segment is the log's.
        OpenBeforeForgotten,
        /// A flush is answered when every record before it is durable on flash.
        AppendBeforeAnswer,
        /// ... and when it is durable, too, that their segments belong to the log.
        OpenBeforeAnswer,
        /// What goes to the origin is durable on flash.
        DurableBeforeDestage,
        /// Records are settled when the origin has been flushed.
        OriginFlushBeforeSettled,
        /// A record that was superseded is passed when the origin has it, or something newer.
        SupersededWaits,
        /// What comes after a recovery is in another interval than what was found.
        RecoveryEndsInterval,
        /// What is settled is durably known before a later version of it goes to the origin.
        WatermarkBeforeNext,
        /// An interval goes to the origin when the one before it is durable there.
        IntervalOrder,
        /// Of two records of a block the later one counts.
        LaterRecordWins,
        /// A block's older copy is distrusted when a record of it is accepted.
        DistrustOlderCopy,
        /// A block of a dirty log goes to the origin only if its checksum is right.
        VerifyBeforeDestage,
        /// While another host takes what is left of a log nothing of it goes to the origin.
        HeldStandsStill,
        /// A record is shipped to another host only if its checksum is right.
        VerifyBeforeShip,
        /// Records of another host are kept without a gap, and none twice.
        RecordsFollow,
        /// Where the owner's guest flushed, an interval ends in the log of the standby, too.
        IntervalsTravel,
        /// What the owner has brought to the origin is not brought there by its successor again.
        WatermarkTravels,
        /// Records are said to be kept when they are durable.
        KeptIsDurable,
        /// What a cache has of an earlier period goes before it keeps records of another host.
        LeftoversFirst,
        /// What is cached of a standby counts only in the process that copied it, whatever its log says.
        ShippedLogAlone,
        /// Erased blocks read as zeroes.
        ErasedReadsZeroes,
        /// A block is merged when no write before it to the same block is left.
        MergeAlone,
        /// Writes go back only when those on their way through have ended and were flushed.
        SwitchWaits,
        /// No fill brings a block that is dirty.
        NoFillOfDirty,
        /// A dirty block that cannot be read is an error.
        NoRefetchOfDirty,
        /// The owner's record is open before the first write is accepted.
        RecordOpenBeforeWrite,
        /// It is closed before the origin is written past the log.
        RecordClosedBeforeBypass,
        /// A flash that is older than the owner's record is not believed.
        Epoch,
        /// A detach is refused while the origin lacks something.
        DetachRefusesDirty,
        /// Recovery compares what may not have been durable of a dirty log with its checksums.
        TailChecksum,
        /// A dirty log of which something is missing that was durable is locked.
        DamageLocks,
        /// A dirty log that ends in front of a chunk in memory is locked.
        MemoryFollows,
        /// The tables say how far a dirty log was durable.
        DurableIsNamed,
        /// What lies behind the cut of an earlier recovery is not a part of a dirty log.
        CutStays,
        /// Recovery brings no clean copy of a block that is dirty.
        DirtyBeatsClean,
        /// Of what a killed process has left in memory, what is not whole does not count.
        LeftChecksum,
        /// What cannot be read of a dirty log is not taken for its torn end.
        UnreadableIsNotTorn,
        /// What seems not to be whole of a dirty log is read again before it is given up.
        ReadAgain,
        /// A dirty log ends where a chunk does not follow the one before it.
        ChunksFollow,
        /// A dirty log does not go to the origin on its own if its watermark may be wrong.
        DoubtLocks,
        /// A disk of which the origin lacks something keeps its size.
        SameSize,
        /// The owner's record is closed when the origin has everything.
        EmptyBeforeClosed,
        /// What the log has made of the cache is durable before the owner's record is closed.
        KnownBeforeClosed,
        /// What the origin lacks is thrown away when the owner's record is closed.
        ClosedBeforeDropped,
        /// A flush of a disk that enters write-back waits for the log of its earlier life.
        EnteringFlushWaitsForLog,
        /// The disk table has an epoch before the owner's record has it.
        EpochBeforeRecord,
        /// What is void of a log is durably so before the owner's record is open again.
        VoidBeforeOpen,
        /// What went to the origin out of order is passed before the rest goes in order.
        HolesBeforeOrder,
        /// A destage of an ordered disk is done when nothing of it is at the origin before what is older.
        OrderBeforeDone,
        /// A fill on its way is not admitted when a record of its block is accepted.
        AcceptKillsFills,
        /// A staged block leaves when a record of it is accepted.
        AcceptUnstages,
        /// Only what is alone is written with FUA in place of a flush of the origin.
        FlushWhatWasPlain,
        /// What the origin has refused, or may have lost, is written again.
        RefusedComesAgain,
    }
}
