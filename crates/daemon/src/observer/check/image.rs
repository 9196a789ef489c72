//! Base images whose caches follow their VMs: whether those of two hosts are the same.

use super::{Observer, asked, reason};
use crate::image_view::{from_wire, to_wire};
use crate::looks::NoLook;
use crate::peering::Peering;
use crate::registry::Entry;
use api::roaming::{CheckReason, ImageCheck};
use configuration::Name;
use handoff::ImageDiffers;
use link_protocol::{DiskLook, DiskRole, ImageLook};

const SAME_ORIGIN: &str = "see that both configurations name the same image as the disk's origin, and restart both daemons";

impl Observer {
    /// The base images that a VM of this name, or the VM of a disk of this name, reads and whose caches follow it.
    pub(super) fn images_of(&self, name: &Name, entries: &[Entry]) -> Vec<Entry> {
        let mut disks = entries.iter();
        let of_disk = disks.find(|entry| entry.config.name == *name && !entry.config.shared);
        let vm = of_disk.map_or_else(|| name.clone(), Entry::vm);
        let vms = self.remembered.vms();
        let images = entries.iter().filter(|entry| {
            let image = &entry.config;
            image.follows() && image.name != *name && vms.may_read(&vm, &image.name)
        });
        images.cloned().collect()
    }

    /// What a base image whose cache follows its VMs is known by, for the peer.
    pub(super) async fn image_look(&self, entry: &Entry) -> DiskLook {
        let looks = self.roaming.as_ref();
        let looks = looks.and_then(|roaming| roaming.image_looks(entry));
        let image = match (looks, self.shards.get(&entry.cache)) {
            (Some(looks), Some(shard)) => looks.look(shard.handle(), entry.id).await,
            _ => None,
        };
        let image = image.map(|(_, image)| image);
        DiskLook {
            size: image.map(|image| image.size.get()),
            is_encrypted: entry.config.encryption.source().is_some(),
            role: DiskRole::Between,
            holder: None,
            obstacles: Vec::new(),
            image: image.map(|image| Box::new(to_wire(image))),
            dirty: None,
        }
    }

    /// What is in the way of a VM that reads an image here and at the peer, and whether the cache follows it. Only other
    /// bytes are in the way: a VM whose image is another one at the other host is not the same VM.
    pub(super) async fn image_check(
        &self,
        entry: &Entry,
        to: Option<&str>,
    ) -> (Vec<CheckReason>, Option<ImageCheck>) {
        let roaming = self.roaming.as_ref();
        let Some(peering) = roaming.map(|roaming| asked(roaming, entry, to)) else {
            return (Vec::new(), None);
        };
        let (here, there) = (peering.here(), peering.there());
        let ours = self.image_look(entry).await;
        let theirs = match peering.ask_look(entry.id).await {
            Ok(theirs) => theirs,
            Err(why) => return (Vec::new(), Some(unanswered(why, entry, there))),
        };
        let (Some(ours), Some(theirs)) = (&ours.image, &theirs.image) else {
            let at = if ours.image.is_none() { here } else { there };
            let why = format!("the image is not attached at {at}");
            let stays = stays(why, "look at it there: hearth disk show");
            return (Vec::new(), Some(stays));
        };
        compared(**ours, **theirs, &peering)
    }
}

fn stays(why: String, remedy: &str) -> ImageCheck {
    ImageCheck {
        follows: false,
        why: Some(why),
        remedy: Some(remedy.to_owned()),
    }
}

/// Why the peer says nothing of an image.
fn unanswered(why: NoLook, entry: &Entry, there: &str) -> ImageCheck {
    match why {
        NoLook::NotLinked => stays(
            format!("there is no session with {there}"),
            "hearth migrate list",
        ),
        NoLook::Unknown => stays(
            format!(
                "{there} has no image with the id {} and roams = true",
                entry.id
            ),
            "give it the same id, shared = true and roams = true on both hosts, and restart the daemons",
        ),
        NoLook::NotReady | NoLook::Silent => stays(
            format!("{there} does not say what its image is"),
            "repeat the command in a moment",
        ),
    }
}

fn compared(
    ours: ImageLook,
    theirs: ImageLook,
    peering: &Peering,
) -> (Vec<CheckReason>, Option<ImageCheck>) {
    let (here, there) = (peering.here(), peering.there());
    let differs = match from_wire(ours).differs(&from_wire(theirs)) {
        None => {
            let follows = ImageCheck {
                follows: true,
                why: None,
                remedy: None,
            };
            return (Vec::new(), Some(follows));
        }
        Some(ImageDiffers::File) => {
            let why = format!(
                "the image is another file or address at {there}, or was changed: its bytes may differ"
            );
            let stays = stays(
                why,
                "let both hosts reach one file, or one export by one address",
            );
            return (Vec::new(), Some(stays));
        }
        Some(ImageDiffers::Size) => format!(
            "the image has {} bytes at {here}, and {} at {there}",
            ours.size, theirs.size
        ),
        Some(ImageDiffers::Bytes) => {
            format!("the image has other bytes at {there} than at {here}")
        }
    };
    let stays = stays(differs.clone(), SAME_ORIGIN);
    let reasons = vec![reason("image-differs", differs, SAME_ORIGIN)];
    (reasons, Some(stays))
}
