//! Base images whose caches follow the VMs that read them: a VM that is about to come says so to each image that it reads.

use super::steps::Steps;
use super::{Happens, Tell};
use crate::control::Control;
use configuration::{Auto, Name};
use std::sync::Arc;
use units::Bytes;

/// What is known of a VM that reads an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coming {
    /// It is about to come here.
    IsExpected,
    /// It is not.
    IsNot,
    /// It is here.
    HasCome,
}

/// The images of this host, as a VM's disks know them.
#[derive(Clone)]
pub(super) struct Images {
    images: Vec<(Name, Tell)>,
    is_expected: bool,
}

impl Images {
    /// These, each with who is told.
    pub(super) fn new(images: Vec<(Name, Tell)>) -> Self {
        Self {
            images,
            is_expected: false,
        }
    }

    /// A VM is about to come here, or is not.
    pub(super) fn expect(&mut self, steps: &Steps, comes: bool) {
        if std::mem::replace(&mut self.is_expected, comes) != comes {
            let coming = if comes {
                Coming::IsExpected
            } else {
                Coming::IsNot
            };
            self.tell(steps, coming);
        }
    }

    /// A VM has come here.
    pub(super) fn came(&mut self, steps: &Steps) {
        self.is_expected = false;
        self.tell(steps, Coming::HasCome);
    }

    /// An operator says at which rate a VM's caches are copied.
    pub(super) fn set_rate(&self, control: &Arc<Control>, vm: &Name, rate: Auto<Bytes>) {
        for tell in self.read_by(control, vm) {
            // An image that is not there has no cache.
            let _ = tell.send(Happens::Rate(rate));
        }
    }

    fn tell(&self, steps: &Steps, coming: Coming) {
        let (control, of, from) = (&steps.control, steps.entry.vm(), steps.peering.peer());
        for tell in self.read_by(control, &of) {
            let vm = of.clone();
            // An image that is not there has no cache.
            let _ = tell.send(Happens::Comes { vm, coming, from });
        }
    }

    /// Who is told of a VM, of those that it may read.
    fn read_by(&self, control: &Arc<Control>, vm: &Name) -> impl Iterator<Item = &Tell> {
        let read = |(image, _): &&(Name, Tell)| control.remembered().vms().may_read(vm, image);
        self.images.iter().filter(read).map(|(_, tell)| tell)
    }
}
