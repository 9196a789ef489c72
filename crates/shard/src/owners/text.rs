//! The bytes of an owner's record. Version 1 did not say which file the origin was; only the record of a disk
//! that roams has version 3, so that a program which knows nothing of that does not serve it.

use super::{Holder, Owner};
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
    check: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HolderText {
    host: String,
    epoch: u64,
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

/// A record, filled up with spaces to a sector if it fits into one.
pub(super) fn encode(
    disk: DiskId,
    record: OwnerRecord,
    cache_name: &str,
    identity: Option<Identity>,
    holder: Option<&Holder>,
) -> Vec<u8> {
    encode_of(disk, record, (cache_name, &host()), identity, holder)
}

/// The same, of a cache of this name at this host.
pub(super) fn encode_of(
    disk: DiskId,
    record: OwnerRecord,
    (cache_name, host): (&str, &str),
    identity: Option<Identity>,
    holder: Option<&Holder>,
) -> Vec<u8> {
    let mut text = Text {
        version: if holder.is_some() {
            VERSION_ROAMING
        } else {
            VERSION
        },
        disk: disk.to_string(),
        epoch: record.epoch,
        state: if record.open {
            State::Open
        } else {
            State::Closed
        },
        cache: format!("{:032x}", record.cache),
        cache_name: cache_name.to_owned(),
        host: host.chars().take(64).collect(),
        origin: identity.map(|Identity { inode, born }| File { inode, born }),
        holder: holder.map(|Holder { host, epoch }| HolderText {
            host: host.clone(),
            epoch: *epoch,
        }),
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
    if !(1..=VERSION_ROAMING).contains(&text.version) || text.check != check(&text) {
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
        check: _,
    } = text;
    let before = format!("{version}\n{disk}\n{epoch}\n{state:?}\n{cache}\n{cache_name}\n{host}\n");
    let all = match version {
        1 => before,
        2 => format!("{before}{origin:?}\n"),
        _ => format!("{before}{origin:?}\n{holder:?}\n"),
    };
    format!("{:016x}", xxh3_64(all.as_bytes()))
}

/// What this host is called, for messages.
pub(super) fn host() -> String {
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
        let bytes = encode(DiskId::from_u128(u128::MAX), RECORD, &name, identity, None);
        assert_eq!(bytes.len(), SECTOR_BYTES);
        let (disk, owner) = decode(&bytes, Path::new("/r")).unwrap();
        assert_eq!(disk, DiskId::from_u128(u128::MAX));
        assert_eq!((owner.record, owner.identity), (RECORD, identity));
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
