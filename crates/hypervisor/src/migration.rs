//! What is migrated, and how a VM is at a host.

/// What is migrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The VM.
    pub vm: String,
    /// The host that it leaves.
    pub from: String,
    /// The host that it goes to.
    pub to: String,
    /// Bytes a second that the migration may send; as the hypervisor has it, for `None`.
    pub pace: Option<u64>,
}

/// How a VM is at this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// It runs here, or is paused here; one that is only expected does not.
    pub runs: bool,
    /// A migration from here is under way.
    pub migrates: bool,
    /// The last migration from here has ended well.
    pub completed: bool,
    /// Why the last migration from here failed.
    pub failed: Option<String>,
    /// What the migration that is under way has left, where the hypervisor says so.
    pub left: Option<Left>,
}

/// What a migration has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Bytes of memory that are still to be sent.
    pub bytes: u64,
    /// Bytes of memory that the guest makes dirty in a second.
    pub dirty_per_second: u64,
}
