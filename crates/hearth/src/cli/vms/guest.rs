//! What is known of the agent in a guest, as text.

use crate::terminal::quantity;
use api::guests::{GuestFrames, GuestHints, GuestMemory, GuestStatus};

/// How the agent in the guest is reached.
pub(super) fn words(guest: &GuestStatus) -> String {
    let GuestFrames {
        messages, dropped, ..
    } = guest.frames;
    match (&guest.error, guest.process, &guest.boot) {
        (Some(error), ..) => format!("CLOSED: {error}"),
        (None, None, _) => format!("nobody is connected to {}", guest.socket),
        (None, Some(process), None) => format!("process {process} is connected; no agent speaks"),
        (None, Some(process), Some(_)) => {
            let dropped = match dropped {
                0 => String::new(),
                some => format!(", {some} frames too many dropped"),
            };
            format!("its agent speaks through process {process}: {messages} messages{dropped}")
        }
    }
}

/// What the agent says of the guest's memory.
pub(super) fn memory(memory: &GuestMemory) -> String {
    format!(
        "{} of memory available, {} of page cache, pressure {:.2}%; {:.0}s ago",
        quantity::bytes(memory.available_bytes),
        quantity::bytes(memory.cache_bytes),
        memory.pressure_percent,
        memory.age_seconds
    )
}

/// What the agent says of ranges of the disks; nothing, if it says nothing.
pub(super) fn hints(hints: &GuestHints) -> Option<String> {
    let GuestHints {
        ranges,
        refused_ranges,
        keep_out_bytes,
        wanted_bytes,
        kept_out_blocks,
    } = *hints;
    if ranges == 0 && refused_ranges == 0 {
        return None;
    }
    let refused = match refused_ranges {
        0 => String::new(),
        some => format!("; {some} ranges refused: too many, or of no disk of the VM"),
    };
    Some(format!(
        "{ranges} ranges: {} to keep out ({kept_out_blocks} blocks were), {} wanted again{refused}",
        quantity::bytes(keep_out_bytes),
        quantity::bytes(wanted_bytes),
    ))
}
