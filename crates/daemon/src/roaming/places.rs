//! Where the disks that roam are told what happens: the disks of a VM are one unit, with one queue for all of them.
//!
//! Invariant: a unit begins once, when all its disks have entered.

use super::images::Images;
use super::{Happens, Told};
use crate::control::Control;
use crate::hand_overs::Seen;
use crate::image_view::ImageLooks;
use crate::peering::Peering;
use crate::registry::Entry;
use configuration::{DiskConfig, MOVE_TOGETHER_MAX, Name, disk_id};
use link_protocol::UNIT_DISKS_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use units::DiskId;

// What the configuration lets move together can be listed to the peer.
const _: () = assert!(MOVE_TOGETHER_MAX <= UNIT_DISKS_MAX);

/// Tells a disk's unit what happens to the disk.
#[derive(Clone)]
pub(super) struct Tell {
    /// Which disk of the unit.
    disk: usize,
    unit: UnboundedSender<(usize, Happens)>,
}

/// The unit listens no more: the daemon stops.
#[derive(Debug)]
pub(super) struct Deaf;

impl Tell {
    pub(super) fn send(&self, happens: Happens) -> Result<(), Deaf> {
        self.unit.send((self.disk, happens)).map_err(|_| Deaf)
    }
}

/// One disk that roams.
pub(super) struct Place<P = Peering> {
    name: Name,
    /// In the high half of the numbers of its reads.
    pub(super) number: u32,
    pub(super) tell: Tell,
    pub(super) seen: Arc<Seen>,
    /// The peer that the disks of its VM go to or come from.
    pub(super) peering: P,
    /// The other disks of its VM.
    pub(super) others: Vec<Name>,
    /// Where there is to be seen what is in the way of a hand-over, once the disk has entered.
    pub(super) entered: Option<(Arc<Control>, Entry)>,
    /// What is known of it, if it is a base image: it has no owner, and no others.
    pub(super) image: Option<Arc<ImageLooks>>,
    unit: usize,
}

/// The disks of a VM.
struct Unit {
    /// In the order of their identities.
    disks: Vec<DiskId>,
    /// What has happened, until the unit begins: a peer says many things once.
    told: Option<Told>,
}

/// A disk of a unit that begins.
pub(super) struct Entered<P = Peering> {
    pub(super) control: Arc<Control>,
    pub(super) entry: Entry,
    /// Tells its reads from those of other disks.
    pub(super) number: u32,
    pub(super) tell: Tell,
    pub(super) seen: Arc<Seen>,
    /// The peer that the unit goes to or comes from.
    pub(super) peering: P,
    /// What is known of it if it is a base image.
    pub(super) image: Option<Arc<ImageLooks>>,
}

/// What has become of a unit by a disk that entered.
pub(super) enum Gathering<P = Peering> {
    /// It begins.
    All(Vec<Entered<P>>, Told),
    /// It waits for others of its disks.
    WaitsFor(Vec<DiskId>),
}

/// All disks that roam, by VM.
pub(super) struct Places<P = Peering> {
    places: BTreeMap<DiskId, Place<P>>,
    units: Vec<Unit>,
}

impl<P: Clone> Places<P> {
    /// Of the disks of a configuration that roam, each unit with a peer of its own.
    pub(super) fn new(disks: &[DiskConfig], peering: impl Fn() -> P) -> Self {
        let roaming = || disks.iter().filter(|disk| disk.roams);
        let mut by_vm: BTreeMap<_, Vec<(DiskId, &Name)>> = BTreeMap::new();
        for disk in roaming() {
            let disks = by_vm.entry(disk.tenant()).or_default();
            disks.push((disk_id(disk), &disk.name));
        }
        let numbers: BTreeMap<DiskId, u32> = roaming().map(disk_id).zip(0..).collect();
        let images = roaming().filter(|disk| disk.follows());
        let looks = |disk: &DiskConfig| (disk_id(disk), Arc::new(ImageLooks::new(&disk.origin)));
        let mut images: BTreeMap<DiskId, Arc<ImageLooks>> = images.map(looks).collect();
        let (mut places, mut units) = (BTreeMap::new(), Vec::new());
        for mut disks in by_vm.into_values() {
            disks.sort_unstable();
            let (tell, told) = unbounded_channel();
            let peering = peering();
            for (at, (disk, name)) in disks.iter().enumerate() {
                let others = disks.iter().map(|(_, other)| *other);
                let others = others.filter(|other| other != name).cloned();
                let tell = Tell {
                    disk: at,
                    unit: tell.clone(),
                };
                let place = Place {
                    name: (*name).clone(),
                    number: numbers[disk],
                    tell,
                    seen: Arc::default(),
                    peering: peering.clone(),
                    others: others.collect(),
                    entered: None,
                    image: images.remove(disk),
                    unit: units.len(),
                };
                places.insert(*disk, place);
            }
            let told = Some(told);
            let disks = disks.into_iter().map(|(disk, _)| disk);
            units.push(Unit {
                disks: disks.collect(),
                told,
            });
        }
        Self { places, units }
    }

    /// Each disk.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&DiskId, &Place<P>)> {
        self.places.iter()
    }

    /// The base images among them.
    pub(super) fn images(&self) -> Images {
        let images = self.places.values().filter_map(|place| {
            let name = place.image.as_ref().map(|_| place.name.clone())?;
            Some((name, place.tell.clone()))
        });
        Images::new(images.collect())
    }

    /// One disk.
    pub(super) fn get(&self, disk: DiskId) -> Option<&Place<P>> {
        self.places.get(&disk)
    }

    /// The disk whose reads have this number.
    pub(super) fn numbered(&self, number: u32) -> Option<&Place<P>> {
        self.places.values().find(|place| place.number == number)
    }

    /// Tells each unit once.
    pub(super) fn tell_units(&self, happens: impl Fn() -> Happens) {
        for unit in &self.units {
            // A unit that has ended needs no word.
            let _ = self.places[&unit.disks[0]].tell.send(happens());
        }
    }

    /// A disk enters. What has become of its unit; nothing, if no such disk is configured, or its unit has begun.
    pub(super) fn enter(&mut self, control: Arc<Control>, entry: Entry) -> Option<Gathering<P>> {
        let place = self.places.get_mut(&entry.id)?;
        place.entered = Some((control, entry));
        let unit = &mut self.units[place.unit];
        let mut all = Vec::new();
        let mut missing = Vec::new();
        for disk in &unit.disks {
            let place = &self.places[disk];
            match place.entered.clone() {
                None => missing.push(*disk),
                Some((control, entry)) => all.push(Entered {
                    control,
                    entry,
                    number: place.number,
                    tell: place.tell.clone(),
                    seen: Arc::clone(&place.seen),
                    peering: place.peering.clone(),
                    image: place.image.clone(),
                }),
            }
        }
        if missing.is_empty() {
            Some(Gathering::All(all, unit.told.take()?))
        } else {
            Some(Gathering::WaitsFor(missing))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disks_of_a_vm_that_roam_share_a_queue() {
        let text = |name: &str, id: u128, more: &str| {
            format!(
                "[[disk]]\nname = '{name}'\nid = '{id:032x}'\norigin = {{ file = '/{name}' }}\n{more}\n"
            )
        };
        let vm = "vm = 'db'\nroams = true";
        let hosts = "[[cache]]\nname = 'flash'\npath = '/flash'\n\
                     [link]\nname = 'a'\naddress = '127.0.0.1:9810'\n\
                     [[peer]]\nname = 'b'\naddress = '127.0.0.1:9811'\n"
            .to_owned();
        let text = [
            hosts,
            text("b", 2, vm),
            text("a", 1, vm),
            text("c", 3, "vm = 'db'"),
            text("d", 4, "roams = true"),
        ]
        .concat();
        let config = configuration::parse(&text).unwrap();
        let mut places = Places::new(&config.disks, || ());
        let ids: Vec<u128> = places.iter().map(|(id, _)| id.to_u128()).collect();
        assert_eq!(ids, [1, 2, 4]);
        let units: Vec<_> = places.units.iter().map(|unit| unit.disks.clone()).collect();
        let [a, b, d] = [1, 2, 4].map(DiskId::from_u128);
        assert_eq!(units, [vec![d], vec![a, b]], "by the names of their VMs");
        places.get(b).unwrap().tell.send(Happens::Pulled).unwrap();
        places.tell_units(|| Happens::Split { why: None });
        let mut told = places.units[1].told.take().unwrap();
        assert!(matches!(told.try_recv(), Ok((1, Happens::Pulled))));
        assert!(matches!(told.try_recv(), Ok((0, Happens::Split { .. }))));
        assert!(told.try_recv().is_err(), "once for both");
    }
}
