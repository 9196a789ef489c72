//! The metrics of the agents in guests. The guests say it: a lying one shows wrong figures of its own.

use super::encode::{Number, Scrape};
use super::family::{Family, Read, Series};
use api::guests::{GuestMemory, GuestStatus};

const VM: &[&str] = &["vm"];

/// A series of each VM that has a channel and this value.
fn guests<'a>(
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&GuestStatus) -> Option<Number>,
) {
    for vm in &snapshot.vms.vms {
        let Some(value) = vm.guest.as_ref().and_then(&value) else {
            continue;
        };
        let mut labels = vec![("vm", vm.name.as_str())];
        labels.extend(extra);
        out.push(Series { labels, value });
    }
}

fn memory(pick: fn(&GuestMemory) -> Number) -> impl Fn(&GuestStatus) -> Option<Number> {
    move |guest| guest.memory.as_ref().map(pick)
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "guest_agent",
        unit: None,
        help: "1 if the agent in the VM's guest has said something since the VM connected, and 0 otherwise",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            guests(snapshot, out, None, |guest| {
                Some(Number::Whole(u64::from(guest.boot.is_some())))
            });
        }),
    },
    Family {
        name: "guest_memory_available",
        unit: Some("bytes"),
        help: "What programs in the guest can have without swapping, as its agent says",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            let pick = memory(|memory| Number::Whole(memory.available_bytes));
            guests(snapshot, out, None, pick);
        }),
    },
    Family {
        name: "guest_page_cache",
        unit: Some("bytes"),
        help: "The guest's page cache, as its agent says",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            let pick = memory(|memory| Number::Whole(memory.cache_bytes));
            guests(snapshot, out, None, pick);
        }),
    },
    Family {
        name: "guest_hinted",
        unit: Some("bytes"),
        help: "Bytes of the VM's disks of which its guest says that they are not worth keeping, or will be wanted again: keep_out, wanted",
        labels: &["vm", "hint"],
        read: Read::Gauge(|snapshot, out| {
            let keep_out = |guest: &GuestStatus| Some(Number::Whole(guest.hints.keep_out_bytes));
            guests(snapshot, out, Some(("hint", "keep_out")), keep_out);
            let wanted = |guest: &GuestStatus| Some(Number::Whole(guest.hints.wanted_bytes));
            guests(snapshot, out, Some(("hint", "wanted")), wanted);
        }),
    },
    Family {
        name: "guest_kept_out_blocks",
        unit: None,
        help: "Blocks that were not let in because the guest says that they are not worth keeping",
        labels: VM,
        read: Read::Counter(|snapshot, out| {
            let kept_out = |guest: &GuestStatus| Some(Number::Whole(guest.hints.kept_out_blocks));
            guests(snapshot, out, None, kept_out);
        }),
    },
    Family {
        name: "guest_frames",
        unit: None,
        help: "Frames from the guest, by outcome: taken; dropped, beyond 100 a second; invalid; missed, between those that came",
        labels: &["vm", "outcome"],
        read: Read::Counter(|snapshot, out| {
            for vm in &snapshot.vms.vms {
                let outcomes = vm.guest.as_ref().map(|guest| guest.frames.outcomes());
                for (outcome, frames) in outcomes.into_iter().flatten() {
                    out.push(Series {
                        labels: vec![("vm", vm.name.as_str()), ("outcome", outcome)],
                        value: Number::Whole(frames),
                    });
                }
            }
        }),
    },
];
