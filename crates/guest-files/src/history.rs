//! The history as bytes that outlive a boot.
//!
//! ```text
//!   magic 8 │ version 4 │ files 4 │ crc32c of the rest 4 │ 0 4 │ files, the one first that was used longest ago
//!   file:  file system 8 │ size 8 │ uses 4 │ handle's kind 4 │ handle's bytes 2 │ write 1 │ mapped 1 │ handle
//! ```
//!
//! All numbers are little-endian. Bytes that are no history (torn, rotten, of another version) are an error, and
//! the agent begins with none: what it forgets costs speed only.

use crate::handle::Handle;
use crate::limits::FILES_MAX;
use crate::maps::{Maps, Use};
use crate::settings::Settings;
use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"HGuestHi";
const VERSION: u32 = 1;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    version: U32,
    files: U32,
    checksum: U32,
    zero: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Item {
    file_system: U64,
    size: U64,
    uses: U32,
    kind: I32,
    handle_bytes: U16,
    is_write: u8,
    is_mapped: u8,
}

/// Bytes that are no history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoHistory {
    /// They are something else, or of another version.
    #[error("not a history of version {VERSION}")]
    Foreign,
    /// They were torn, or have rotted.
    #[error("a history whose checksum is wrong")]
    Checksum,
    /// The checksum is right and the content is none that this program writes.
    #[error("a history that contradicts itself")]
    Content,
}

/// The history of `maps`.
pub fn encode(maps: &Maps) -> Vec<u8> {
    let files = maps.by_age();
    let mut rest = Vec::new();
    for file in &files {
        let handle = &file.handle;
        let item = Item {
            file_system: U64::new(handle.file_system()),
            size: U64::new(file.size_bytes),
            uses: U32::new(file.uses),
            kind: I32::new(handle.kind()),
            handle_bytes: U16::new(handle.length()),
            is_write: u8::from(file.last_use == Use::Write),
            is_mapped: u8::from(file.is_mapped),
        };
        rest.extend_from_slice(item.as_bytes());
        rest.extend_from_slice(handle.bytes());
    }
    let head = Head {
        magic: MAGIC,
        version: U32::new(VERSION),
        files: U32::new(file_count(&files)),
        checksum: U32::new(checksum(&rest)),
        zero: U32::ZERO,
    };
    [head.as_bytes(), &rest].concat()
}

/// The maps of a history.
///
/// # Errors
/// If the bytes are none; nothing of them is used then.
pub fn decode(bytes: &[u8], settings: Settings) -> Result<Maps, NoHistory> {
    let (head, mut rest) = Head::read_from_prefix(bytes).map_err(|_| NoHistory::Foreign)?;
    if head.magic != MAGIC || head.version.get() != VERSION {
        return Err(NoHistory::Foreign);
    }
    if head.checksum.get() != checksum(rest) {
        return Err(NoHistory::Checksum);
    }
    if head.files.get() as usize > FILES_MAX || head.zero.get() != 0 {
        return Err(NoHistory::Content);
    }
    let mut maps = Maps::new(settings);
    for _ in 0..head.files.get() {
        let (item, behind) = Item::read_from_prefix(rest).map_err(|_| NoHistory::Content)?;
        let length = usize::from(item.handle_bytes.get());
        let (handle, behind) = behind.split_at_checked(length).ok_or(NoHistory::Content)?;
        let handle = Handle::new(item.file_system.get(), item.kind.get(), handle);
        let handle = handle.map_err(|_| NoHistory::Content)?;
        let last_use = match item.is_write {
            0 => Use::Read,
            1 => Use::Write,
            _ => return Err(NoHistory::Content),
        };
        let about = (
            item.uses.get(),
            last_use,
            item.size.get(),
            item.is_mapped == 1,
        );
        maps.restore(handle, about);
        rest = behind;
    }
    if rest.is_empty() {
        Ok(maps)
    } else {
        Err(NoHistory::Content)
    }
}

fn file_count(files: &[&crate::maps::File]) -> u32 {
    u32::try_from(files.len()).expect("a bounded history")
}

fn checksum(rest: &[u8]) -> u32 {
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, rest);
    u32::try_from(checksum).expect("a checksum of 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_maps() -> impl Strategy<Value = Maps> {
        let uses = (0..40_u64, any::<bool>(), 0..5_u8, 1..40_usize);
        proptest::collection::vec(uses, 0..200).prop_map(|uses| {
            let mut maps = Maps::new(Settings::default());
            for (file, is_write, pause, length) in uses {
                let handle = Handle::new(file % 3, -1, &vec![7; length]).unwrap();
                maps.used(&handle, if is_write { Use::Write } else { Use::Read });
                maps.measured(&handle, file * 1000);
                if pause == 0 {
                    maps.end_epoch(u64::MAX);
                }
            }
            maps
        })
    }

    fn kept(maps: &Maps) -> Vec<(Handle, u64)> {
        maps.kept()
            .map(|(handle, size)| (handle.clone(), size))
            .collect()
    }

    proptest! {
        #[test]
        fn a_history_comes_back_as_it_was(maps in any_maps()) {
            let bytes = encode(&maps);
            let back = decode(&bytes, Settings::default()).unwrap();
            prop_assert_eq!(kept(&back), kept(&maps));
            prop_assert_eq!(encode(&back), bytes);
        }

        #[test]
        fn a_torn_or_rotten_history_is_none(maps in any_maps(), at in any::<prop::sample::Index>()) {
            let bytes = encode(&maps);
            let at = at.index(bytes.len());
            prop_assert!(decode(&bytes[..at], Settings::default()).is_err());
            let mut rotten = bytes;
            rotten[at] ^= 1;
            prop_assert!(decode(&rotten, Settings::default()).is_err());
        }

        /// Even with a right checksum.
        #[test]
        fn any_content_is_a_history_or_an_error(
            files in 0..4_u32, rest in proptest::collection::vec(0..3_u8, 0..120),
        ) {
            let mut bytes = [&MAGIC[..], &1_u32.to_le_bytes(), &files.to_le_bytes()].concat();
            bytes.extend(checksum(&rest).to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(rest);
            if let Ok(maps) = decode(&bytes, Settings::default()) {
                prop_assert!(maps.len() <= files as usize);
            }
        }
    }

    #[test]
    fn fewer_files_than_before_may_be_allowed() {
        let mut maps = Maps::new(Settings::default());
        for file in 0..10_u8 {
            maps.used(&Handle::new(0, 1, &[file]).unwrap(), Use::Read);
        }
        let settings = Settings {
            files_max: 4,
            ..Settings::default()
        };
        assert_eq!(decode(&encode(&maps), settings).unwrap().len(), 4);
    }
}
