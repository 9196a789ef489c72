//! What follows from a disk's name, id and origin: its identity, serial number and socket; and the canonical
//! text of its origin.

use super::model::DiskConfig;
use super::origins::OriginConfig;
use super::text::{Switch, Text};
use super::vhost::VhostUserConfig;
use super::words::Name;
use std::path::PathBuf;
use units::DiskId;

/// Longest serial number, in bytes: what virtio has room for.
pub(super) const SERIAL_BYTES_MAX: usize = 20;

/// One text for an origin however it was spelled: `file:/path`, or the canonical NBD URI.
pub fn canonical_origin(origin: &OriginConfig) -> String {
    origin.canonical()
}

/// The disk's id: the one it was given, or one made of its name and its canonical origin.
///
/// So a disk that is renamed, or moved to another origin, is another disk: its old blocks are
/// not served. To keep them over a rename, write the old id down as `id`.
pub fn disk_id(disk: &DiskConfig) -> DiskId {
    if let Some(id) = disk.id {
        return id.0;
    }
    let mut text = disk.name.as_str().as_bytes().to_vec();
    // A name holds no zero byte, so no other pair has the same concatenation.
    text.push(0);
    text.extend_from_slice(canonical_origin(&disk.origin).as_bytes());
    DiskId::from_u128(xxhash_rust::xxh3::xxh3_128(&text))
}

/// The serial number of a disk: what is written, or its name, or as much of its identity as fits if
/// the name is longer than a serial number.
pub fn serial(disk: &DiskConfig) -> String {
    if let Some(serial) = &disk.vhost_user.serial {
        return serial.clone();
    }
    let name = disk.name.as_str();
    if name.len() <= SERIAL_BYTES_MAX {
        return name.to_owned();
    }
    let mut id = disk_id(disk).to_string();
    id.truncate(SERIAL_BYTES_MAX);
    id
}

/// Where a disk listens for its VM, or a base image for this reader; nothing if it does not.
pub fn vhost_socket(
    common: &VhostUserConfig,
    disk: &DiskConfig,
    reader: Option<&Name>,
) -> Option<PathBuf> {
    match &disk.vhost_user.socket {
        Some(Text(Switch::Off)) => None,
        Some(Text(Switch::On(path))) if !disk.shared => Some(path.0.clone()),
        Some(_) | None => {
            let directory = common.directory.0.as_ref()?;
            let file = match reader {
                Some(vm) => format!("{}@{vm}.sock", disk.name),
                None => format!("{}.sock", disk.name),
            };
            Some(directory.0.join(file))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn id(name: &str, origin: &str) -> DiskId {
        let text = format!(
            "[[cache]]\nname='c'\npath='/c'\n[[disk]]\nname='{name}'\norigin={{{origin}}}\n"
        );
        disk_id(&parse(&text).unwrap().disks[0])
    }

    #[test]
    fn the_default_id_never_changes_between_releases() {
        assert_eq!(
            id("web", "file='/images/web.raw'").to_string(),
            "47b85203caf81ce19caa7393b2f07573"
        );
    }

    #[test]
    fn spelling_does_not_matter_but_name_and_origin_do() {
        let base = id("web", "nbd='nbd://store:10809/web'");
        assert_eq!(id("web", "nbd='nbd://STORE/web'"), base);
        assert_ne!(id("web", "nbd='nbd://store/web2'"), base);
        assert_ne!(id("web2", "nbd='nbd://store/web'"), base);
    }
}
