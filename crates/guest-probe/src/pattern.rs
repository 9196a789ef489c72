//! What the probe writes: pages of 4 KiB that say what they are.
//!
//! ```text
//!   0        8        16       24                                   4096
//!   ┌────────┬────────┬────────┬─────────────────────────────────────┐
//!   │ magic  │ place  │ version│ a stream that follows from the three│   little-endian
//!   └────────┴────────┴────────┴─────────────────────────────────────┘
//! ```
//!
//! `place` names the file and page, or the disk's page; `version` counts rewrites. A page of another
//! place, of an older version, or torn between two versions can be told apart from the right one.

/// Bytes in a page, the unit of what is written and checked.
pub(crate) const PAGE_BYTES: usize = 4096;
const MAGIC: u64 = 0x6562_6f72_5068_7248;

/// Where a page belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u64);

impl Place {
    /// Page `page` of file number `file`. Files are numbered from 1.
    pub(crate) fn in_file(file: u64, page: u64) -> Self {
        assert!(page < 1 << 32, "a probe file has fewer than 2^32 pages");
        assert!(file < 1 << 31, "there are fewer than 2^31 probe files");
        Self((file << 32) | page)
    }

    /// Page `page` of memory, which has the place of a file before the first.
    pub(crate) fn in_memory(page: u64) -> Self {
        assert!(page < 1 << 32, "a probe's memory has fewer than 2^32 pages");
        Self(page)
    }

    /// Page `page` of a whole disk.
    pub(crate) fn on_disk(page: u64) -> Self {
        assert!(page < 1 << 63, "a disk has fewer than 2^63 pages");
        Self((1 << 63) | page)
    }
}

/// What a page turned out to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A whole page of ours, for that place, of this version.
    Version(u64),
    /// A whole page of ours, but of somewhere else.
    Elsewhere(u64),
    /// Begins as one of ours, and does not go on as such.
    Torn,
    /// Only zeroes.
    Zeroes,
    /// Nothing that we ever wrote.
    Foreign,
}

/// Writes the page of `place` and `version` into `page`.
pub(crate) fn fill(page: &mut [u8; PAGE_BYTES], place: Place, version: u64) {
    let mut stream = Stream::new(place.0, version);
    let head = [MAGIC, place.0, version];
    for (index, word) in page.chunks_exact_mut(8).enumerate() {
        let value = head.get(index).copied().unwrap_or_else(|| stream.next());
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// Says what `page` holds, given where it was read.
pub(crate) fn inspect(page: &[u8; PAGE_BYTES], place: Place) -> Found {
    let word = |index: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&page[index * 8..index * 8 + 8]);
        u64::from_le_bytes(bytes)
    };
    if word(0) != MAGIC {
        return if page.iter().all(|byte| *byte == 0) {
            Found::Zeroes
        } else {
            Found::Foreign
        };
    }
    let (written_for, version) = (word(1), word(2));
    let mut stream = Stream::new(written_for, version);
    if (3..PAGE_BYTES / 8).any(|index| word(index) != stream.next()) {
        return Found::Torn;
    }
    if written_for == place.0 {
        Found::Version(version)
    } else {
        Found::Elsewhere(written_for)
    }
}

/// Numbers that look like noise and follow from where they start: Weyl steps through a mixer.
pub(crate) struct Stream {
    state: u64,
}

impl Stream {
    /// A stream of its own for each pair.
    pub(crate) fn new(first: u64, second: u64) -> Self {
        Self {
            state: first.rotate_left(23) ^ second.wrapping_mul(0xd6e8_feb8_6659_fd93),
        }
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0xa076_1d64_78bd_642f);
        let mut word = self.state;
        word = (word ^ (word >> 32)).wrapping_mul(0xe703_7ed1_a0b4_28db);
        word = (word ^ (word >> 29)).wrapping_mul(0x8ebc_6af0_9c88_c6e3);
        word ^ (word >> 32)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "nothing is below zero");
        self.next() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_recognised_with_its_version() {
        let mut page = [0; PAGE_BYTES];
        fill(&mut page, Place::in_file(3, 9), 7);
        assert_eq!(inspect(&page, Place::in_file(3, 9)), Found::Version(7));
    }

    #[test]
    fn a_page_of_another_place_is_told_apart() {
        let mut page = [0; PAGE_BYTES];
        fill(&mut page, Place::in_file(3, 9), 7);
        assert!(matches!(
            inspect(&page, Place::in_file(3, 10)),
            Found::Elsewhere(_)
        ));
        assert!(matches!(
            inspect(&page, Place::on_disk(9)),
            Found::Elsewhere(_)
        ));
    }

    #[test]
    fn a_page_torn_between_two_versions_is_told_apart() {
        let (mut old, mut new) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
        fill(&mut old, Place::on_disk(1), 1);
        fill(&mut new, Place::on_disk(1), 2);
        old[..512].copy_from_slice(&new[..512]);
        assert_eq!(inspect(&old, Place::on_disk(1)), Found::Torn);
    }

    #[test]
    fn one_flipped_bit_is_seen() {
        let mut page = [0; PAGE_BYTES];
        fill(&mut page, Place::on_disk(1), 1);
        page[4095] ^= 1;
        assert_eq!(inspect(&page, Place::on_disk(1)), Found::Torn);
    }

    #[test]
    fn zeroes_and_foreign_bytes_are_told_apart() {
        assert_eq!(inspect(&[0; PAGE_BYTES], Place::on_disk(0)), Found::Zeroes);
        assert_eq!(inspect(&[1; PAGE_BYTES], Place::on_disk(0)), Found::Foreign);
    }
}
