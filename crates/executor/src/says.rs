//! Who is told what this host sees of the cluster, and says to which traces its moves belong.

use crate::records::Recorded;
use placement::Name;
use std::collections::BTreeSet;

/// Who is told what this host sees of the cluster when it looks after moves.
pub trait FleetSays: Send + Sync {
    /// The store answered: these hosts are heard of, and these are each VM's last moves. At least each [`EVERY`](crate::EVERY).
    fn saw(&self, heard: &BTreeSet<String>, moves: &[Recorded]);
    /// The store did not answer.
    fn saw_nothing(&self);
    /// The trace and span that what this host has others do for a VM's move belongs to, as the W3C's `traceparent`; none if
    /// nothing is traced.
    fn trace_of(&self, _vm: &Name) -> Option<String> {
        None
    }
}
