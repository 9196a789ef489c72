//! What an operator, or a hook, says about a disk that roams.

use api::roaming::MoveSettings;
use api::types::Problem;
use telemetry::Parent;
use tokio::sync::oneshot;

/// Where the answer comes.
pub(super) type Obeyed = oneshot::Sender<Result<(), Problem>>;

/// What is said. The disk's task answers when it is done, or says why it is not.
pub(super) enum Order {
    /// The disk's owner is gone for good, with what the origin lacks if that is given up.
    TakeOver {
        lose_dirty: bool,
        /// Who says it.
        above: Parent,
        reply: Obeyed,
    },
    /// The disks come from whoever has them.
    Find(Obeyed),
    /// The disks come from this peer, if they come.
    Turn { to: String, reply: Obeyed },
    /// The VM is about to move: to this peer; `None`: to this host.
    Announce {
        to: Option<String>,
        /// Who says it.
        above: Parent,
        reply: Obeyed,
    },
    /// It does not move.
    Abort(Obeyed),
    /// How the cache comes.
    Set(MoveSettings, Obeyed),
}
