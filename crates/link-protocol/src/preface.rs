//! The first bytes of a connection, which every version writes alike.
//!
//! | bytes | what |
//! |---|---|
//! | 0–7 | `HEARTHLK` |
//! | 8–9 | the oldest version that the sender speaks, little-endian as all numbers here |
//! | 10–11 | the newest one |
//! | 12–15 | features that the sender has beyond its version; bit 0: it takes [`Traced`](crate::Message::Traced) |
//! | 16–23 | the sender's instance: a number drawn when its daemon started |
//!
//! Two hosts may dial each other at once. The connection that the lower instance has dialed is kept.

/// The length of a preface.
pub const PREFACE_BYTES: usize = 24;
/// The oldest version that this program speaks.
pub const VERSION_OLDEST: u16 = 1;
/// The newest version that this program speaks.
pub const VERSION_NEWEST: u16 = 1;

/// The feature of a host that takes [`Traced`](crate::Message::Traced): one without it is told none, so that hosts of the
/// releases before it and after it move disks between them.
const TRACES: u32 = 1;

const MAGIC: [u8; 8] = *b"HEARTHLK";

/// What a host says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preface {
    /// The oldest version that it speaks.
    pub oldest: u16,
    /// The newest one.
    pub newest: u16,
    /// What it can do beyond its version. Unknown bits are ignored.
    pub features: u32,
    /// Which run of its daemon it is.
    pub instance: u64,
}

/// Why a preface is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefaceError {
    /// The other side speaks something else.
    #[error("the other side does not speak the protocol of Hearth's link")]
    Foreign,
    /// Its range of versions is empty.
    #[error("the other side speaks no version: from {oldest} to {newest}")]
    Empty {
        /// The oldest, as it says.
        oldest: u16,
        /// The newest, as it says.
        newest: u16,
    },
}

/// Two hosts have no version in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the peer speaks versions {} to {} of the link's protocol, and this host {} to {}: upgrade the older one",
    theirs.oldest, theirs.newest, ours.oldest, ours.newest
)]
pub struct NoCommonVersion {
    /// What this host speaks.
    pub ours: Preface,
    /// What its peer speaks.
    pub theirs: Preface,
}

impl Preface {
    /// What this program says.
    pub const fn ours(instance: u64) -> Self {
        Self {
            oldest: VERSION_OLDEST,
            newest: VERSION_NEWEST,
            features: TRACES,
            instance,
        }
    }

    /// Whether the sender takes [`Traced`](crate::Message::Traced).
    pub const fn takes_traces(self) -> bool {
        self.features & TRACES != 0
    }

    /// Its bytes.
    pub fn encode(self) -> [u8; PREFACE_BYTES] {
        let mut bytes = [0; PREFACE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.oldest.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.newest.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.features.to_le_bytes());
        bytes[16..].copy_from_slice(&self.instance.to_le_bytes());
        bytes
    }

    /// What a peer said.
    ///
    /// # Errors
    /// [`PrefaceError`].
    pub fn decode(bytes: &[u8; PREFACE_BYTES]) -> Result<Self, PrefaceError> {
        let Some((magic, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(PrefaceError::Foreign);
        };
        let Some([o0, o1, n0, n1, f0, f1, f2, f3, instance @ ..]) = rest.first_chunk::<16>() else {
            return Err(PrefaceError::Foreign);
        };
        if *magic != MAGIC {
            return Err(PrefaceError::Foreign);
        }
        let oldest = u16::from_le_bytes([*o0, *o1]);
        let newest = u16::from_le_bytes([*n0, *n1]);
        if oldest > newest {
            return Err(PrefaceError::Empty { oldest, newest });
        }
        let features = u32::from_le_bytes([*f0, *f1, *f2, *f3]);
        Ok(Self {
            oldest,
            newest,
            features,
            instance: u64::from_le_bytes(*instance),
        })
    }

    /// The version that two hosts speak: the newest of those that both know.
    ///
    /// # Errors
    /// [`NoCommonVersion`].
    pub fn agree(self, theirs: Self) -> Result<u16, NoCommonVersion> {
        let newest = self.newest.min(theirs.newest);
        if newest < self.oldest.max(theirs.oldest) {
            return Err(NoCommonVersion { ours: self, theirs });
        }
        Ok(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn speaks(oldest: u16, newest: u16) -> Preface {
        Preface {
            oldest,
            newest,
            features: 0x8000_0001,
            instance: 9,
        }
    }

    #[test]
    fn a_preface_comes_back_and_its_bytes_stand_for_good() {
        let bytes = speaks(1, 0x0203).encode();
        assert_eq!(
            &bytes,
            b"HEARTHLK\x01\x00\x03\x02\x01\x00\x00\x80\x09\0\0\0\0\0\0\0"
        );
        assert_eq!(Preface::decode(&bytes), Ok(speaks(1, 0x0203)));
        let ours = Preface::ours(u64::MAX);
        assert_eq!(Preface::decode(&ours.encode()), Ok(ours));
    }

    #[test]
    fn a_host_of_a_release_without_traces_is_spoken_with_and_told_none() {
        let before = b"HEARTHLK\x01\x00\x01\x00\0\0\0\0\x09\0\0\0\0\0\0\0";
        let before = Preface::decode(before).unwrap();
        let ours = Preface::ours(7);
        assert_eq!(ours.agree(before), Ok(1));
        assert_eq!(before.agree(ours), Ok(1));
        assert!(!before.takes_traces() && ours.takes_traces());
        assert_eq!(
            ours.encode()[12..16],
            [1, 0, 0, 0],
            "the other bits are free"
        );
    }

    #[test]
    fn what_is_no_preface_is_refused() {
        assert_eq!(
            Preface::decode(b"GET / HTTP/1.1\r\nHost: ab"),
            Err(PrefaceError::Foreign)
        );
        let empty = speaks(3, 2);
        let (oldest, newest) = (3, 2);
        assert_eq!(
            Preface::decode(&empty.encode()),
            Err(PrefaceError::Empty { oldest, newest })
        );
    }

    #[test]
    fn the_newest_common_version_is_spoken() {
        assert_eq!(speaks(1, 3).agree(speaks(2, 5)), Ok(3));
        assert_eq!(speaks(2, 5).agree(speaks(1, 3)), Ok(3));
        assert_eq!(speaks(4, 4).agree(speaks(1, 9)), Ok(4));
        let error = speaks(3, 4).agree(speaks(1, 2)).unwrap_err();
        assert!(error.to_string().contains("versions 1 to 2"), "{error}");
    }
}
