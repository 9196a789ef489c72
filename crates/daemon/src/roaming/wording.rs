//! What is said about a disk's ownership, as the link has it. A unit goes by the identity of its first disk.

use handoff::{Message, Refusal};
use link_protocol::{Message as Said, Refusal as Why};
use units::DiskId;

/// Which disk a message is about. Answers say that by their number.
pub(super) fn disk_of(message: &Said) -> Option<DiskId> {
    match message {
        Said::Read { disk, .. }
        | Said::AskLook { disk }
        | Said::AskContents { disk, .. }
        | Said::AskBlocks { disk, .. }
        | Said::AskWatch { disk }
        | Said::AskWatchOrigin { disk }
        | Said::AskStale { disk, .. }
        | Said::Demand { disk, .. }
        | Said::AskImage { disk, .. }
        | Said::AskRecords { disk, .. } => Some(DiskId::from_u128(*disk)),
        Said::Client { unit, .. }
        | Said::Claim { unit, .. }
        | Said::Grant { unit, .. }
        | Said::Refuse { unit, .. }
        | Said::List { unit, .. }
        | Said::Unlist { unit }
        | Said::Announce { unit }
        | Said::Withdraw { unit }
        | Said::Traced { unit, .. }
        | Said::Stopped { unit } => unit.parse().ok(),
        Said::Look { .. }
        | Said::Bytes
        | Said::Contents { .. }
        | Said::Watched { .. }
        | Said::Stale
        | Said::Records { .. }
        | Said::NotServed { .. }
        | Said::Alive => None,
    }
}

pub(super) fn worded(message: Message, unit: String) -> Said {
    match message {
        Message::Claim { is_return } => Said::Claim { unit, is_return },
        Message::Grant { epoch } => Said::Grant { unit, epoch },
        Message::Refuse { why } => Said::Refuse {
            unit,
            why: match why {
                Refusal::GuestRuns => Why::GuestRuns,
                Refusal::GuestAsked => Why::GuestAsked,
                Refusal::Failed => Why::Failed,
                Refusal::Busy => Why::Busy,
                Refusal::Changed => Why::Changed,
                Refusal::NotOwner => Why::NotOwner,
                Refusal::OtherDisks => Why::OtherDisks,
            },
        },
    }
}

pub(super) fn heard(why: Why) -> Refusal {
    match why {
        Why::GuestRuns => Refusal::GuestRuns,
        Why::GuestAsked => Refusal::GuestAsked,
        Why::Failed => Refusal::Failed,
        Why::Busy => Refusal::Busy,
        Why::Changed => Refusal::Changed,
        Why::NotOwner => Refusal::NotOwner,
        Why::OtherDisks => Refusal::OtherDisks,
    }
}

/// How the disks differ that two hosts move together with a VM, if they do: those of this host, and those of its peer `there`.
pub(super) fn differs(own: &[u128], listed: &[u128], there: &str) -> Option<String> {
    let only = |ids: &[u128], others: &[u128]| {
        let ids = ids.iter().filter(|id| !others.contains(id));
        ids.map(|id| format!("{id:032x}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if own == listed {
        return None;
    }
    let (here_only, there_only) = (only(own, listed), only(listed, own));
    Some(match (here_only.is_empty(), there_only.is_empty()) {
        (_, true) => format!("{there} does not move {here_only} with the VM's other disks"),
        (true, false) => {
            format!("{there} moves {there_only} with the VM's disks, and this host does not")
        }
        (false, false) => {
            format!("this host moves {here_only} with the VM, and {there} moves {there_only}")
        }
    })
}

/// A refusal in words, at the host whose claim is refused.
pub(super) fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::GuestRuns => "the peer refuses: its VM has not evidently stopped",
        Refusal::GuestAsked => "the peer refuses: its VM asked for something meanwhile",
        Refusal::Failed => {
            "the peer refuses: it could not bring everything to the origin, or not note that"
        }
        Refusal::Busy => "the peer refuses: it is about to take the disk itself",
        Refusal::Changed => "the peer refuses: the disk was changed there",
        Refusal::NotOwner => "the peer refuses: it does not have the disk",
        Refusal::OtherDisks => {
            "the peer refuses: there the VM has other disks that roam; list the same disks with the same vm on both hosts"
        }
    }
}
