//! The messages of both sides.

use crate::limits::{DISKS_MAX, RANGES_MAX, SERIAL_BYTES, SOCKETS_MAX};
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use units::{Bytes, Duration, Offset};

/// A disk's serial number, as virtio-blk shows it to the guest: printable ASCII, 20 bytes at most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial([u8; SERIAL_BYTES]);

/// A text that no disk has as its serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a serial number has 1 to 20 printable ASCII characters")]
pub struct NoSerial;

impl Serial {
    /// A serial number as it is on the wire, filled up with zeros.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn from_wire(bytes: [u8; SERIAL_BYTES]) -> Result<Self, NoSerial> {
        let length = bytes.iter().position(|byte| *byte == 0);
        let (text, rest) = bytes.split_at(length.unwrap_or(SERIAL_BYTES));
        let is_text = !text.is_empty() && text.iter().all(u8::is_ascii_graphic);
        let is_filled_up = rest.iter().all(|byte| *byte == 0);
        (is_text && is_filled_up)
            .then_some(Self(bytes))
            .ok_or(NoSerial)
    }

    pub(crate) const fn to_wire(self) -> [u8; SERIAL_BYTES] {
        self.0
    }
}

impl FromStr for Serial {
    type Err = NoSerial;

    fn from_str(text: &str) -> Result<Self, NoSerial> {
        let mut bytes = [0; SERIAL_BYTES];
        let place = bytes.get_mut(..text.len()).ok_or(NoSerial)?;
        place.copy_from_slice(text.as_bytes());
        Self::from_wire(bytes)
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        f.write_str(&String::from_utf8_lossy(text))
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serial({self})")
    }
}

/// A part of a disk; never empty, never beyond 2^64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    offset: Offset,
    length: Bytes,
}

impl ByteRange {
    /// The range from `offset` on; none if it is empty or ends beyond what an offset can name.
    pub fn new(offset: Offset, length: Bytes) -> Option<Self> {
        offset.get().checked_add(length.get())?;
        (!length.is_zero()).then_some(Self { offset, length })
    }

    /// Where it begins.
    pub fn offset(self) -> Offset {
        self.offset
    }

    /// How long it is.
    pub fn length(self) -> Bytes {
        self.length
    }
}

/// What the guest knows of ranges of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Swap space.
    Swap,
    /// A file system's journal.
    Journal,
    /// Files that do not outlive the boot.
    Temporary,
    /// Files that are read once, such as a backup's source.
    Once,
    /// Files that the guest will want again.
    Preferred,
}

impl Class {
    /// All, in the order of their numbers on the wire, the first being 1.
    pub const ALL: [Self; 5] = [
        Self::Swap,
        Self::Journal,
        Self::Temporary,
        Self::Once,
        Self::Preferred,
    ];
}

/// The first message of each side after its start, and the agent's answer to the daemon's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Tells boots of the guest, or starts of the daemon, apart.
    pub boot: u128,
    /// The disks that the side knows by their serial numbers.
    pub disks: Vec<Serial>,
}

/// How the daemon's hints did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Bytes that were read after they had been hinted.
    pub read_bytes: u64,
    /// Bytes that had been hinted.
    pub of_bytes: u64,
}

/// The guest's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that programs can have without swapping (`MemAvailable`).
    pub available_bytes: u64,
    /// Bytes of its page cache (`Cached`).
    pub cache_bytes: u64,
    /// Share of the last 10 s in which some task waited for memory, in hundredths of a percent.
    pub pressure_hundredths: u32,
}

/// Whom the guest speaks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The other end's address; of version 4 as an IPv4-mapped one.
    pub peer: Ipv6Addr,
    /// Bytes both ways since the last such frame.
    pub bytes: u64,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Both ways, first of all.
    Hello(Hello),
    /// To the daemon: what ranges of a disk are.
    Classes {
        /// The disk.
        serial: Serial,
        /// What they are.
        class: Class,
        /// The ranges.
        ranges: Vec<ByteRange>,
    },
    /// To the agent: what the daemon expects to be read.
    ReadAhead {
        /// The disk.
        serial: Serial,
        /// From when on it is no use any more, counted from its arrival; whole milliseconds.
        expires: Duration,
        /// The ranges.
        ranges: Vec<ByteRange>,
    },
    /// To the daemon: how its hints did.
    Used(Used),
    /// To the daemon: the guest's memory.
    Memory(Memory),
    /// To the daemon, if the guest's operator opted in: whom the guest speaks with.
    Sockets(Vec<Socket>),
}

/// A message with its place in what the sender says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// How many frames its sender has sent before, modulo 2^32.
    pub sequence: u32,
    /// The message.
    pub message: Message,
}

impl Message {
    /// Whether its lists are as short as they must be.
    pub(crate) fn is_within_limits(&self) -> bool {
        match self {
            Self::Hello(hello) => hello.disks.len() <= DISKS_MAX,
            Self::Classes { ranges, .. } | Self::ReadAhead { ranges, .. } => {
                ranges.len() <= RANGES_MAX
            }
            Self::Sockets(sockets) => sockets.len() <= SOCKETS_MAX,
            Self::Used(_) | Self::Memory(_) => true,
        }
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn serial() -> impl Strategy<Value = Serial> {
        "[!-~]{1,20}".prop_map(|text| text.parse().unwrap())
    }

    fn ranges() -> impl Strategy<Value = Vec<ByteRange>> {
        let range = (any::<u64>(), any::<u64>()).prop_map(|(offset, length)| {
            let length = (length % (u64::MAX - offset).max(1)).max(1);
            let offset = offset.min(u64::MAX - 1);
            ByteRange::new(Offset::new(offset), Bytes::new(length)).unwrap()
        });
        vec(range, 0..=RANGES_MAX)
    }

    pub(crate) fn any_message() -> impl Strategy<Value = Message> {
        let hello = (any::<u128>(), vec(serial(), 0..=DISKS_MAX));
        let socket = (any::<u128>(), any::<u64>()).prop_map(|(peer, bytes)| Socket {
            peer: peer.into(),
            bytes,
        });
        prop_oneof![
            hello.prop_map(|(boot, disks)| Message::Hello(Hello { boot, disks })),
            (serial(), prop::sample::select(&Class::ALL), ranges()).prop_map(
                |(serial, class, ranges)| Message::Classes {
                    serial,
                    class,
                    ranges
                }
            ),
            (serial(), any::<u32>(), ranges()).prop_map(|(serial, ms, ranges)| {
                Message::ReadAhead {
                    serial,
                    expires: Duration::from_millis(u64::from(ms)),
                    ranges,
                }
            }),
            (any::<u64>(), any::<u64>()).prop_map(|(read_bytes, of_bytes)| {
                Message::Used(Used {
                    read_bytes,
                    of_bytes,
                })
            }),
            (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(
                |(available_bytes, cache_bytes, pressure_hundredths)| {
                    Message::Memory(Memory {
                        available_bytes,
                        cache_bytes,
                        pressure_hundredths,
                    })
                }
            ),
            vec(socket, 0..=SOCKETS_MAX).prop_map(Message::Sockets),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_are_printable_and_not_empty() {
        assert_eq!("disk-1".parse::<Serial>().unwrap().to_string(), "disk-1");
        let longest = "12345678901234567890";
        assert_eq!(longest.parse::<Serial>().unwrap().to_string(), longest);
        for text in ["", "123456789012345678901", "a b", "a\0b", "a\n", "ä"] {
            assert_eq!(text.parse::<Serial>(), Err(NoSerial), "{text:?}");
        }
    }

    #[test]
    fn ranges_are_neither_empty_nor_endless() {
        let range = |offset, length| ByteRange::new(Offset::new(offset), Bytes::new(length));
        assert!(range(0, 0).is_none());
        assert!(range(u64::MAX, 1).is_none());
        assert!(range(u64::MAX - 1, 1).is_some());
    }
}
