//! What is wrong with `[vhost_user]` and `[disk.vhost_user]`.

use super::{SOCKET_PATH_BYTES_MAX, nbd_clients, socket};
use crate::fault::{Fault, absolute};
use crate::identity::{SERIAL_BYTES_MAX, vhost_socket};
use crate::model::{Config, DiskConfig};
use crate::text::{Auto, Switch, Text};
use crate::words::Name;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use units::Bytes;

/// What is wrong with a disk's part on its own; keys are relative to the disk.
pub(super) fn disk_faults(disk: &DiskConfig) -> Vec<Fault> {
    let mut faults = Vec::new();
    let vhost = &disk.vhost_user;
    if !matches!(vhost.sector_size.0.get(), 512 | 4096) {
        faults.push(Fault::new("vhost_user.sector_size", "must be 512B or 4KiB"));
    }
    if let Some(serial) = &vhost.serial
        && (serial.is_empty()
            || serial.len() > SERIAL_BYTES_MAX
            || !serial.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        let message =
            format!("must be 1 to {SERIAL_BYTES_MAX} printable ASCII characters without spaces");
        faults.push(Fault::new("vhost_user.serial", message));
    }
    if let Some(Text(Switch::On(path))) = &vhost.socket {
        socket(&path.0, "vhost_user.socket", &mut faults);
        if disk.shared {
            let message = "a shared disk has a socket for each VM that reads it: remove this, and set \
                           vhost_user.directory";
            faults.push(Fault::new("vhost_user.socket", message));
        }
    }
    faults
}

/// What is wrong with all sockets together.
pub(super) fn faults(config: &Config, faults: &mut Vec<Fault>) {
    let common = &config.vhost_user;
    if let Switch::On(directory) = &common.directory.0 {
        absolute(&directory.0, "vhost_user.directory", faults);
    }
    if let Switch::On(directory) = &config.guest.directory.0 {
        absolute(&directory.0, "guest.directory", faults);
        if common.directory.0.as_ref() == Some(directory) {
            let message =
                "is vhost_user.directory too: a VM and a disk of one name would have one socket";
            faults.push(Fault::new("guest.directory", message));
        }
    }
    for (key, value) in [
        ("vhost_user.memory_per_vm_max", common.memory_per_vm_max.0),
        ("vhost_user.memory_max", common.memory_max.0),
    ] {
        if value == Auto::Fixed(Bytes::ZERO) {
            faults.push(Fault::new(key, "must not be zero"));
        }
    }
    let mut taken: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut take = |path: &Path, key: String, what: String, faults: &mut Vec<Fault>| {
        if let Some(other) = taken.insert(path.to_owned(), what) {
            let message = format!("{} is {other} already", path.display());
            faults.push(Fault::new(key, message));
        }
    };
    for (path, key, what) in nbd_clients::sockets(config) {
        take(path, key, what, faults);
    }
    for (at, disk) in config.disks.iter().enumerate() {
        let vms = config.vms.iter();
        let readers: Vec<Option<&Name>> = if disk.shared {
            let readers = vms.filter(|vm| vm.images.contains(&disk.name));
            readers.map(|vm| Some(&vm.name)).collect()
        } else {
            vec![None]
        };
        for reader in readers {
            let Some(path) = vhost_socket(common, disk, reader) else {
                continue;
            };
            let key = if disk.vhost_user.socket.is_some() {
                format!("disk[{at}].vhost_user.socket")
            } else {
                too_long(&path, at, faults);
                format!("disk[{at}].name")
            };
            take(&path, key, format!("the socket of disk[{at}]"), faults);
        }
    }
}

/// A socket that a disk has by its name; those that are written down are checked where they are.
fn too_long(path: &Path, disk: usize, faults: &mut Vec<Fault>) {
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        let message = format!(
            "its socket would be {}, and a socket's path has at most {} bytes: write a shorter one as \
             vhost_user.socket, or \"off\"",
            path.display(),
            SOCKET_PATH_BYTES_MAX
        );
        faults.push(Fault::new(format!("disk[{disk}].name"), message));
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, serial, vhost_socket};

    const CACHE: &str = "[[cache]]\nname='c'\npath='/c'\n";

    fn disk(name: &str, rest: &str) -> String {
        format!("[[disk]]\nname='{name}'\norigin={{ file='/{name}' }}\n{rest}\n")
    }

    fn faults_of(text: &str) -> Vec<String> {
        let faults = parse(text).unwrap_err();
        faults.into_iter().map(|fault| fault.key).collect()
    }

    fn socket(text: &str, reader: Option<&str>) -> Option<String> {
        let config = parse(text).unwrap();
        let reader = reader.map(|name| name.parse().unwrap());
        let path = vhost_socket(&config.vhost_user, &config.disks[0], reader.as_ref());
        path.map(|path| path.display().to_string())
    }

    #[test]
    fn a_disk_has_the_socket_it_names_or_one_by_its_name() {
        let directory = format!("[vhost_user]\ndirectory='/v'\n{CACHE}");
        let own = disk("d", "vhost_user={ socket='/s' }");
        let off = disk("d", "vhost_user={ socket='off' }");
        let of = |text: String| socket(&text, None);
        assert_eq!(of(format!("{CACHE}{}", disk("d", ""))), None);
        assert_eq!(
            of(format!("{directory}{}", disk("d", ""))).unwrap(),
            "/v/d.sock"
        );
        assert_eq!(of(format!("{directory}{own}")).unwrap(), "/s");
        assert_eq!(of(format!("{CACHE}{own}")).unwrap(), "/s");
        assert_eq!(of(format!("{directory}{off}")), None);
        let shared = format!("{directory}{}", disk("d", "shared=true"));
        assert_eq!(socket(&shared, Some("vm")).unwrap(), "/v/d@vm.sock");
    }

    #[test]
    fn a_socket_belongs_to_one_disk_and_to_nothing_else() {
        let own = |name| disk(name, "vhost_user={ socket='/s' }");
        let text = format!("{CACHE}{}{}", own("a"), own("b"));
        assert_eq!(faults_of(&text), ["disk[1].vhost_user.socket"]);
        let text = format!(
            "[vhost_user]\ndirectory='/run/hearth'\n{CACHE}{}",
            disk("nbd", "")
        );
        assert_eq!(faults_of(&text), ["disk[0].name"]);
        let long = "/".to_owned() + &"x".repeat(90);
        let text = format!(
            "[vhost_user]\ndirectory='{long}'\n{CACHE}{}",
            disk("disk", "")
        );
        assert_eq!(faults_of(&text), ["disk[0].name"]);
        let shared = disk("d", "shared=true\nvhost_user={ socket='/s' }");
        assert_eq!(
            faults_of(&format!("{CACHE}{shared}")),
            ["disk[0].vhost_user.socket"]
        );
    }

    #[test]
    fn sectors_and_serial_numbers_are_what_guests_take() {
        for bad in [
            "sector_size='1KiB'",
            "serial=''",
            "serial='a b'",
            "serial='012345678901234567890'",
        ] {
            let text = format!("{CACHE}{}", disk("d", &format!("vhost_user={{ {bad} }}")));
            let key = format!("disk[0].vhost_user.{}", bad.split_once('=').unwrap().0);
            assert_eq!(faults_of(&text), [key]);
        }
        let of = |name: &str, rest: &str| {
            serial(
                &parse(&format!("{CACHE}{}", disk(name, rest)))
                    .unwrap()
                    .disks[0],
            )
        };
        assert_eq!(of("web-1", ""), "web-1");
        assert_eq!(of("web-1", "vhost_user={ serial='x' }"), "x");
        let id = "id='00112233445566778899aabbccddeeff'";
        assert_eq!(of("a-name-of-21-bytes-xx", id), "00112233445566778899");
    }
}
