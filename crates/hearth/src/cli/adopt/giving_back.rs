//! How the XML of a domain becomes again what it was before its disks came to Hearth.

use super::plan::{disks, target};
use super::record::{self, Record, RecordError};
use super::vhost_user;
use crate::domain::{Document, Edits, Element};
use crate::xml::FrontEndWord;

/// Elements of a disk that an adoption changes or takes away.
const CHANGED: &[&str] = &[
    "driver",
    "auth",
    "source",
    "serial",
    "readonly",
    "backingStore",
];

/// The disks that are given back, and the XML as it will be.
#[derive(Debug)]
pub(super) struct GivingBack {
    pub(super) domain: String,
    pub(super) records: Vec<Record>,
    pub(super) xml: String,
}

/// Makes the XML without these disks on Hearth: all of them, or one.
///
/// # Errors
/// If the metadata of Hearth that the domain has cannot be read.
pub(super) fn giving_back(
    document: &Document<'_>,
    root: Element<'_>,
    only: Option<&str>,
) -> Result<GivingBack, RecordError> {
    let all = record::elements(root)?;
    let is_going = |target: &str| only.is_none_or(|only| only == target);
    let (going, staying): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(_, record)| is_going(&record.target));
    let mut edits = Edits::of(document);
    for (element, record) in &going {
        let disk = disks(root).find(|disk| target(*disk).as_deref() == Some(&record.target));
        if let (Some(disk), Some(before)) = (disk, record::before(*element)) {
            restore(&mut edits, disk, before, record.via);
        }
    }
    if staying.is_empty() {
        forget_all(&mut edits, root);
    } else {
        for (element, _) in &going {
            edits.remove(*element);
        }
    }
    let needs_memory = |(_, record): &(Element<'_>, Record)| record.via == FrontEndWord::VhostUser;
    if going.iter().any(|(_, record)| record.adds_memory) && !staying.iter().any(needs_memory) {
        vhost_user::unshare_memory(&mut edits, root);
    }
    Ok(GivingBack {
        domain: root.child("name").map(Element::content).unwrap_or_default(),
        records: going.into_iter().map(|(_, record)| record).collect(),
        xml: edits.apply(),
    })
}

/// Takes all metadata of Hearth away.
fn forget_all(edits: &mut Edits<'_>, root: Element<'_>) {
    let Some(metadata) = root.child("metadata") else {
        return;
    };
    if metadata.children().count() == 1 && record::disks_element(root).is_some() {
        edits.remove(metadata);
    } else if let Some(all) = record::disks_element(root) {
        edits.remove(all);
    }
}

fn restore(edits: &mut Edits<'_>, disk: Element<'_>, before: Element<'_>, via: FrontEndWord) {
    if let Some(libvirt_type) = before.attribute("type") {
        edits.set(disk, "type", &libvirt_type);
    }
    if via == FrontEndWord::VhostUser {
        match before.attribute("snapshot") {
            Some(snapshot) => edits.set(disk, "snapshot", &snapshot),
            None => edits.unset(disk, "snapshot"),
        }
    }
    let source = disk.child("source");
    for name in CHANGED {
        // Over NBD a disk keeps these itself, and they may have been changed since.
        if via == FrontEndWord::Nbd && ["serial", "readonly"].contains(name) {
            continue;
        }
        match (disk.child(name), before.child(name)) {
            (Some(now), Some(then)) => edits.replace(now, then.source()),
            (Some(now), None) => edits.remove(now),
            (None, Some(then)) => {
                if let Some(source) = source {
                    edits.insert_behind(source, then.source());
                }
            }
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Wanted, plan};
    use super::super::samples::{DOMAIN, wanted};
    use super::*;

    fn adopted(xml: &str, wanted: &Wanted<'_>) -> String {
        let document = Document::of(xml);
        plan(&document, document.root().unwrap(), wanted)
            .unwrap()
            .xml
    }

    fn given_back(xml: &str, only: Option<&str>) -> String {
        let document = Document::of(xml);
        giving_back(&document, document.root().unwrap(), only)
            .unwrap()
            .xml
    }

    #[test]
    fn what_was_adopted_and_given_back_is_byte_for_byte_what_it_was() {
        assert_eq!(given_back(&adopted(DOMAIN, &wanted()), None), DOMAIN);
    }

    #[test]
    fn elements_that_were_taken_away_come_back_behind_the_source() {
        let over_vhost_user = Wanted {
            via: FrontEndWord::VhostUser,
            ..wanted()
        };
        let of_ceph = DOMAIN.replace(
            "<source dev='/dev/vg/data'/>",
            "<auth username='cinder'>\n        <secret type='ceph' uuid='u'/>\n      </auth>\n      \
             <source protocol='rbd' name='volumes/data'/>",
        );
        let of_ceph = of_ceph.replace("<disk type='block'", "<disk type='network'");
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        for (domain, wanted) in [
            (DOMAIN, &over_vhost_user),
            (&of_ceph, &over_vhost_user),
            (&of_ceph, &wanted()),
        ] {
            let adopted = adopted(domain, wanted);
            assert_eq!(adopted.matches("origin=").count(), 3, "{adopted}");
            assert_eq!(sorted(&given_back(&adopted, None)), sorted(domain));
        }
    }

    #[test]
    fn one_disk_goes_back_and_the_others_stay() {
        let both = adopted(DOMAIN, &wanted());
        let rest = given_back(&both, Some("vda"));
        assert!(rest.contains("<source file='/srv/web.raw'/>"), "{rest}");
        let targets: Vec<String> = record::records(&rest)
            .unwrap()
            .into_iter()
            .map(|one| one.target)
            .collect();
        assert_eq!(targets, ["vdb", "vdc"]);
        assert_eq!(given_back(&rest, None), DOMAIN);
    }

    #[test]
    fn what_others_have_in_the_metadata_and_changed_in_the_disk_stays() {
        let metadata = "  <metadata>\n    <x:y xmlns:x=\"urn:x\"/>\n  </metadata>\n  <memory";
        let with_others = DOMAIN.replace("  <memory", metadata);
        let adopted = adopted(&with_others, &wanted());
        let changed = |text: &str| text.replacen("<serial>S1<", "<serial>S2<", 1);
        assert_eq!(given_back(&changed(&adopted), None), changed(&with_others));
    }
}
