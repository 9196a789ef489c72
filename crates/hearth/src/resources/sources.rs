//! What QEMU and libvirt say of VMs, asked beside the loop of `hearth monitor`.
//!
//! ```text
//!   loop ─► latest ─► the figures of the last round that has ended
//!             └─► no round under way? ─► all sockets at once, and virsh ─► figures, and reasons for those that lack
//! ```
//!
//! Invariants: the loop never waits for a round, and there is one round at a time. A VM that does not answer has no figures.

use super::args::Monitor;
use super::{libvirt, qmp};
use monitor::{VmFigures, VmReading};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use tokio::task::JoinHandle;

/// VMs whose figures are told: as many fit a request of the API.
pub(super) const VMS_MAX: usize = 512;

/// What one round has found.
#[derive(Debug, Default)]
pub(super) struct Round {
    vms: BTreeMap<String, VmFigures>,
    /// Why a source says nothing, by source.
    reasons: BTreeMap<String, String>,
}

impl Round {
    /// A VM's figures. What was said of it before goes first.
    pub(super) fn add(&mut self, vm: String, figures: VmFigures) {
        if self.vms.len() < VMS_MAX || self.vms.contains_key(&vm) {
            let known = self.vms.entry(vm).or_default();
            *known = known.or(figures);
        }
    }

    /// A source says nothing, or not all.
    pub(super) fn lacks(&mut self, source: String, reason: String) {
        self.reasons.insert(source, reason);
    }
}

/// Who is asked, and what they said last.
#[derive(Debug)]
pub(super) struct Sources {
    sockets: Option<PathBuf>,
    libvirt: Option<String>,
    under_way: Option<JoinHandle<Round>>,
    last: Round,
}

impl Sources {
    pub(super) fn new(arguments: &Monitor) -> Self {
        Self {
            sockets: arguments.qmp.clone(),
            libvirt: arguments.libvirt.clone(),
            under_way: None,
            last: Round::default(),
        }
    }

    /// What was said in the last round that has ended. Begins another one.
    pub(super) async fn latest(&mut self) -> Vec<VmReading> {
        if let Some(round) = self.under_way.take_if(|round| round.is_finished()) {
            // A round that has ended does not wait; one that panicked has found nothing.
            let round = round.await.unwrap_or_default();
            tell(&self.last.reasons, &round.reasons);
            self.last = round;
        }
        let asks = self.sockets.is_some() || self.libvirt.is_some();
        if asks && self.under_way.is_none() {
            let round = ask(self.sockets.clone(), self.libvirt.clone());
            self.under_way = Some(tokio::spawn(round));
        }
        let readings = self.last.vms.iter().map(|(vm, figures)| VmReading {
            vm: vm.clone(),
            figures: *figures,
        });
        readings.collect()
    }
}

async fn ask(sockets: Option<PathBuf>, libvirt: Option<String>) -> Round {
    let mut round = Round::default();
    // QEMU itself goes before what libvirt heard of it.
    if let Some(folder) = sockets {
        qmp::ask_all(&folder, &mut round).await;
    }
    if let Some(uri) = libvirt {
        libvirt::ask(uri, &mut round).await;
    }
    round
}

/// Says why a source says nothing, once for each reason.
fn tell(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) {
    for (source, reason) in now {
        if before.get(source) != Some(reason) {
            // Standard error may be closed; the loop goes on all the same.
            let _ = writeln!(std::io::stderr(), "{source}: {reason}; trying again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_says_goes_before_libvirt() {
        let of = |vcpus, balloon_bytes| VmFigures {
            vcpus,
            balloon_bytes,
            ..VmFigures::default()
        };
        let mut round = Round::default();
        round.add("web".to_owned(), of(Some(2), None));
        round.add("web".to_owned(), of(Some(3), Some(7)));
        assert_eq!(round.vms["web"], of(Some(2), Some(7)));
    }

    #[test]
    fn no_more_vms_are_told_than_fit_a_request() {
        let mut round = Round::default();
        for vm in 0..2 * VMS_MAX {
            round.add(vm.to_string(), VmFigures::default());
        }
        assert_eq!(round.vms.len(), VMS_MAX);
    }
}
