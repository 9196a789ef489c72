//! What is known of the agent in a guest, as text.

use crate::terminal::quantity;
use api::guests::{GuestFrames, GuestHints, GuestMemory, GuestStatus, GuestTraffic};

/// All that is known of it.
pub(super) fn lines(guest: &GuestStatus) -> Vec<(&'static str, String)> {
    let mut lines = vec![("guest", words(guest))];
    lines.extend(guest.memory.as_ref().map(|said| ("", memory(said))));
    lines.extend(hints(&guest.hints).map(|said| ("", said)));
    lines.extend(guest.traffic.as_ref().map(|said| ("", traffic(said))));
    lines
}

/// How the agent in the guest is reached.
fn words(guest: &GuestStatus) -> String {
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
fn memory(memory: &GuestMemory) -> String {
    format!(
        "{} of memory available, {} of page cache, pressure {:.2}%; {} ago",
        quantity::bytes(memory.available_bytes),
        quantity::bytes(memory.cache_bytes),
        memory.pressure_percent,
        quantity::time(memory.age_seconds)
    )
}

/// What the agent says of ranges of the disks; nothing, if it says nothing.
fn hints(hints: &GuestHints) -> Option<String> {
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

/// What the agent says of whom the guest speaks with.
fn traffic(traffic: &GuestTraffic) -> String {
    let dropped = match traffic.dropped_bytes {
        0 => String::new(),
        some => format!(
            ", {} more with addresses that were dropped",
            quantity::bytes(some)
        ),
    };
    format!(
        "{} exchanged over TCP with {} addresses in {}{dropped}; {} ago",
        quantity::bytes(traffic.bytes),
        traffic.peers,
        quantity::time(traffic.span_seconds),
        quantity::time(traffic.age_seconds)
    )
}
