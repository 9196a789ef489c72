//! What `virsh domstats --raw` prints of all VMs: a line of each VM's name, and indented lines `key=value`.

use crate::vm::{BlockReading, VmFigures, VmReading};

/// Bytes that `virsh domstats` may print: a VM with 64 processors and ten disks has 10 KiB.
pub const DOMSTATS_BYTES_MAX: usize = 4 << 20;

/// libvirt counts memory in these.
const KIB: u64 = 1024;

/// What libvirt says of its VMs, in its order. Keys that are not known are skipped, as a later libvirt has more of them.
///
/// # Errors
/// If a line is none that `virsh domstats` prints, or a figure that is needed is not a whole number.
pub fn domstats(text: &str) -> Result<Vec<VmReading>, DomstatsError> {
    let mut vms: Vec<VmReading> = Vec::new();
    for (at, line) in (1..).zip(text.lines()) {
        let wrong = || DomstatsError { line: at };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix("Domain: '") {
            vms.push(VmReading {
                vm: name.strip_suffix('\'').ok_or_else(wrong)?.to_owned(),
                ..VmReading::default()
            });
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(wrong)?;
        let vm = vms.last_mut().ok_or_else(wrong)?;
        take(&mut vm.figures, key, value).ok_or_else(wrong)?;
    }
    Ok(vms)
}

/// A line of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not what virsh domstats --raw prints")]
pub struct DomstatsError {
    /// Which, from 1.
    pub line: usize,
}

/// A figure of a VM. None if it is not a number.
fn take(figures: &mut VmFigures, key: &str, value: &str) -> Option<()> {
    let number = || value.parse::<u64>().ok();
    match key {
        "vcpu.current" => figures.vcpus = Some(number()?),
        "balloon.maximum" => figures.given_memory_bytes = Some(number()?.checked_mul(KIB)?),
        "balloon.current" => figures.balloon_bytes = Some(number()?.checked_mul(KIB)?),
        _ => {
            // `block.0.rd.bytes`; a path or a name has no such end.
            let of_disk = key
                .strip_prefix("block.")
                .and_then(|rest| rest.split_once('.'));
            let mut disk = BlockReading::default();
            match of_disk.map_or("", |(_, what)| what) {
                "rd.bytes" => disk.read_bytes = number()?,
                "wr.bytes" => disk.written_bytes = number()?,
                "rd.reqs" => disk.reads = number()?,
                "wr.reqs" => disk.writes = number()?,
                _ => return Some(()),
            }
            figures.block = Some(figures.block.unwrap_or_default().with(disk));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What libvirt 9.0 said of two VMs.
    const TWO: &str = include_str!("../fixtures/domstats.txt");

    #[test]
    fn two_vms_are_read() {
        let read = domstats(TWO).unwrap();
        let [web, db] = &read[..] else {
            panic!("{read:?}")
        };
        assert_eq!((web.vm.as_str(), db.vm.as_str()), ("web", "db"));
        let expected = VmFigures {
            vcpus: Some(2),
            given_memory_bytes: Some(256 << 20),
            balloon_bytes: Some(256 << 20),
            block: Some(BlockReading {
                read_bytes: 512,
                reads: 1,
                ..BlockReading::default()
            }),
        };
        assert_eq!(web.figures, expected);
        assert_eq!((db.figures.vcpus, db.figures.block), (Some(1), None));
    }

    #[test]
    fn the_disks_of_a_vm_are_added_up() {
        let text = "Domain: 'web'\n  block.count=2\n  block.0.name=vda\n  block.0.path=/srv/a.rd.bytes=7\n  \
            block.0.rd.reqs=1\n  block.0.rd.bytes=512\n  block.1.rd.reqs=2\n  block.1.rd.bytes=1024\n  \
            block.1.wr.reqs=3\n  block.1.wr.bytes=4096\n\n";
        let read = domstats(text).unwrap();
        let expected = BlockReading {
            read_bytes: 1536,
            written_bytes: 4096,
            reads: 3,
            writes: 3,
        };
        assert_eq!(read[0].figures.block, Some(expected));
    }

    #[test]
    fn a_line_of_another_kind_is_named() {
        for (text, line) in [
            ("error: failed to connect to the hypervisor\n", 1),
            ("  vcpu.current=1\n", 1),
            ("Domain: 'web\n", 1),
            ("Domain: 'web'\n\n  vcpu.current=-1\n", 3),
            ("Domain: 'web'\n  balloon.maximum=18446744073709551615\n", 2),
        ] {
            assert_eq!(domstats(text), Err(DomstatsError { line }), "{text}");
        }
        assert_eq!(domstats(""), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn changed_characters_never_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<char>()), 0..8),
        ) {
            let mut text: Vec<char> = TWO.chars().collect();
            for (at, character) in changes {
                let at = at.index(text.len());
                text[at] = character;
            }
            let text: String = text.into_iter().collect();
            let _ = domstats(&text);
        }
    }
}
