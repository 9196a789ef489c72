//! A unit whose disks are at different hosts by their records: neither host serves any of them until an operator says at which
//! host they are to be, or the host that was about to give them away has gone on.

use super::steps::Steps;
use handoff::{Holder, Record};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the records are looked at again.
const PAUSE: Duration = Duration::from_secs(2);

/// Whether a unit is split.
#[derive(Default)]
pub(super) struct Split {
    /// Which disk is where, if it is.
    why: Option<String>,
    looked: Option<Instant>,
}

impl Split {
    /// Which disk is where, if the unit is split.
    pub(super) fn why(&self) -> Option<&String> {
        self.why.as_ref()
    }

    /// The records say so now. Whether that is news.
    pub(super) fn is(&mut self, why: Option<String>) -> bool {
        let is_news = self.why != why;
        self.why = why;
        is_news
    }

    /// Whether the records of a unit that is split are to be looked at again.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_late = self.looked.is_none_or(|looked| now >= looked + PAUSE);
        let is_due = is_late && self.why.is_some();
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }
}

/// Which disk is where by the records of a unit, if it is split; nothing if a record cannot be read now.
pub(super) async fn look(disks: &[Arc<Steps>]) -> Option<Option<String>> {
    let mut records = Vec::new();
    for steps in disks {
        records.push(steps.recorded().await?);
    }
    if !Record::are_split(records.iter().copied()) {
        return Some(None);
    }
    let places = disks.iter().zip(records).map(|(steps, record)| {
        let host = match record.owner {
            Holder::Here => steps.peering.here(),
            Holder::Peer => steps.peering.there(),
        };
        format!("'{}' at {host}", steps.entry.config.name)
    });
    let places = places.collect::<Vec<_>>().join(", ");
    Some(Some(format!(
        "the VM's disks are at different hosts by their owner's records ({places}), and neither host serves any of them"
    )))
}
