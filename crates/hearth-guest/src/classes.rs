//! What the agent tells the host of ranges of the disks: what not to keep, and what will be wanted again.
//!
//! ```text
//!   /proc/swaps ────────────► swap        files below --once ────────► once
//!   superblocks ────────────► journal     files that matter (Maps) ──► preferred
//!   files below --temporary ► temporary
//! ```
//!
//! Told once the host listens, and again when something has changed; if that is among what is not worth keeping, a `Hello` first,
//! which begins anew.

use crate::disks::Device;
use crate::kernel::extents;
use crate::mounts::unescaped;
use crate::preload::{FileSystems, open};
use guest_files::{Extent, Maps, Places, journal};
use guest_protocol::{ByteRange, Class, Message, RANGES_MAX, Serial};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use units::{Bytes, Offset};

/// Ranges that are told at most: 64 frames, which are a part of what the host takes in a second.
const TOLD_MAX: usize = 4096;
/// Files below the folders of one class that are looked at, and how deep.
const FILES_MAX: usize = 1024;
const DEPTH_MAX: usize = 8;

/// The folders whose files are of a class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folders {
    pub(crate) temporary: Vec<PathBuf>,
    pub(crate) once: Vec<PathBuf>,
}

/// What is known of ranges, in the order in which it is told: of a block the last word counts.
#[derive(Default)]
struct Classes {
    /// By class and disk.
    ranges: BTreeMap<(Order, Serial), Vec<ByteRange>>,
    /// Where the ranges begin.
    starts: BTreeSet<(Serial, u64)>,
    told: usize,
}

/// What was written over a file that mattered is no file that matters.
type Order = usize;

const ORDER: [Class; 5] = [
    Class::Preferred,
    Class::Once,
    Class::Temporary,
    Class::Journal,
    Class::Swap,
];

/// The messages that tell it, and where the files are that matter.
pub(crate) fn messages(
    maps: &Maps,
    file_systems: &FileSystems,
    folders: &Folders,
) -> (Vec<Message>, Places<Serial>) {
    let mut classes = Classes::default();
    classes.add_swaps();
    for mount in file_systems.values() {
        classes.add_journal(mount);
    }
    for (paths, class) in [
        (&folders.temporary, Class::Temporary),
        (&folders.once, Class::Once),
    ] {
        let mut left = FILES_MAX;
        for path in paths {
            classes.add_below(path, class, DEPTH_MAX, &mut left);
        }
    }
    let mut places = Places::default();
    for (handle, _) in maps.kept() {
        let file = open(file_systems, handle).ok();
        let Some((device, extents)) = file.and_then(|file| where_is(&file)) else {
            continue;
        };
        places.add(device.serial, device.start.get(), handle, &extents);
        if !classes.has_any(&device, &extents) {
            classes.add_extents(&device, &extents, Class::Preferred);
        }
    }
    (classes.into_messages(), places)
}

/// Of what is told, what is not worth keeping.
pub(crate) fn keep_out(messages: &[Message]) -> impl Iterator<Item = &Message> {
    messages.iter().filter(|message| {
        !matches!(
            message,
            Message::Classes {
                class: Class::Preferred,
                ..
            }
        )
    })
}

/// The device that a file is on, and its extents there.
fn where_is(file: &File) -> Option<(Device, Vec<Extent>)> {
    let device = Device::of(file.metadata().ok()?.dev())?;
    Some((device, extents::of(file).ok()?))
}

impl Classes {
    fn add(&mut self, device: &Device, class: Class, (offset, length): (u64, u64)) {
        let start = device.start.get().checked_add(offset);
        let range = start.and_then(|at| ByteRange::new(Offset::new(at), Bytes::new(length)));
        if let (Some(range), true) = (range, self.told < TOLD_MAX) {
            let order = ORDER.iter().position(|one| *one == class).unwrap_or(0);
            let ranges = self.ranges.entry((order, device.serial)).or_default();
            ranges.push(range);
            self.starts.insert((device.serial, range.offset().get()));
            self.told += 1;
        }
    }

    fn add_swaps(&mut self) {
        let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
        for path in swaps(&text) {
            let Ok(about) = std::fs::metadata(&path) else {
                continue;
            };
            if about.is_file() {
                if let Ok(file) = File::open(&path) {
                    self.add_file(&file, Class::Swap);
                }
            } else if let Some(device) = Device::of(about.rdev()) {
                self.add(&device, Class::Swap, (0, device.length.get()));
            }
        }
    }

    fn add_journal(&mut self, mount: &Path) {
        let about = std::fs::metadata(mount).ok();
        let Some(device) = about.and_then(|about| Device::of(about.dev())) else {
            return;
        };
        let mut head = [0; journal::SUPERBLOCK_BYTES];
        // A unit that gives the agent no disks hides them: then the journal is like any other block.
        let read = File::open(device.node()).and_then(|mut node| node.read_exact(&mut head));
        if read.is_ok() {
            for range in journal::ranges(&head) {
                let length = range.end - range.start;
                self.add(&device, Class::Journal, (range.start, length));
            }
        }
    }

    fn add_below(&mut self, folder: &Path, class: Class, depth: usize, left: &mut usize) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            if *left == 0 {
                return;
            }
            *left -= 1;
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && depth > 0 {
                self.add_below(&entry.path(), class, depth - 1, left);
            } else if kind.is_file()
                && let Ok(file) = File::open(entry.path())
            {
                self.add_file(&file, class);
            }
        }
    }

    fn add_file(&mut self, file: &File, class: Class) {
        if let Some((device, extents)) = where_is(file) {
            self.add_extents(&device, &extents, class);
        }
    }

    /// Whether something is said of a file already: one that is kept out is not told as wanted even for a moment.
    fn has_any(&self, device: &Device, extents: &[Extent]) -> bool {
        let starts = extents.iter().map(|extent| extent.address);
        let mut starts = starts.filter_map(|at| device.start.get().checked_add(at));
        starts.any(|at| self.starts.contains(&(device.serial, at)))
    }

    fn add_extents(&mut self, device: &Device, extents: &[Extent], class: Class) {
        for extent in extents {
            self.add(device, class, (extent.address, extent.length));
        }
    }

    fn into_messages(self) -> Vec<Message> {
        let mut messages = Vec::new();
        for ((order, serial), mut ranges) in self.ranges {
            ranges.sort_unstable_by_key(|range| range.offset());
            messages.extend(ranges.chunks(RANGES_MAX).map(|ranges| Message::Classes {
                serial,
                class: ORDER[order],
                ranges: ranges.to_vec(),
            }));
        }
        messages
    }
}

/// The paths of swap space, of `/proc/swaps`.
fn swaps(text: &str) -> Vec<PathBuf> {
    let lines = text.lines().skip(1);
    let paths = lines.filter_map(|line| line.split_whitespace().next());
    paths
        .filter(|path| path.starts_with('/'))
        .map(unescaped)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(serial: &str, start: u64) -> Device {
        Device::sample(serial, Offset::new(start))
    }

    #[test]
    fn swap_space_is_found_by_its_paths() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/vda2                               partition\t1000\t0\t-2\n\
                    /swap\\040file                          file\t1000\t0\t-3\n";
        let expected = [PathBuf::from("/dev/vda2"), PathBuf::from("/swap file")];
        assert_eq!(swaps(text), expected);
        assert_eq!(swaps(""), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_is_not_worth_keeping_is_told_last_and_by_the_disks_own_addresses() {
        let mut classes = Classes::default();
        let part = device("web-1", 1 << 20);
        classes.add(&part, Class::Swap, (0, 4096));
        classes.add(&part, Class::Preferred, (8192, 4096));
        classes.add(&part, Class::Preferred, (4096, 4096));
        classes.add(&part, Class::Preferred, (u64::MAX, 4096));
        let told = classes.into_messages();
        let [
            Message::Classes {
                class: Class::Preferred,
                ranges,
                ..
            },
            Message::Classes {
                class: Class::Swap, ..
            },
        ] = &told[..]
        else {
            panic!("{told:?}");
        };
        let starts: Vec<u64> = ranges.iter().map(|range| range.offset().get()).collect();
        assert_eq!(starts, [(1 << 20) + 4096, (1 << 20) + 8192]);
    }

    #[test]
    fn no_more_is_told_than_fits_the_frames_of_a_second() {
        let mut classes = Classes::default();
        for at in 0..2 * TOLD_MAX as u64 {
            classes.add(&device("web-1", 0), Class::Once, (8192 * at, 4096));
        }
        assert_eq!(classes.into_messages().len(), TOLD_MAX / RANGES_MAX);
    }
}
