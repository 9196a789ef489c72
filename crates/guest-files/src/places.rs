//! Which file a range of a disk belongs to: the extents of files that are known.

use crate::handle::Handle;
use crate::limits::EXTENTS_MAX;
use crate::plan::Extent;
use std::collections::BTreeMap;
use std::ops::Range;

/// The extents of files, by disk and address. `D` names a disk.
#[derive(Clone, Debug)]
pub struct Places<D> {
    extents: BTreeMap<(D, u64), Place>,
    files: Vec<Handle>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    length: u64,
    file: usize,
    offset: u64,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which file.
    pub handle: Handle,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

impl<D> Default for Places<D> {
    fn default() -> Self {
        Self {
            extents: BTreeMap::new(),
            files: Vec::new(),
        }
    }
}

impl<D: Ord + Copy> Places<D> {
    /// A file has these extents of a disk, whose file system begins at `start` of it. What is beyond [`EXTENTS_MAX`] is left
    /// out.
    pub fn add(&mut self, disk: D, start: u64, handle: &Handle, extents: &[Extent]) {
        let file = self.files.len();
        self.files.push(handle.clone());
        for extent in extents {
            let Some(address) = start.checked_add(extent.address) else {
                continue;
            };
            if self.extents.len() < EXTENTS_MAX && extent.length > 0 {
                let place = Place {
                    length: extent.length,
                    file,
                    offset: extent.offset,
                };
                self.extents.insert((disk, address), place);
            }
        }
    }

    /// The parts of files that a range of a disk has, in the order of the disk.
    pub fn parts(&self, disk: D, range: Range<u64>) -> Vec<Part> {
        let before = self.extents.range(..=(disk, range.start)).next_back();
        let before = before.filter(|((on, at), _)| *on == disk && *at < range.start);
        let within = self
            .extents
            .range((disk, range.start)..(disk, range.end.max(range.start)));
        let found = before.into_iter().chain(within);
        found
            .filter_map(|((_, address), place)| {
                let from = range.start.max(*address);
                let to = range.end.min(address.saturating_add(place.length));
                (from < to).then(|| Part {
                    handle: self.files[place.file].clone(),
                    offset: place.offset.saturating_add(from - address),
                    length: to - from,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: u8) -> Handle {
        Handle::new(1, 1, &[name]).unwrap()
    }

    fn extent(offset: u64, address: u64, length: u64) -> Extent {
        Extent {
            offset,
            address,
            length,
        }
    }

    fn part(name: u8, offset: u64, length: u64) -> Part {
        Part {
            handle: named(name),
            offset,
            length,
        }
    }

    #[test]
    fn a_range_is_cut_into_the_parts_of_files() {
        let mut places = Places::default();
        places.add(
            7,
            1000,
            &named(1),
            &[extent(0, 0, 100), extent(100, 300, 50)],
        );
        places.add(7, 1000, &named(2), &[extent(0, 100, 100)]);
        places.add(8, 0, &named(3), &[extent(0, 0, 5000)]);
        let expected = [part(1, 90, 10), part(2, 0, 100), part(1, 100, 10)];
        assert_eq!(places.parts(7, 1090..1310), expected);
        assert_eq!(places.parts(7, 1200..1300), [], "between files");
        assert_eq!(places.parts(9, 0..u64::MAX), []);
        assert_eq!(places.parts(8, 10..11), [part(3, 10, 1)]);
    }

    proptest! {
        /// As a table of bytes has it.
        #[test]
        fn each_byte_is_of_the_file_that_has_it(
            lengths in proptest::collection::vec((1..9_u64, any::<bool>()), 1..12),
            range in (0..100_u64, 0..100_u64),
        ) {
            let (mut places, mut table, mut at) = (Places::default(), vec![None; 200], 0_u64);
            for (name, (length, is_file)) in (0..).zip(lengths) {
                if is_file {
                    places.add(0, 0, &named(name), &[extent(5, at, length)]);
                    for byte in 0..length {
                        table[usize::try_from(at + byte).unwrap()] = Some((named(name), 5 + byte));
                    }
                }
                at += length;
            }
            let range = range.0.min(range.1)..range.0.max(range.1);
            let found = places.parts(0, range.clone());
            let found: Vec<_> = found.into_iter().flat_map(|part| {
                (0..part.length).map(move |byte| (part.handle.clone(), part.offset + byte))
            }).collect();
            let expected: Vec<_> = range
                .filter_map(|byte| table[usize::try_from(byte).unwrap()].clone())
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
