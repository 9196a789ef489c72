//! What the metadata of a domain say of its disks on Hearth: enough to attach each of them, and to give it back.
//!
//! ```text
//!   <metadata>
//!     <hearth:disks xmlns:hearth="urn:hearth:libvirt:1">
//!       <hearth:disk target="vda" name="web-vda" vm="web" origin="file:/srv/web.raw" via="nbd" socket="/run/...">
//!         <hearth:before type="file"> <driver .../> <source .../> </hearth:before>
//! ```
//!
//! libvirt keeps it with the domain, hands it to its hooks, and takes it along with a migration.

use crate::cli::disks::args::parse_origin;
use crate::domain::{Document, Element, escaped};
use crate::xml::FrontEndWord;
use clap::ValueEnum;
use configuration::{
    DiskConfig, Name, OriginConfig, OriginFormat, SocketPath, Switch, Text, WritePolicy,
    canonical_origin,
};
use std::path::PathBuf;

/// Names the metadata, and their form.
pub(crate) const NAMESPACE: &str = "urn:hearth:libvirt:1";
/// The element that has a domain's disks.
const DISKS: &str = "hearth:disks";
const DISK: &str = "hearth:disk";
/// What was in the XML before.
const BEFORE: &str = "hearth:before";

/// A disk of a domain that is on Hearth.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// What the VM calls it: `vda`.
    pub(crate) target: String,
    /// What Hearth calls it.
    pub(crate) name: Name,
    /// Whose disk it is.
    pub(crate) vm: Name,
    /// The domain's UUID: a clone has another one, and may not have the disk.
    pub(crate) uuid: Option<String>,
    /// Where its bytes live.
    pub(crate) origin: OriginConfig,
    /// Over which front end the VM reaches it.
    pub(crate) via: FrontEndWord,
    /// The socket where it does.
    pub(crate) socket: PathBuf,
    pub(crate) read_only: bool,
    pub(crate) serial: Option<String>,
    pub(crate) cache: Option<Name>,
    pub(crate) write_policy: WritePolicy,
    /// Whether the domain's shared memory came with it.
    pub(crate) adds_memory: bool,
}

/// What was in the XML of a disk before it came to Hearth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Before<'a> {
    /// The attribute `type` of the disk.
    pub(super) libvirt_type: String,
    /// Its attribute `snapshot`.
    pub(super) snapshot: Option<String>,
    /// Elements in it that are changed or taken away.
    pub(super) elements: Vec<&'a str>,
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the domain's metadata of Hearth cannot be read: {0}")]
pub(crate) struct RecordError(String);

impl Record {
    /// The disk as the daemon is told of it.
    pub(crate) fn config(&self) -> DiskConfig {
        let mut disk = DiskConfig::new(self.name.clone(), self.origin.clone());
        disk.vm = Some(self.vm.clone());
        disk.cache.clone_from(&self.cache);
        disk.write_policy = self.write_policy;
        disk.read_only = self.read_only;
        disk.vhost_user.serial.clone_from(&self.serial);
        match self.via {
            FrontEndWord::Nbd => disk.nbd.socket = Some(self.socket.clone()),
            FrontEndWord::VhostUser => {
                let socket = Switch::On(SocketPath(self.socket.clone()));
                disk.vhost_user.socket = Some(Text(socket));
            }
        }
        disk
    }

    /// Reads an element of the metadata.
    pub(super) fn of(element: Element<'_>) -> Result<Self, RecordError> {
        let needed = |name: &str| {
            let missing = || RecordError(format!("'{name}' is missing"));
            element.attribute(name).ok_or_else(missing)
        };
        let wrong = |name: &str, error: String| RecordError(format!("{name}: {error}"));
        let name = |key: &str| {
            needed(key)?
                .parse()
                .map_err(|error| wrong(key, format!("{error}")))
        };
        let is_on = |key: &str| element.attribute(key).as_deref() == Some("yes");
        let mut origin =
            parse_origin(&needed("origin")?).map_err(|error| wrong("origin", error))?;
        if let OriginConfig::File(file) = &mut origin {
            file.format = OriginFormat::Raw;
        }
        let cache = element.attribute("cache").map(|cache| cache.parse());
        let policy = element.attribute("write-policy");
        let policy = policy.map(|policy| WritePolicy::from_str(&policy, false));
        let via = FrontEndWord::from_str(&needed("via")?, false);
        Ok(Self {
            target: needed("target")?,
            name: name("name")?,
            vm: name("vm")?,
            uuid: element.attribute("uuid"),
            origin,
            via: via.map_err(|error| wrong("via", error))?,
            socket: PathBuf::from(needed("socket")?),
            read_only: is_on("read-only"),
            serial: element.attribute("serial"),
            cache: cache
                .transpose()
                .map_err(|error| wrong("cache", format!("{error}")))?,
            write_policy: policy
                .transpose()
                .map_err(|error| wrong("write-policy", error))?
                .unwrap_or_default(),
            adds_memory: is_on("adds-memory"),
        })
    }

    /// The record as an element of the metadata, with what was in the XML before.
    pub(super) fn element(&self, before: &Before<'_>, blanks: &str) -> String {
        let word = |value: &dyn ToString| value.to_string();
        let via = self
            .via
            .to_possible_value()
            .map(|value| value.get_name().to_owned());
        let mut all = vec![
            ("target", Some(self.target.clone())),
            ("name", Some(word(&self.name))),
            ("vm", Some(word(&self.vm))),
            ("uuid", self.uuid.clone()),
            ("origin", Some(canonical_origin(&self.origin))),
            ("via", via),
            ("socket", Some(self.socket.display().to_string())),
            ("serial", self.serial.clone()),
            ("cache", self.cache.as_ref().map(|cache| word(cache))),
        ];
        let yes = |is_on: bool| is_on.then(|| "yes".to_owned());
        let is_default = self.write_policy == WritePolicy::default();
        all.push((
            "write-policy",
            (!is_default).then(|| word(&self.write_policy)),
        ));
        all.push(("read-only", yes(self.read_only)));
        all.push(("adds-memory", yes(self.adds_memory)));
        let attributes = attributes(all);
        let before_attributes = attributes_before(before);
        let elements = before.elements.iter();
        let elements: Vec<&str> = elements.flat_map(|text| [blanks, "    ", text]).collect();
        let elements = elements.concat();
        format!(
            "<{DISK}{attributes}>{blanks}  <{BEFORE}{before_attributes}>{elements}{blanks}  </{BEFORE}>{blanks}</{DISK}>"
        )
    }
}

fn attributes_before(before: &Before<'_>) -> String {
    attributes(vec![
        ("type", Some(before.libvirt_type.clone())),
        ("snapshot", before.snapshot.clone()),
    ])
}

/// Attributes that have a value, as they stand in a tag.
fn attributes(all: Vec<(&str, Option<String>)>) -> String {
    let known = all.into_iter();
    let known = known.filter_map(|(name, value)| Some(format!(" {name}=\"{}\"", escaped(&value?))));
    known.collect()
}

/// The element of the metadata that has a domain's disks.
pub(super) fn disks_element(root: Element<'_>) -> Option<Element<'_>> {
    root.child("metadata")?.child(DISKS)
}

/// The elements of the disks, and their records.
pub(super) fn elements(root: Element<'_>) -> Result<Vec<(Element<'_>, Record)>, RecordError> {
    let Some(all) = disks_element(root) else {
        return Ok(Vec::new());
    };
    let form = all.attribute("xmlns:hearth").unwrap_or_default();
    if form != NAMESPACE {
        return Err(RecordError(format!(
            "they are of the form '{form}', not {NAMESPACE}"
        )));
    }
    let own = root.child("uuid").map(Element::content);
    let disks = all.children().filter(|child| child.name() == DISK);
    let mut found = Vec::new();
    for element in disks {
        let record = Record::of(element)?;
        if let (Some(of), Some(own)) = (&record.uuid, &own)
            && of != own
        {
            return Err(RecordError(format!(
                "'{}' is a disk of the VM {of}, of which this VM is a clone: take {DISKS} out of its metadata, and give it storage of its own (virsh edit)",
                record.name
            )));
        }
        found.push((element, record));
    }
    Ok(found)
}

/// What was in the XML before a disk came to Hearth.
pub(super) fn before(record: Element<'_>) -> Option<Element<'_>> {
    record.child(BEFORE)
}

/// The element with all of these records, for metadata that have none.
pub(super) fn wrapped(records: &str, blanks: &str) -> String {
    format!("<{DISKS} xmlns:hearth=\"{NAMESPACE}\">{records}{blanks}</{DISKS}>")
}

/// The disks of a domain that are on Hearth, by its XML.
///
/// # Errors
/// If the metadata were made by another version, or edited.
pub(crate) fn records(xml: &str) -> Result<Vec<Record>, RecordError> {
    let document = Document::of(xml);
    let Some(root) = document.root() else {
        return Ok(Vec::new());
    };
    Ok(elements(root)?
        .into_iter()
        .map(|(_, record)| record)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            target: "vda".to_owned(),
            name: "web-vda".parse().unwrap(),
            vm: "web".parse().unwrap(),
            uuid: Some("1-2".to_owned()),
            origin: parse_origin("nbd+unix:///a%20b?socket=/s").unwrap(),
            via: FrontEndWord::VhostUser,
            socket: "/run/<&>.sock".into(),
            read_only: true,
            serial: Some("\"1\"".to_owned()),
            cache: Some("flash".parse().unwrap()),
            write_policy: WritePolicy::Back,
            adds_memory: true,
        }
    }

    fn domain(element: &str) -> String {
        format!(
            "<domain><metadata>{}</metadata></domain>",
            wrapped(element, "")
        )
    }

    #[test]
    fn what_is_written_is_read_again() {
        let plain = Record {
            origin: {
                let mut origin = parse_origin("/srv/a b.raw").unwrap();
                if let OriginConfig::File(file) = &mut origin {
                    file.format = OriginFormat::Raw;
                }
                origin
            },
            via: FrontEndWord::Nbd,
            read_only: false,
            serial: None,
            cache: None,
            write_policy: WritePolicy::Through,
            adds_memory: false,
            ..record()
        };
        for record in [record(), plain] {
            let before = Before {
                libvirt_type: "file".to_owned(),
                snapshot: Some("external".to_owned()),
                elements: vec!["<source file='/o'/>"],
            };
            let xml = domain(&record.element(&before, "\n"));
            assert_eq!(records(&xml), Ok(vec![record]));
        }
        assert_eq!(records("<domain/>"), Ok(Vec::new()));
    }

    #[test]
    fn a_clone_does_not_have_the_disk() {
        let metadata = domain(&record().element(&Before::default(), ""));
        let with =
            |uuid: &str| metadata.replace("<metadata>", &format!("<uuid>{uuid}</uuid><metadata>"));
        assert!(records(&with("1-2")).is_ok());
        let error = records(&with("1-3")).unwrap_err().to_string();
        assert!(
            error.contains("a clone") && error.contains("virsh edit"),
            "{error}"
        );
    }

    #[test]
    fn metadata_of_another_form_are_no_disks() {
        let xml = domain(&record().element(&Before::default(), ""));
        for (from, to) in [
            (NAMESPACE, "urn:hearth:libvirt:9"),
            ("vm=", "wm="),
            ("vhost-user", "ublk"),
        ] {
            assert!(records(&xml.replace(from, to)).is_err(), "{to}");
        }
    }
}
