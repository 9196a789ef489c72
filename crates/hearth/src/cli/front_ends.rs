//! Front ends in words.

use crate::terminal::quantity::bytes;
use api::front_ends::{NbdSocket, RequestMemory, VhostUser};
use std::fmt::Write as _;

/// What `hearth disk show` says of a disk's own NBD socket.
pub(super) fn nbd(socket: &NbdSocket) -> (&'static str, String) {
    let state = match &socket.error {
        Some(error) => format!(" (not open: {error})"),
        None => String::new(),
    };
    ("nbd socket", format!("{}{state}", socket.path))
}

/// What `hearth status` says of the memory that clients of a cache have allocated.
pub(super) fn memory(memory: &RequestMemory) -> String {
    let (taken, limit) = (bytes(memory.taken_bytes), bytes(memory.limit_bytes));
    let mut text = format!("{taken} of {limit} for clients");
    if memory.waits > 0 {
        let _ = write!(
            text,
            "; {} wait, {} had to so far",
            memory.waiting, memory.waits
        );
    }
    if memory.refused > 0 {
        let _ = write!(text, "; {} connections refused or cut off", memory.refused);
    }
    text
}

/// What `hearth disk show` says of a disk over vhost-user.
pub(super) fn vhost_user(vhost: &VhostUser) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for socket in &vhost.sockets {
        let state = match &socket.error {
            Some(error) => format!(" (not open: {error})"),
            None => format!(" (for {})", socket.vm),
        };
        lines.push(("vhost-user", format!("{}{state}", socket.path)));
    }
    if vhost.connections > 0 {
        let waiting = match vhost.waiting {
            0 => String::new(),
            some => format!(", {some} connections wait for their turn"),
        };
        let (queues, flight) = (vhost.queues, vhost.requests_in_flight);
        lines.push((
            "its VM",
            format!("{queues} queues run, {flight} requests in flight{waiting}"),
        ));
    }
    if vhost.requests_resumed > 0 {
        let resumed = vhost.requests_resumed;
        lines.push((
            "taken up",
            format!("{resumed} requests that were begun before the daemon was started anew"),
        ));
    }
    if vhost.queues_broken > 0 {
        let broken = vhost.queues_broken;
        lines.push((
            "broken",
            format!("{broken} queues, by a driver that makes no sense"),
        ));
    }
    lines
}
