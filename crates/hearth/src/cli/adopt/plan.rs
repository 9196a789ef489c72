//! Which disks of a domain go to Hearth, and how its XML changes: decided from the XML alone.

use super::kinds::{Refusal, origin_of};
use super::record::{self, Before, Record};
use super::vhost_user;
use crate::domain::{Document, Edits, Element, escaped};
use crate::xml::FrontEndWord;
use configuration::{Name, WritePolicy};
use std::path::{Path, PathBuf};

/// How long QEMU waits for a daemon that is being started anew before it fails the guest's requests, in seconds.
const RECONNECT_SECONDS: u32 = 60;
/// Characters of a domain's name that the name of its VM has at most, so that a target fits behind it.
const VM_NAME_MAX: usize = 48;
/// The longest path of a unix socket, in bytes.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Elements that stand before the metadata.
const BEFORE_METADATA: &[&str] = &["name", "uuid", "genid", "title", "description"];

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'a> {
    /// Only this disk.
    pub(super) disk: Option<&'a str>,
    pub(super) via: FrontEndWord,
    pub(super) cache: Option<&'a Name>,
    pub(super) write_policy: WritePolicy,
    /// The folder of the sockets.
    pub(super) folder: &'a Path,
    /// Whether this libvirt knows `<reconnect>` of a disk over NBD.
    pub(super) reconnects: bool,
    /// Why no disk of the domain can go now.
    pub(super) busy: Option<Refusal>,
}

/// What becomes of a disk.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// It goes to Hearth.
    Goes(Record),
    /// It is there.
    IsThere(Record),
    /// It stays where it is.
    Stays(Refusal),
}

/// A disk of the domain, and what becomes of it.
#[derive(Clone, Debug)]
pub(super) struct DiskPlan {
    pub(super) target: String,
    pub(super) fate: Fate,
}

/// The domain's name, its disks, and the XML as it will be.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) domain: String,
    pub(super) disks: Vec<DiskPlan>,
    pub(super) xml: String,
}

impl Plan {
    /// The disks that go to Hearth.
    pub(super) fn going(&self) -> impl Iterator<Item = &Record> {
        self.disks.iter().filter_map(|disk| match &disk.fate {
            Fate::Goes(record) => Some(record),
            Fate::IsThere(_) | Fate::Stays(_) => None,
        })
    }
}

/// The disks of a domain, in its order.
pub(super) fn disks(root: Element<'_>) -> impl Iterator<Item = Element<'_>> {
    let devices = root.child("devices").into_iter();
    devices
        .flat_map(Element::children)
        .filter(|child| child.name() == "disk")
}

/// What a VM calls a disk.
pub(super) fn target(disk: Element<'_>) -> Option<String> {
    disk.child("target")?.attribute("dev")
}

/// Decides which disks go to Hearth, and makes the XML.
///
/// # Errors
/// If the metadata of Hearth that the domain has cannot be read.
pub(super) fn plan(
    document: &Document<'_>,
    root: Element<'_>,
    wanted: &Wanted<'_>,
) -> Result<Plan, record::RecordError> {
    let domain = root.child("name").map(Element::content).unwrap_or_default();
    let there = record::elements(root)?;
    let mut edits = Edits::of(document);
    let (mut plans, mut added) = (Vec::new(), String::new());
    let mut shares_memory = vhost_user::has_shared_memory(root);
    for disk in disks(root) {
        let target = target(disk).unwrap_or_default();
        if wanted.disk.is_some_and(|only| only != target) {
            continue;
        }
        let known = there.iter().find(|(_, record)| record.target == target);
        let fate = match known {
            Some((_, record)) => Fate::IsThere(record.clone()),
            None => match goes(root, disk, &domain, wanted) {
                Err(refusal) => Fate::Stays(refusal),
                Ok(mut record) => {
                    if record.via == FrontEndWord::VhostUser && !shares_memory {
                        record.adds_memory = true;
                        vhost_user::share_memory(&mut edits, root);
                        shares_memory = true;
                    }
                    let before = Before {
                        libvirt_type: disk.attribute("type").unwrap_or_default(),
                        snapshot: disk.attribute("snapshot"),
                        elements: change(&mut edits, disk, &record, wanted),
                    };
                    let blanks = "\n      ";
                    added += blanks;
                    added += &record.element(&before, blanks);
                    Fate::Goes(record)
                }
            },
        };
        plans.push(DiskPlan { target, fate });
    }
    if !added.is_empty() {
        remember(&mut edits, root, &added);
    }
    Ok(Plan {
        domain,
        disks: plans,
        xml: edits.apply(),
    })
}

/// Puts records into the metadata.
fn remember(edits: &mut Edits<'_>, root: Element<'_>, records: &str) {
    if let Some(all) = record::disks_element(root) {
        edits.append(all, records.trim_start());
        return;
    }
    let all = record::wrapped(records, "\n    ");
    if let Some(metadata) = root.child("metadata") {
        edits.append(metadata, &all);
        return;
    }
    let is_before = |child: &Element<'_>| BEFORE_METADATA.contains(&child.name());
    let metadata = format!("<metadata>\n    {all}\n  </metadata>");
    if let Some(last) = root.children().filter(is_before).last() {
        edits.insert_behind(last, &metadata);
    }
}

/// The record of a disk that can go to Hearth.
fn goes(
    root: Element<'_>,
    disk: Element<'_>,
    domain: &str,
    wanted: &Wanted<'_>,
) -> Result<Record, Refusal> {
    if let Some(busy) = &wanted.busy {
        return Err(busy.clone());
    }
    can_be_served(disk)?;
    let origin = origin_of(disk)?;
    if wanted.via == FrontEndWord::VhostUser {
        vhost_user::can_be_reached(root, disk)?;
    }
    let target = target(disk)
        .ok_or_else(|| Refusal::new("it has no target", "give it a <target> (virsh edit)"))?;
    let named = |text: String| {
        text.parse::<Name>()
            .map_err(|error| Refusal::new(error.to_string(), "rename the domain (virsh domrename)"))
    };
    let vm = vm_name(domain);
    let name = named(format!("{vm}-{target}"))?;
    let socket = socket_of(wanted, &name)?;
    let serial = disk.child("serial").map(Element::content);
    Ok(Record {
        vm: named(vm)?,
        uuid: root.child("uuid").map(Element::content),
        name,
        target,
        origin,
        via: wanted.via,
        socket,
        read_only: disk.child("readonly").is_some(),
        serial: serial.filter(|_| wanted.via == FrontEndWord::VhostUser),
        cache: wanted.cache.cloned(),
        write_policy: wanted.write_policy,
        adds_memory: false,
    })
}

/// A domain's name as a VM's: other characters become dashes.
fn vm_name(domain: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let name: String = domain
        .chars()
        .take(VM_NAME_MAX)
        .map(|c| if plain(c) { c } else { '-' })
        .collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() {
        "vm".to_owned()
    } else {
        name.to_owned()
    }
}

fn socket_of(wanted: &Wanted<'_>, name: &Name) -> Result<PathBuf, Refusal> {
    let kind = match wanted.via {
        FrontEndWord::Nbd => "nbd",
        FrontEndWord::VhostUser => "vhost",
    };
    let socket = wanted.folder.join(format!("{name}.{kind}.sock"));
    if socket.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(Refusal::new(
            format!("the path of its socket would be longer than {SOCKET_PATH_BYTES_MAX} bytes"),
            "rename the domain to something shorter (virsh domrename)",
        ));
    }
    Ok(socket)
}

/// What keeps a disk from Hearth whatever the front end.
fn can_be_served(disk: Element<'_>) -> Result<(), Refusal> {
    let device = disk
        .attribute("device")
        .unwrap_or_else(|| "disk".to_owned());
    if device != "disk" {
        return Err(Refusal::new(
            format!("it is a {device}"),
            "leave it where it is: Hearth serves hard disks",
        ));
    }
    let format = disk
        .child("driver")
        .and_then(|driver| driver.attribute("type"));
    let format = format.unwrap_or_else(|| "raw".to_owned());
    if format != "raw" {
        return Err(Refusal::new(
            format!("it is an image in the format {format}, and Hearth serves the bytes of a disk"),
            "convert it to a raw file or volume (qemu-img convert -O raw), and give the VM that",
        ));
    }
    let source = disk.child("source");
    let has = |name: &str| {
        disk.child(name).is_some() || source.is_some_and(|source| source.child(name).is_some())
    };
    for (name, reason, remedy) in [
        (
            "shareable",
            "several VMs write it, and Hearth has one writer a disk",
            "leave it where it is",
        ),
        (
            "transient",
            "its writes are thrown away when the VM ends",
            "leave it where it is, or take <transient/> away",
        ),
        (
            "encryption",
            "QEMU decrypts it",
            "leave it where it is, or encrypt below Hearth (dm-crypt) or in the guest",
        ),
        (
            "slices",
            "it is a part of its storage",
            "give the VM that part as a file or device of its own",
        ),
        (
            "reservations",
            "the guest makes SCSI reservations",
            "leave it where it is",
        ),
        (
            "mirror",
            "a block job copies it",
            "end the job (virsh blockjob)",
        ),
    ] {
        if has(name) {
            return Err(Refusal::new(reason, remedy));
        }
    }
    Ok(())
}

/// Changes the XML of a disk. Returns what its metadata keep of what was there.
fn change<'d>(
    edits: &mut Edits<'_>,
    disk: Element<'d>,
    record: &Record,
    wanted: &Wanted<'_>,
) -> Vec<&'d str> {
    if record.via == FrontEndWord::VhostUser {
        return vhost_user::change(edits, disk, record);
    }
    let (driver, source) = (disk.child("driver"), disk.child("source"));
    let mut before = Vec::new();
    edits.set(disk, "type", "network");
    if let Some(driver) = driver {
        before.push(driver.source());
        edits.set(driver, "type", "raw");
        edits.set(driver, "cache", "none");
        edits.set(driver, "discard", "unmap");
        edits.unset(driver, "io");
    } else if let Some(source) = source {
        edits.insert_before(
            source,
            "<driver name='qemu' type='raw' cache='none' discard='unmap'/>",
        );
    }
    if let Some(source) = source {
        before.push(source.source());
        let blanks = edits.blanks(source);
        let reconnect = if wanted.reconnects {
            format!("{blanks}  <reconnect delay='{RECONNECT_SECONDS}'/>")
        } else {
            String::new()
        };
        let text = format!(
            "<source protocol='nbd' name='{}'>{blanks}  <host transport='unix' socket='{}'/>{reconnect}{blanks}</source>",
            record.name,
            escaped(&record.socket.display().to_string()),
        );
        edits.replace(source, &text);
    }
    before.extend(edits.remove_children(disk, &["auth", "backingStore"]));
    before
}

#[cfg(test)]
mod tests {
    use super::super::samples::{DOMAIN, wanted};
    use super::*;

    fn planned(xml: &str, wanted: &Wanted<'_>) -> Plan {
        let document = Document::of(xml);
        plan(&document, document.root().unwrap(), wanted).unwrap()
    }

    fn refusal(plan: &Plan, target: &str) -> Refusal {
        let found = plan
            .disks
            .iter()
            .find(|disk| disk.target == target)
            .unwrap();
        match &found.fate {
            Fate::Stays(refusal) => refusal.clone(),
            other => panic!("{target}: {other:?}"),
        }
    }

    #[test]
    fn the_disks_that_can_go_and_the_others_with_their_reasons() {
        let plan = planned(DOMAIN, &wanted());
        let names: Vec<&str> = plan.going().map(|record| record.name.as_str()).collect();
        assert_eq!(names, ["web-vda", "web-vdb", "web-vdc"]);
        for (target, reason) in [("sda", "cdrom"), ("vdd", "qcow2"), ("vde", "several VMs")] {
            let found = refusal(&plan, target);
            assert!(found.reason.contains(reason), "{found:?}");
        }
    }

    #[test]
    fn one_disk_alone_goes_if_it_is_named() {
        let plan = planned(
            DOMAIN,
            &Wanted {
                disk: Some("vdb"),
                ..wanted()
            },
        );
        assert_eq!(plan.disks.len(), 1);
        assert!(plan.xml.contains("socket='/run/hearth/web-vdb.nbd.sock'"));
        assert!(plan.xml.contains("<source file='/srv/web.raw'/>"));
    }

    #[test]
    fn the_rest_of_the_text_stays_byte_for_byte() {
        let plan = planned(
            DOMAIN,
            &Wanted {
                disk: Some("vda"),
                ..wanted()
            },
        );
        let changed = plan.xml.replace(
            "<disk type='network' device='disk'>\n      <driver name='qemu' type='raw' cache='none' discard='unmap'/>\n      \
             <source protocol='nbd' name='web-vda'>\n        <host transport='unix' socket='/run/hearth/web-vda.nbd.sock'/>\n        \
             <reconnect delay='60'/>\n      </source>",
            "<disk type='file' device='disk'>\n      <driver name='qemu' type='raw' cache='none' io='native'/>\n      \
             <source file='/srv/web.raw'/>",
        );
        let (head, tail) = changed.split_once("<metadata>").unwrap();
        let (_, tail) = tail.split_once("</metadata>").unwrap();
        assert_eq!(format!("{}{tail}", head.trim_end()), DOMAIN);
    }

    #[test]
    fn a_domain_that_runs_keeps_its_disks() {
        let busy = Some(Refusal::new("it runs", "shut it down"));
        let plan = planned(DOMAIN, &Wanted { busy, ..wanted() });
        assert_eq!(plan.going().count(), 0);
        assert_eq!(refusal(&plan, "vda").reason, "it runs");
        assert_eq!(plan.xml, DOMAIN);
    }

    #[test]
    fn an_image_of_ceph_goes_with_the_user_of_its_source() {
        let auth = "<auth username='cinder'><secret type='ceph' uuid='u'/></auth>";
        let network = DOMAIN.replacen("<disk type='file'", "<disk type='network'", 1);
        let of = |source: &str| network.replace("<source file='/srv/web.raw'/>", source);
        let inside = format!("<source protocol='rbd' name='p/i'>{auth}</source>");
        // Where OpenStack's Nova writes the element.
        let beside = format!("{auth}<source protocol='rbd' name='p/i'/>");
        for source in [inside, beside] {
            let plan = planned(&of(&source), &wanted());
            assert!(plan.xml.contains("origin=\"rbd:p/i?user=cinder\""));
            assert_eq!(plan.xml.matches("<auth").count(), 1, "{}", plan.xml);
        }
    }

    #[test]
    fn an_adopted_disk_stays_where_it_is_and_the_next_one_joins_it() {
        let first = planned(
            DOMAIN,
            &Wanted {
                disk: Some("vda"),
                ..wanted()
            },
        )
        .xml;
        let both = planned(&first, &wanted());
        assert!(matches!(&both.disks[0].fate, Fate::IsThere(record) if record.target == "vda"));
        let names: Vec<String> = record::records(&both.xml)
            .unwrap()
            .into_iter()
            .map(|one| one.target)
            .collect();
        assert_eq!(names, ["vda", "vdb", "vdc"]);
        assert!(Document::of(&both.xml).is_whole());
    }

    #[test]
    fn a_reconnect_is_asked_for_where_libvirt_knows_it() {
        let old = planned(
            DOMAIN,
            &Wanted {
                reconnects: false,
                ..wanted()
            },
        );
        assert!(!old.xml.contains("<reconnect"));
    }

    #[test]
    fn any_domain_has_a_name_for_its_vm() {
        assert_eq!(vm_name("web-1.x"), "web-1.x");
        assert_eq!(vm_name(".a b/ä"), "a-b--");
        assert_eq!(vm_name("--"), "vm");
        assert_eq!(vm_name(&"n".repeat(200)).len(), VM_NAME_MAX);
    }

    #[test]
    fn a_socket_that_no_system_takes_is_refused() {
        let deep = PathBuf::from(format!("/{}", "d".repeat(100)));
        let plan = planned(
            DOMAIN,
            &Wanted {
                folder: &deep,
                ..wanted()
            },
        );
        assert!(refusal(&plan, "vda").reason.contains("107 bytes"));
    }
}
