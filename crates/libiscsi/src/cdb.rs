//! Commands of disks, byte by byte (SBC-3, SPC-4), and what targets answer.

/// A command descriptor block.
pub type Cdb = [u8; 16];

/// Whether bytes are durable when their command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// They are (force unit access).
    Yes,
    /// A later `SYNCHRONIZE CACHE` makes them so.
    Later,
}

fn with_range(operation: u8, flags: u8, block: u64, count: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = operation;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&block.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

const fn fua(durable: Durable) -> u8 {
    match durable {
        Durable::Yes => 1 << 3,
        Durable::Later => 0,
    }
}

/// `READ (16)` of `count` blocks.
pub fn read(block: u64, count: u32) -> Cdb {
    with_range(0x88, 0, block, count)
}

/// `WRITE (16)` of `count` blocks.
pub fn write(block: u64, count: u32, durable: Durable) -> Cdb {
    with_range(0x8a, fua(durable), block, count)
}

/// `SYNCHRONIZE CACHE (16)` of the whole unit.
pub fn synchronize() -> Cdb {
    with_range(0x91, 0, 0, 0)
}

/// `WRITE SAME (16)`: one block of data, `count` times. With `unmap` the unit may give the range back.
pub fn write_same(block: u64, count: u32, unmap: bool) -> Cdb {
    with_range(WRITE_SAME, u8::from(unmap) << 3, block, count)
}

/// The first byte of [`write_same`].
pub const WRITE_SAME: u8 = 0x93;

/// The range of a command that has one: first block, count.
pub fn range_of(cdb: &Cdb) -> (u64, u32) {
    let [_, _, b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3, ..] = *cdb;
    let block = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    (block, u32::from_be_bytes([c0, c1, c2, c3]))
}

/// Bytes that [`unmap`] has as its data.
pub const UNMAP_BYTES: usize = 24;

/// `UNMAP` of one range, whose data are [`unmap_range`].
pub fn unmap() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x42;
    cdb[8] = 24;
    cdb
}

/// The data of [`unmap`].
pub fn unmap_range(block: u64, count: u32) -> [u8; UNMAP_BYTES] {
    let mut data = [0; UNMAP_BYTES];
    data[1] = 22;
    data[3] = 16;
    data[8..16].copy_from_slice(&block.to_be_bytes());
    data[16..20].copy_from_slice(&count.to_be_bytes());
    data
}

/// Bytes of the answers below.
pub const ANSWER_BYTES: u8 = 128;

/// `READ CAPACITY (16)`.
pub fn capacity() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x9e;
    cdb[1] = 0x10;
    cdb[13] = ANSWER_BYTES;
    cdb
}

/// What a unit is, as [`capacity`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// It is thin.
    pub is_thin: bool,
}

impl Capacity {
    /// Reads the answer to [`capacity`].
    pub fn parse(answer: &[u8]) -> Option<Self> {
        let last = u64::from_be_bytes(*answer.first_chunk()?);
        let block_bytes = u32::from_be_bytes(*answer.get(8..)?.first_chunk()?);
        Some(Self {
            blocks: last.checked_add(1)?,
            block_bytes,
            is_thin: answer.get(14)? & 0x80 != 0,
        })
    }
}

/// `INQUIRY` of a page of vital product data.
pub fn vital_page(page: u8) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x12;
    cdb[1] = 1;
    cdb[2] = page;
    cdb[4] = ANSWER_BYTES;
    cdb
}

/// The page that has [`Limits`].
pub const BLOCK_LIMITS: u8 = 0xb0;
/// The page that has [`Provisioning`].
pub const PROVISIONING: u8 = 0xb2;

/// The most that one command may have, in blocks; zero where the unit does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of a read or a write.
    pub transfer: u32,
    /// Of [`unmap`].
    pub unmap: u32,
    /// Of [`write_same`].
    pub write_same: u64,
}

impl Limits {
    /// Reads the page [`BLOCK_LIMITS`].
    pub fn parse(page: &[u8]) -> Self {
        let word = |at: usize| page.get(at..).and_then(|rest| rest.first_chunk());
        let number = |at| word(at).map_or(0, |word| u32::from_be_bytes(*word));
        let long = |at: usize| page.get(at..).and_then(|rest| rest.first_chunk());
        Self {
            transfer: number(8),
            unmap: number(20),
            write_same: long(36).map_or(0, |long| u64::from_be_bytes(*long)),
        }
    }
}

/// What a unit does to give ranges back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provisioning {
    /// It knows [`unmap`].
    pub unmaps: bool,
    /// It gives ranges back by [`write_same`].
    pub write_same_unmaps: bool,
}

impl Provisioning {
    /// Reads the page [`PROVISIONING`].
    pub fn parse(page: &[u8]) -> Self {
        let flags = page.get(5).copied().unwrap_or(0);
        Self {
            unmaps: flags & 0x80 != 0,
            write_same_unmaps: flags & 0x40 != 0,
        }
    }
}

/// `MODE SENSE (10)` of the caching page.
pub fn caching_page() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x5a;
    cdb[1] = 1 << 3;
    cdb[2] = 0x08;
    cdb[8] = ANSWER_BYTES;
    cdb
}

/// What a unit says of its writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching {
    /// It refuses them.
    pub is_protected: bool,
    /// It knows force unit access.
    pub has_fua: bool,
}

impl Caching {
    /// Reads the answer to [`caching_page`].
    pub fn parse(answer: &[u8]) -> Self {
        let flags = answer.get(3).copied().unwrap_or(0);
        Self {
            is_protected: flags & 0x80 != 0,
            has_fua: flags & 0x10 != 0,
        }
    }
}

/// A service of `PERSISTENT RESERVE OUT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// Registers a key, whatever was registered before. A key of zero takes it back.
    Register {
        /// The key.
        key: u64,
    },
    /// Reserves the unit: nobody else writes it.
    Reserve {
        /// The own key.
        key: u64,
    },
    /// Takes the reservation back.
    Release {
        /// The own key.
        key: u64,
    },
    /// Takes the unit from another one.
    Preempt {
        /// The own key.
        key: u64,
        /// The other's.
        other: u64,
    },
    /// Takes the unit from another one, and gives up what that one has under way.
    PreemptAndAbort {
        /// The own key.
        key: u64,
        /// The other's.
        other: u64,
    },
}

/// Bytes that [`Reserve::cdb`] has as its data.
pub const RESERVE_BYTES: usize = 24;

/// `WRITE EXCLUSIVE`: others may read.
const WRITE_EXCLUSIVE: u8 = 1;

impl Reserve {
    /// `PERSISTENT RESERVE OUT`.
    pub fn cdb(self) -> Cdb {
        let mut cdb = [0; 16];
        cdb[0] = 0x5f;
        (cdb[1], cdb[2]) = match self {
            Self::Register { .. } => (6, 0),
            Self::Reserve { .. } => (1, WRITE_EXCLUSIVE),
            Self::Release { .. } => (2, WRITE_EXCLUSIVE),
            Self::Preempt { .. } => (4, WRITE_EXCLUSIVE),
            Self::PreemptAndAbort { .. } => (5, WRITE_EXCLUSIVE),
        };
        cdb[8] = 24;
        cdb
    }

    /// Its data.
    pub fn data(self) -> [u8; RESERVE_BYTES] {
        let (own, service) = match self {
            Self::Register { key } => (0, key),
            Self::Reserve { key } | Self::Release { key } => (key, 0),
            Self::Preempt { key, other } | Self::PreemptAndAbort { key, other } => (key, other),
        };
        let mut data = [0; RESERVE_BYTES];
        data[0..8].copy_from_slice(&own.to_be_bytes());
        data[8..16].copy_from_slice(&service.to_be_bytes());
        data
    }
}

/// `PERSISTENT RESERVE IN` of the reservation.
pub fn reservation() -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = 0x5e;
    cdb[1] = 1;
    cdb[8] = ANSWER_BYTES;
    cdb
}

/// The key of the reservation that the answer to [`reservation`] tells of; `None` if there is none.
pub fn reservation_key(answer: &[u8]) -> Option<u64> {
    let length = u32::from_be_bytes(*answer.get(4..)?.first_chunk()?);
    let key = u64::from_be_bytes(*answer.get(8..)?.first_chunk()?);
    (length >= 16).then_some(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn commands_are_as_the_standard_has_them() {
        let read = read(0x0102_0304_0506_0708, 0x0a0b_0c0d);
        let expected = [
            0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 0x0b, 0x0c, 0x0d, 0, 0,
        ];
        assert_eq!(read, expected);
        assert_eq!(write(0, 1, Durable::Yes)[..2], [0x8a, 0x08]);
        assert_eq!(write(0, 1, Durable::Later)[..2], [0x8a, 0]);
        assert_eq!(write_same(1, 2, true)[..2], [0x93, 0x08]);
        assert_eq!(unmap()[7..9], [0, 24]);
        let range = unmap_range(7, 9);
        assert_eq!((range[1], range[3], range[15], range[19]), (22, 16, 7, 9));
        let preempt = Reserve::PreemptAndAbort { key: 1, other: 2 };
        assert_eq!(preempt.cdb()[..3], [0x5f, 5, 1]);
        assert_eq!((preempt.data()[7], preempt.data()[15]), (1, 2));
    }

    #[test]
    fn answers_are_read_and_short_ones_say_nothing() {
        let mut answer = [0; 32];
        answer[7] = 9;
        answer[10] = 2;
        answer[14] = 0x80;
        let capacity = Capacity::parse(&answer).unwrap();
        let expected = Capacity {
            blocks: 10,
            block_bytes: 512,
            is_thin: true,
        };
        assert_eq!(capacity, expected);
        assert_eq!(Capacity::parse(&answer[..14]), None);
        assert_eq!(
            Capacity::parse(&[255; 32]),
            None,
            "more blocks than can be counted"
        );
        assert_eq!(Limits::parse(&[]), Limits::default());
        let mut answer = [0; 24];
        answer[15] = 5;
        assert_eq!(reservation_key(&answer), None);
        answer[7] = 16;
        assert_eq!(reservation_key(&answer), Some(5));
    }
}
