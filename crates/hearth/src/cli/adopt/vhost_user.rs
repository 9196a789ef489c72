//! A disk over vhost-user in libvirt's XML: what such a disk cannot have, and the memory that the VM has to share.

use super::kinds::Refusal;
use super::record::Record;
use crate::domain::{Edits, Element, escaped};

/// How often QEMU tries to connect again, in seconds; requests wait meanwhile.
const RECONNECT_SECONDS: u32 = 1;

/// What a disk of libvirt's type `vhostuser` cannot have: elements of the disk.
const IMPOSSIBLE: &[&str] = &["wwn", "vendor", "product", "iotune", "geometry", "blockio"];

/// Whether a disk can be one over vhost-user, and the VM's memory can be shared.
pub(super) fn can_be_reached(root: Element<'_>, disk: Element<'_>) -> Result<(), Refusal> {
    let bus = disk
        .child("target")
        .and_then(|target| target.attribute("bus"));
    let bus = bus.unwrap_or_default();
    let over_nbd = "take --via nbd";
    if bus != "virtio" {
        let reason =
            format!("a disk over vhost-user is on the bus virtio, and this one is on '{bus}'");
        return Err(Refusal::new(reason, over_nbd));
    }
    let mut impossible = IMPOSSIBLE.iter();
    if let Some(name) = impossible.find(|name| disk.child(name).is_some()) {
        let reason = format!("a disk over vhost-user has no <{name}>");
        return Err(Refusal::new(
            reason,
            format!("{over_nbd}, or take <{name}> away (virsh edit)"),
        ));
    }
    if !has_shared_memory(root) && root.child("memoryBacking").is_some() {
        return Err(Refusal::new(
            "the VM's memory is not shared, and over vhost-user the daemon reads and writes it",
            format!(
                "add <access mode='shared'/> and, without hugepages, <source type='memfd'/> to <memoryBacking> (virsh edit); or {over_nbd}"
            ),
        ));
    }
    Ok(())
}

/// Whether another process can map the VM's memory.
pub(super) fn has_shared_memory(root: Element<'_>) -> bool {
    let access = root
        .child("memoryBacking")
        .and_then(|backing| backing.child("access"));
    let is_shared = access
        .and_then(|access| access.attribute("mode"))
        .as_deref()
        == Some("shared");
    let numa = root.child("cpu").and_then(|cpu| cpu.child("numa"));
    let mut cells = numa.into_iter().flat_map(Element::children).peekable();
    let has_cells = cells.peek().is_some();
    let are_shared = cells.all(|cell| cell.attribute("memAccess").as_deref() == Some("shared"));
    is_shared || (has_cells && are_shared)
}

/// Has the VM share its memory; it says nothing of its memory's backing so far.
pub(super) fn share_memory(edits: &mut Edits<'_>, root: Element<'_>) {
    let is_memory =
        |child: &Element<'_>| ["memory", "currentMemory", "maxMemory"].contains(&child.name());
    if let Some(last) = root.children().filter(is_memory).last() {
        let blanks = edits.blanks(last);
        let text = format!(
            "<memoryBacking>{blanks}  <source type='memfd'/>{blanks}  <access mode='shared'/>{blanks}</memoryBacking>"
        );
        edits.insert_behind(last, &text);
    }
}

/// Takes away the sharing that [`share_memory`] brought, if nothing else was added to it.
pub(super) fn unshare_memory(edits: &mut Edits<'_>, root: Element<'_>) {
    if let Some(backing) = root.child("memoryBacking") {
        let names: Vec<&str> = backing.children().map(Element::name).collect();
        if names == ["source", "access"] {
            edits.remove(backing);
        }
    }
}

/// Changes the XML of a disk. Returns what its metadata keep of what was there.
pub(super) fn change<'d>(
    edits: &mut Edits<'_>,
    disk: Element<'d>,
    record: &Record,
) -> Vec<&'d str> {
    let mut before = Vec::new();
    edits.set(disk, "type", "vhostuser");
    // libvirt says so itself of such a disk.
    edits.set(disk, "snapshot", "no");
    let driver = "<driver name='qemu' type='raw'/>";
    let (old, source) = (disk.child("driver"), disk.child("source"));
    if let Some(old) = old {
        before.push(old.source());
        edits.replace(old, driver);
    } else if let Some(source) = source {
        edits.insert_before(source, driver);
    }
    if let Some(source) = source {
        before.push(source.source());
        let blanks = edits.blanks(source);
        let text = format!(
            "<source type='unix' path='{}'>{blanks}  <reconnect enabled='yes' timeout='{RECONNECT_SECONDS}'/>{blanks}</source>",
            escaped(&record.socket.display().to_string()),
        );
        edits.replace(source, &text);
    }
    // The daemon tells the guest the first two.
    let gone = ["serial", "readonly", "auth", "backingStore"];
    before.extend(edits.remove_children(disk, &gone));
    before
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Fate, Wanted, plan};
    use super::super::samples::{DOMAIN, wanted};
    use crate::domain::Document;
    use crate::xml::FrontEndWord;

    fn planned(xml: &str) -> (String, Result<bool, String>) {
        let document = Document::of(xml);
        let wanted = Wanted {
            disk: Some("vda"),
            via: FrontEndWord::VhostUser,
            ..wanted()
        };
        let plan = plan(&document, document.root().unwrap(), &wanted).unwrap();
        let fate = match &plan.disks[0].fate {
            Fate::Goes(record) => Ok(record.adds_memory),
            Fate::IsThere(_) => Ok(false),
            Fate::Stays(refusal) => Err(format!("{}; {}", refusal.reason, refusal.remedy)),
        };
        (plan.xml, fate)
    }

    #[test]
    fn the_disk_changes_and_the_memory_is_shared() {
        let (xml, fate) = planned(DOMAIN);
        assert_eq!(fate, Ok(true));
        let backing = "  <currentMemory unit='KiB'>262144</currentMemory>\n  <memoryBacking>\n    <source type='memfd'/>\n    \
             <access mode='shared'/>\n  </memoryBacking>\n";
        assert!(xml.contains(backing), "{xml}");
        let disk = "<disk type='vhostuser' device='disk' snapshot='no'>\n      <driver name='qemu' type='raw'/>\n      \
             <source type='unix' path='/run/hearth/web-vda.vhost.sock'>\n        <reconnect enabled='yes' timeout='1'/>\n      \
             </source>\n      <target dev='vda' bus='virtio'/>\n      <address ";
        assert!(xml.contains(disk), "{xml}");
        assert!(xml.contains("serial=\"S1\""), "{xml}");
    }

    #[test]
    fn memory_that_is_shared_stays_and_other_backing_is_left_to_the_operator() {
        let with = |backing: &str| {
            DOMAIN.replace(
                "  <vcpu",
                &format!("  <memoryBacking>{backing}</memoryBacking>\n  <vcpu"),
            )
        };
        assert_eq!(
            planned(&with("<hugepages/><access mode='shared'/>")).1,
            Ok(false)
        );
        let refused = planned(&with("<hugepages/>")).1.unwrap_err();
        assert!(refused.contains("<access mode='shared'/>"), "{refused}");
        let numa =
            "  <cpu><numa><cell id='0' memory='1' memAccess='shared'/></numa></cpu>\n  <vcpu";
        assert_eq!(planned(&DOMAIN.replace("  <vcpu", numa)).1, Ok(false));
    }

    #[test]
    fn what_such_a_disk_cannot_have_is_refused() {
        let refused = |from: &str, to: &str| planned(&DOMAIN.replacen(from, to, 1)).1.unwrap_err();
        let sata = refused(
            "<target dev='vda' bus='virtio'/>",
            "<target dev='vda' bus='sata'/>",
        );
        assert!(
            sata.contains("'sata'") && sata.contains("--via nbd"),
            "{sata}"
        );
        let tune = refused(
            "<serial>",
            "<iotune><total_iops_sec>1</total_iops_sec></iotune><serial>",
        );
        assert!(tune.contains("<iotune>"), "{tune}");
    }
}
