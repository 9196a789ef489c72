//! Base images, which have no owner: several hosts read one at a time, and its cache follows the VMs that read it.
//!
//! Invariant: a block of another host's image is read as one of this host's only if both are known to be the same image.

use crate::guard::{Guard, holds};
use units::{BLOCK_BYTES, Bytes, Offset};

/// Blocks from the first on that are part of a sample: what tells tables of partitions and file systems apart.
const SAMPLED_FIRST: u64 = 16;
/// Blocks of the rest that are, at even distances, the last one among them.
const SAMPLED_REST: u64 = 48;

/// What one host knows an image by. Its identity is another matter: only images with the same one are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its size.
    pub size: Bytes,
    /// A hash of the blocks in [`sampled_of`].
    pub sample: u128,
    /// What changes with the file that it is, if its origin is one, and is the same at every host that reaches the file; of any
    /// other origin what its address is known by.
    pub fingerprint: Option<u128>,
}

/// How two images with one identity differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageDiffers {
    /// Their sizes do.
    Size,
    /// Their bytes do.
    Bytes,
    /// They are different files, or one was changed: their bytes may differ.
    File,
}

impl Image {
    /// How the image of another host differs from this one; `None`: they are the same.
    pub fn differs(&self, other: &Self) -> Option<ImageDiffers> {
        if !holds(Guard::ImageIdentity) {
            return None;
        }
        if self.size != other.size {
            return Some(ImageDiffers::Size);
        }
        if self.sample != other.sample {
            return Some(ImageDiffers::Bytes);
        }
        match (self.fingerprint, other.fingerprint) {
            (Some(ours), Some(theirs)) if ours != theirs => Some(ImageDiffers::File),
            _ => None,
        }
    }
}

/// The ranges of an image of this size by which its bytes are told from another one's, each at most a block.
pub fn sampled_of(size: Bytes) -> Vec<(Offset, Bytes)> {
    let blocks = size.get().div_ceil(BLOCK_BYTES);
    let first = blocks.min(SAMPLED_FIRST);
    let rest = blocks - first;
    let count = rest.min(SAMPLED_REST);
    let spread = (1..=count).map(|at| {
        first + u64::try_from(u128::from(rest) * u128::from(at) / u128::from(count)).unwrap_or(rest)
            - 1
    });
    let range = |block: u64| {
        let start = block * BLOCK_BYTES;
        (
            Offset::new(start),
            Bytes::new((size.get() - start).min(BLOCK_BYTES)),
        )
    };
    (0..first).chain(spread).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Image = Image {
        size: Bytes::new(1 << 30),
        sample: 7,
        fingerprint: Some(1),
    };

    #[test]
    fn images_are_the_same_if_nothing_that_both_hosts_know_differs() {
        let nbd = Image {
            fingerprint: None,
            ..OURS
        };
        assert_eq!(OURS.differs(&OURS), None);
        assert_eq!(OURS.differs(&nbd), None);
        assert_eq!(nbd.differs(&OURS), None);
    }

    #[test]
    fn an_image_of_the_same_name_with_other_bytes_is_another_one() {
        let others = [
            (
                Image {
                    size: Bytes::new(1),
                    ..OURS
                },
                ImageDiffers::Size,
            ),
            (Image { sample: 8, ..OURS }, ImageDiffers::Bytes),
            (
                Image {
                    fingerprint: Some(2),
                    ..OURS
                },
                ImageDiffers::File,
            ),
        ];
        for (other, how) in others {
            assert_eq!(OURS.differs(&other), Some(how));
            crate::guard::remove(Some(Guard::ImageIdentity));
            let without = OURS.differs(&other);
            crate::guard::remove(None);
            assert_eq!(without, None, "{how:?} is not missed");
        }
    }

    #[test]
    fn a_sample_has_the_first_blocks_and_the_last_one() {
        let blocks = |size: u64| -> Vec<u64> {
            let ranges = sampled_of(Bytes::new(size)).into_iter();
            ranges
                .map(|(offset, _)| offset.get() / BLOCK_BYTES)
                .collect()
        };
        assert_eq!(blocks(0), [0; 0]);
        assert_eq!(blocks(3 * BLOCK_BYTES), [0, 1, 2]);
        assert_eq!(blocks(20 * BLOCK_BYTES), (0..20).collect::<Vec<_>>());
        let large = blocks(1 << 40);
        assert_eq!(large.len(), 64);
        assert_eq!(large[..16], (0..16).collect::<Vec<_>>());
        assert_eq!(large.last(), Some(&((1 << 28) - 1)));
        assert!(large.is_sorted_by(|one, next| one < next));
        let part = sampled_of(Bytes::new(BLOCK_BYTES + 512));
        assert_eq!(part[1], (Offset::new(BLOCK_BYTES), Bytes::new(512)));
    }
}
