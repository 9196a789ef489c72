//! The kinds of events that an operator is told of, as words.
//!
//! An event is a log line that names its kind, in whichever crate it happens:
//!
//! ```text
//!   tracing::warn!(event = EventKind::OriginLost.word(), origin = %spec, why, "origin connection lost")
//! ```
//!
//! The daemon keeps such lines: the level is the severity, the message is the sentence. So a line and its event never
//! say different things, and no crate hands a recorder down to where something happens. The words never change their
//! meaning: operators' rules match them. The book lists them all, generated from here.

#![forbid(unsafe_code)]

/// Declares the kinds: what each means, name in the code, word.
macro_rules! event_kinds {
    ($(#[doc = $doc:literal] $kind:ident = $word:literal;)*) => {
        /// What has happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventKind {
            $(#[doc = $doc] $kind,)*
        }

        impl EventKind {
            /// Every kind, in the order of the book.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The kind's word in logs, answers and metrics.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }

            /// What has happened, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$kind => $doc.trim_ascii(),)*
                }
            }
        }
    };
}

event_kinds! {
    /// The daemon serves: each of its disks was tried once.
    DaemonStarted = "daemon-started";
    /// The daemon ends, or another one takes its place.
    DaemonStops = "daemon-stops";
    /// The daemon was told to start anew, and goes on: the program would not start.
    RenewalRefused = "renewal-refused";
    /// The configuration was read again, and what can change without a restart was changed.
    Reloaded = "reloaded";
    /// The configuration was read again and is wrong: nothing was changed.
    ReloadRefused = "reload-refused";
    /// A cache's thread stood still: its host was suspended or overloaded.
    CacheStalled = "cache-stalled";
    /// An operator gave a command, which was carried out.
    Command = "command";
    /// An operator changed a setting.
    SettingChanged = "setting-changed";
    /// A change that an operator wanted to make through the page was refused.
    CommandRefused = "command-refused";
    /// Somebody who is no operator wanted to change something through the page: told once a minute, with how often.
    ChangeDenied = "change-denied";
    /// The file of the page's operators cannot be used: nobody changes anything through the page.
    OperatorsUnusable = "operators-unusable";
    /// The settings of VMs contradict each other, or the flash.
    SettingsBroken = "settings-broken";
    /// A disk is attached, or stands by for another host.
    DiskAttached = "disk-attached";
    /// A disk is detached.
    DiskDetached = "disk-detached";
    /// A disk is not attached, and is tried again.
    DiskWaits = "disk-waits";
    /// A disk was to be detached, and stays.
    DiskStays = "disk-stays";
    /// A disk is let go, since its origin's lock was lost.
    DiskLetGo = "disk-let-go";
    /// A disk has become longer.
    DiskGrown = "disk-grown";
    /// A disk is served without write-back for now.
    WriteBackOff = "write-back-off";
    /// A disk has its write policy again.
    WriteBackOn = "write-back-on";
    /// The connection to an origin was lost.
    OriginLost = "origin-lost";
    /// An origin is connected again.
    OriginBack = "origin-back";
    /// An origin failed a request.
    OriginFailed = "origin-failed";
    /// An origin came back as another disk, or is another file.
    OriginChanged = "origin-changed";
    /// A cache is ready.
    CacheReady = "cache-ready";
    /// A cache starts empty.
    CacheEmpty = "cache-empty";
    /// The flash failed a request.
    FlashFailed = "flash-failed";
    /// A block on flash is not what was written there.
    FlashDamaged = "flash-damaged";
    /// A block on flash that its origin lacks is not what was written there: nobody has it.
    DirtyDamaged = "dirty-damaged";
    /// A scrub of a cache's flash has begun, or goes on.
    ScrubBegun = "scrub-begun";
    /// A scrub of a cache's flash has ended.
    ScrubEnded = "scrub-ended";
    /// The flash was given up: every disk of its cache is served from its origin.
    FlashGivenUp = "flash-given-up";
    /// The flash cannot be used: every disk of its cache is served from its origin.
    FlashUnusable = "flash-unusable";
    /// The flash is late: requests go past it.
    FlashSlow = "flash-slow";
    /// The flash is in time again.
    FlashInTime = "flash-in-time";
    /// A drive under a cache fails, wears out, or loses what is not flushed when power fails.
    DriveConcern = "drive-concern";
    /// A record that protects bytes of disks cannot be written.
    RecordFailed = "record-failed";
    /// A client was cut off, since it kept memory that others wait for.
    ClientCut = "client-cut";
    /// A recording of what guests ask has ended.
    RecordingEnded = "recording-ended";
    /// A connection to a peer stands.
    PeerLinked = "peer-linked";
    /// A peer is not connected.
    PeerLost = "peer-lost";
    /// A disk has come here from another host.
    DiskTaken = "disk-taken";
    /// A disk was given to another host.
    DiskGiven = "disk-given";
    /// A step of a disk's hand-over failed, and is tried again.
    HandOverFailed = "hand-over-failed";
    /// The disks of a VM are at different hosts.
    DisksSplit = "disks-split";
    /// Another host changed a disk of which clients here had requests under way.
    DiskChanged = "disk-changed";
    /// The cluster's store does not answer.
    StoreLost = "store-lost";
    /// The cluster's store answers again.
    StoreBack = "store-back";
    /// A host of the cluster is not heard of any more.
    HostLost = "host-lost";
    /// A host of the cluster is heard of.
    HostBack = "host-back";
    /// This host plans for the cluster.
    PlannerElected = "planner-elected";
    /// This host plans for the cluster no more.
    PlannerGone = "planner-gone";
    /// A plan with moves was made that differs from the last one.
    PlanMade = "plan-made";
    /// A host has too little flash, and no move helps.
    FlashMissing = "flash-missing";
    /// A host that had too little flash has enough.
    FlashEnough = "flash-enough";
    /// A move of a VM was recorded.
    MoveBegun = "move-begun";
    /// A move of a VM came to its next stage.
    MoveState = "move-state";
    /// A move of a VM is over.
    MoveEnded = "move-ended";
    /// The host that drove a move is gone, and another one goes on.
    DriverLost = "driver-lost";
}

impl EventKind {
    /// The kind of this word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_names_one_kind() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::of(kind.word()), Some(*kind));
        }
        assert_eq!(EventKind::of("no-such-kind"), None);
    }

    #[test]
    fn words_are_lower_case_and_meanings_are_sentences() {
        for kind in EventKind::ALL {
            let is_plain = |letter: char| letter.is_ascii_lowercase() || letter == '-';
            assert!(kind.word().chars().all(is_plain), "{}", kind.word());
            assert!(kind.meaning().ends_with('.'), "{}", kind.word());
        }
    }
}
