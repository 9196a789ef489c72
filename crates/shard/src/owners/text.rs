//! The bytes of an owner's record. Version 1 did not say which file the origin was. Only the record of a disk
//! that roams has version 3, only one in the store of a cluster has version 4, and only one of those that says where the
//! disk may go has version 5, so that a program which knows nothing of that does not serve the disk.

use super::{Attachment, Holder, Owner};
use cache::OwnerRecord;
use durable_file::SECTOR_BYTES;
use origin::Identity;
use serde::{Deserialize, Serialize};
use std::path::Path;
use units::DiskId;
use xxhash_rust::xxh3::xxh3_64;

/// The version of the record of a disk that stays on its host; those before it are read, too.
const VERSION: u32 = 2;
/// The version of the record of a disk that roams.
const VERSION_ROAMING: u32 = 3;
/// The version of a record in the store of a cluster.
const VERSION_IN_CLUSTER: u32 = 4;
/// The version of such a record that says where the disk may go.
const VERSION_NAMING: u32 = 5;
/// The longest record that is read: names are below 300 bytes.
pub(super) const RECORD_BYTES_MAX: u64 = 4096;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    disk: String,
    epoch: u64,
    state: State,
    cache: String,
    cache_name: String,
    host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<File>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<HolderText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attachment: Option<AttachmentText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    may_go_to: Option<String>,
    check: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HolderText {
    host: String,
    epoch: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttachmentText {
    serial: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Open,
    Closed,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    inode: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<i64>,
}

/// What a record says.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) record: OwnerRecord,
    pub(super) cache_name: &'a str,
    pub(super) host: &'a str,
    pub(super) identity: Option<Identity>,
    pub(super) holder: Option<&'a Holder>,
    pub(super) attachment: Option<&'a Attachment>,
}

impl<'a> Said<'a> {
    /// As it was found.
    pub(super) fn by(owner: &'a Owner) -> Self {
        Self {
            record: owner.record,
            cache_name: &owner.cache_name,
            host: &owner.host,
            identity: owner.identity,
            holder: owner.holder.as_ref(),
            attachment: owner.attachment.as_ref(),
        }
    }

    fn version(self) -> u32 {
        match (self.attachment, self.holder) {
            (Some(attachment), _) if attachment.may_go_to.is_some() => VERSION_NAMING,
            (Some(_), _) => VERSION_IN_CLUSTER,
            (None, Some(_)) => VERSION_ROAMING,
            (None, None) => VERSION,
        }
    }
}

/// A record, filled up with spaces to a sector if it fits into one.
pub(super) fn encode(disk: DiskId, said: Said<'_>) -> Vec<u8> {
    let record = said.record;
    let state = if record.open {
        State::Open
    } else {
        State::Closed
    };
    let of_file = |Identity { inode, born }| File { inode, born };
    let mut text = Text {
        version: said.version(),
        disk: disk.to_string(),
        epoch: record.epoch,
        state,
        cache: format!("{:032x}", record.cache),
        cache_name: said.cache_name.to_owned(),
        host: said.host.chars().take(64).collect(),
        origin: said.identity.map(of_file),
        holder: said.holder.map(|Holder { host, epoch }| HolderText {
            host: host.clone(),
            epoch: *epoch,
        }),
        attachment: said
            .attachment
            .map(|Attachment { serial, host, .. }| AttachmentText {
                serial: *serial,
                host: host.clone(),
            }),
        may_go_to: said.attachment.and_then(|of| of.may_go_to.clone()),
        check: String::new(),
    };
    text.check = check(&text);
    let mut bytes = serde_json::to_vec_pretty(&text).expect("a record is plain data");
    let room = SECTOR_BYTES.saturating_sub(bytes.len() + 1);
    bytes.resize(bytes.len() + room, b' ');
    bytes.push(b'\n');
    bytes
}

/// A record that is whole, of a version that is known.
pub(super) fn decode(bytes: &[u8], path: &Path) -> Option<(DiskId, Owner)> {
    let text: Text = serde_json::from_slice(bytes).ok()?;
    if !(1..=VERSION_NAMING).contains(&text.version) || text.check != check(&text) {
        return None;
    }
    let record = OwnerRecord {
        epoch: text.epoch,
        cache: u128::from_str_radix(&text.cache, 16).ok()?,
        open: text.state == State::Open,
    };
    let identity = text
        .origin
        .map(|File { inode, born }| Identity { inode, born });
    let owner = Owner {
        record,
        cache_name: text.cache_name,
        host: text.host,
        path: path.to_owned(),
        identity,
        holder: text
            .holder
            .map(|HolderText { host, epoch }| Holder { host, epoch }),
        attachment: text
            .attachment
            .map(|AttachmentText { serial, host }| Attachment {
                serial,
                host,
                may_go_to: text.may_go_to,
            }),
    };
    Some((text.disk.parse().ok()?, owner))
}

/// Over every other field: a flipped bit must not make an open record closed.
fn check(text: &Text) -> String {
    let Text {
        version,
        disk,
        epoch,
        state,
        cache,
        cache_name,
        host,
        origin,
        holder,
        attachment,
        may_go_to,
        check: _,
    } = text;
    let before = format!("{version}\n{disk}\n{epoch}\n{state:?}\n{cache}\n{cache_name}\n{host}\n");
    let all = match version {
        1 => before,
        2 => format!("{before}{origin:?}\n"),
        3 => format!("{before}{origin:?}\n{holder:?}\n"),
        4 => format!("{before}{origin:?}\n{holder:?}\n{attachment:?}\n"),
        _ => format!("{before}{origin:?}\n{holder:?}\n{attachment:?}\n{may_go_to:?}\n"),
    };
    format!("{:016x}", xxh3_64(all.as_bytes()))
}

/// What this host is called by its system.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: OwnerRecord = OwnerRecord {
        epoch: u64::MAX,
        cache: u128::MAX,
        open: false,
    };

    #[test]
    fn a_record_of_the_longest_names_fits_into_a_sector() {
        let born = Some(i64::MIN);
        let inode = u64::MAX;
        let identity = Some(Identity { inode, born });
        let name = "n".repeat(64);
        let said = Said {
            record: RECORD,
            cache_name: &name,
            host: &host(),
            identity,
            holder: None,
            attachment: None,
        };
        let bytes = encode(DiskId::from_u128(u128::MAX), said);
        assert_eq!(bytes.len(), SECTOR_BYTES);
        let (disk, owner) = decode(&bytes, Path::new("/r")).unwrap();
        assert_eq!(disk, DiskId::from_u128(u128::MAX));
        assert_eq!((owner.record, owner.identity), (RECORD, identity));
    }

    #[test]
    fn a_record_in_a_cluster_says_who_has_the_disk_attached() {
        let holder = Holder {
            host: "node-a".to_owned(),
            epoch: 3,
        };
        for (host, may_go_to) in [
            (None, None),
            (Some("node-b".to_owned()), None),
            (Some("node-b".to_owned()), Some("node-c".to_owned())),
        ] {
            let attachment = Attachment {
                serial: 9,
                host,
                may_go_to,
            };
            let said = Said {
                record: RECORD,
                cache_name: "main",
                host: "node-b",
                identity: None,
                holder: Some(&holder),
                attachment: Some(&attachment),
            };
            let bytes = encode(DiskId::from_u128(1), said);
            let (_, owner) = decode(&bytes, Path::new("/r")).unwrap();
            assert_eq!(owner.attachment.as_ref(), Some(&attachment));
            assert_eq!(owner.holder.as_ref(), Some(&holder));
            let text = String::from_utf8(bytes).unwrap();
            let other = text.replace("\"serial\": 9", "\"serial\": 8");
            assert!(decode(other.as_bytes(), Path::new("/r")).is_none());
            let other = text.replace("node-c", "node-d");
            let is_same = other == text;
            assert_eq!(decode(other.as_bytes(), Path::new("/r")).is_some(), is_same);
        }
    }

    #[test]
    fn a_record_of_version_1_is_read() {
        let bytes = br#"{
  "version": 1,
  "disk": "00000000000000000000000000000001",
  "epoch": 1,
  "state": "closed",
  "cache": "61a783a3d47fa13b900ec2d2dc51020e",
  "cache_name": "main",
  "host": "node-7",
  "check": "c8860bac1ced58b0"
}
"#;
        let (disk, owner) = decode(bytes, Path::new("/r")).unwrap();
        assert_eq!(disk, DiskId::from_u128(1));
        let record = OwnerRecord {
            epoch: 1,
            cache: 0x61a7_83a3_d47f_a13b_900e_c2d2_dc51_020e,
            open: false,
        };
        assert_eq!((owner.record, owner.identity), (record, None));
    }
}
