//! Base images whose caches follow the VMs that read them: another host, which serves the image too, may be asked for blocks
//! of it, and asks.
//!
//! Invariants:
//! - What is lent or read of an image for another host is of the attachment that it names: the next one may have other
//!   bytes.
//! - An image has no gate: it is never written, so nobody waits for it to come or go.

use crate::borrowed::{AskTell, Loans};
use units::{DiskId, Duration, Map};

/// What one image borrows.
struct Image {
    tell: AskTell,
    /// Its last attachment, and what that borrows.
    last: Option<(u64, Loans)>,
}

/// The images.
#[derive(Default)]
pub(crate) struct Images {
    images: Map<DiskId, Image>,
    /// How often one was attached.
    attachments: u64,
}

impl Images {
    /// The cache of an image follows its VMs from its next attachment on.
    pub(crate) fn follow(&mut self, disk: DiskId, tell: AskTell) {
        let image = Image { tell, last: None };
        self.images.insert(disk, image);
    }

    /// A disk is being attached: what it borrows from now on and who is told of that, if it is such an image. What it
    /// asks for waits so long.
    pub(crate) fn attached(
        &mut self,
        disk: DiskId,
        patience: Duration,
    ) -> Option<(Loans, AskTell)> {
        let image = self.images.get_mut(&disk)?;
        self.attachments += 1;
        let loans = Loans::new(self.attachments << 32, patience);
        image.last = Some((self.attachments, loans.clone()));
        Some((loans, image.tell.clone()))
    }

    /// Which attachment of an image is the last one.
    pub(crate) fn attachment(&self, disk: DiskId) -> Option<u64> {
        let (attachment, _) = self.images.get(&disk)?.last.as_ref()?;
        Some(*attachment)
    }

    /// What the last attachment of an image borrows.
    pub(crate) fn loans(&self, disk: DiskId) -> Option<&Loans> {
        let (_, loans) = self.images.get(&disk)?.last.as_ref()?;
        Some(loans)
    }
}
