//! Whether the records of a VM's disks name one host.

use super::Roamer;
use crate::roaming::Happens;
use crate::roaming::split::look;
use events::EventKind;
use handoff::Role;
use std::sync::Arc;

impl Roamer {
    /// Looks beside whether the disks are at different hosts.
    pub(super) fn look_if_split(&self) {
        if self.disks.len() == 1 {
            return;
        }
        let disks = self.disks.iter().map(|disk| Arc::clone(disk.steps()));
        let (disks, tell) = (disks.collect::<Vec<_>>(), self.disks[0].tell().clone());
        tokio::spawn(async move {
            if let Some(why) = look(&disks).await {
                let _ = tell.send(Happens::Split { why });
            }
        });
    }

    /// The disks are at different hosts, or are not.
    pub(super) fn is_split(&mut self, why: Option<String>) {
        // Who gives them away goes on with that.
        let is_idle = matches!(self.ownership.role(), Role::Standby | Role::Claiming);
        let why = why.filter(|_| is_idle);
        if !self.split.is(why) {
            return;
        }
        let why = self.split.why();
        if let Some(reason) = why {
            let vm = self.disks[0].steps().entry.vm();
            tracing::warn!(event = EventKind::DisksSplit.word(),
                %vm, reason, "nobody serves the VM's disks: \
                hearth migrate take {vm} --yes-its-owner-is-dead, at the host where it is to run");
        }
        for disk in self.disks.iter() {
            disk.seen().note_split(why.cloned());
        }
    }
}
