//! Messages between QEMU and us.
//!
//! ```text
//!  0        4        8        12
//!  ┌────────┬────────┬────────┬─────────────┐
//!  │ code   │ flags  │ length │ payload ... │      descriptors travel beside, by SCM_RIGHTS
//!  └────────┴────────┴────────┴─────────────┘
//!   flags: bits 0-1 version (1), bit 2 reply, bit 3 wants an acknowledgement
//! ```
//!
//! Host order, little-endian here. A message is read in two steps, header and payload, never
//! beyond: its descriptors come with its first byte, and must not be taken for the next one's.

mod decode;
mod encode;
pub mod reply;

pub use encode::encode;

use crate::cursor::Cursor;
use crate::limits::PAYLOAD_MAX;
use crate::region::Region;
use crate::{Features, ProtocolFeatures};

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 0b11;
const FLAG_REPLY: u32 = 1 << 2;
const FLAG_NEED_REPLY: u32 = 1 << 3;

/// Codes of the messages that we know, QEMU's first.
pub(crate) mod code {
    pub(crate) const GET_FEATURES: u32 = 1;
    pub(crate) const SET_FEATURES: u32 = 2;
    pub(crate) const SET_OWNER: u32 = 3;
    pub(crate) const RESET_OWNER: u32 = 4;
    pub(crate) const SET_MEM_TABLE: u32 = 5;
    pub(crate) const SET_LOG_BASE: u32 = 6;
    pub(crate) const SET_LOG_FD: u32 = 7;
    pub(crate) const SET_VRING_NUM: u32 = 8;
    pub(crate) const SET_VRING_ADDR: u32 = 9;
    pub(crate) const SET_VRING_BASE: u32 = 10;
    pub(crate) const GET_VRING_BASE: u32 = 11;
    pub(crate) const SET_VRING_KICK: u32 = 12;
    pub(crate) const SET_VRING_CALL: u32 = 13;
    pub(crate) const SET_VRING_ERR: u32 = 14;
    pub(crate) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(crate) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(crate) const GET_QUEUE_NUM: u32 = 17;
    pub(crate) const SET_VRING_ENABLE: u32 = 18;
    pub(crate) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(crate) const GET_CONFIG: u32 = 24;
    pub(crate) const SET_CONFIG: u32 = 25;
    pub(crate) const GET_INFLIGHT_FD: u32 = 31;
    pub(crate) const SET_INFLIGHT_FD: u32 = 32;
    pub(crate) const RESET_DEVICE: u32 = 34;
    pub(crate) const GET_MAX_MEM_SLOTS: u32 = 36;
    pub(crate) const ADD_MEM_REG: u32 = 37;
    pub(crate) const REM_MEM_REG: u32 = 38;
    /// From us, on the channel of our own.
    pub(crate) const CONFIG_CHANGE: u32 = 2;
}

/// Why a message cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not this protocol's version, or a reply where none was asked for.
    #[error("message {code} has flags {flags:#x}")]
    Flags {
        /// Its code.
        code: u32,
        /// Its flags.
        flags: u32,
    },
    /// More than any message may have.
    #[error("message {code} has {length} bytes")]
    TooLong {
        /// Its code.
        code: u32,
        /// Its length in bytes.
        length: u32,
    },
    /// The payload is not what the message needs.
    #[error("the payload of message {code} makes no sense")]
    Payload {
        /// Its code.
        code: u32,
    },
    /// A message that we did not offer to understand.
    #[error("message {code} is not known")]
    Unknown {
        /// Its code.
        code: u32,
    },
}

/// A message's first twelve bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is about.
    pub code: u32,
    /// Whether the sender waits for an acknowledgement.
    pub wants_acknowledgement: bool,
    /// Bytes that follow.
    pub length: u32,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 12;

    /// Reads a request's header.
    ///
    /// # Errors
    /// If it is none, or says more bytes than any message has.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, MessageError> {
        let mut fields = Cursor::new(bytes);
        // The array has room for all three.
        let mut field = || fields.u32().unwrap_or_default();
        let (code, flags, length) = (field(), field(), field());
        if flags & VERSION_MASK != VERSION || flags & FLAG_REPLY != 0 {
            return Err(MessageError::Flags { code, flags });
        }
        if length > PAYLOAD_MAX {
            return Err(MessageError::TooLong { code, length });
        }
        Ok(Self {
            code,
            wants_acknowledgement: flags & FLAG_NEED_REPLY != 0,
            length,
        })
    }

    /// Whether it is the message that starts a ring.
    pub fn starts_ring(&self) -> bool {
        self.code == code::SET_VRING_KICK
    }
}

/// How many descriptors a message must come with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptors {
    /// Exactly so many.
    Exactly(usize),
    /// None are of use; one that comes (as QEMU sends one to take a region away) is closed.
    AtMost(usize),
}

impl Descriptors {
    /// Whether that many will do.
    pub fn allow(self, count: usize) -> bool {
        match self {
            Self::Exactly(exactly) => count == exactly,
            Self::AtMost(most) => count <= most,
        }
    }
}

/// A ring, and whether a descriptor comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingDescriptor {
    /// Which ring.
    pub ring: u8,
    /// Whether there is one; otherwise polling is asked for.
    pub has_descriptor: bool,
}

/// Where the parts of a ring are, in QEMU's own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingAddresses {
    /// Which ring.
    pub ring: u32,
    /// Whether writes to the used ring are marked in the dirty log.
    pub is_logged: bool,
    /// The descriptors.
    pub descriptors: u64,
    /// The used ring.
    pub used: u64,
    /// The available ring.
    pub available: u64,
    /// The used ring's guest address, for the log.
    pub log: u64,
}

/// What QEMU asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Which features the device has.
    GetFeatures,
    /// Which of them are used.
    SetFeatures(Features),
    /// A session begins.
    SetOwner,
    /// A session ends; deprecated, and nothing is done.
    ResetOwner,
    /// All of the guest's memory, one descriptor for each region.
    SetMemoryTable(Vec<Region>),
    /// Where the dirty log is, in the file that comes along.
    SetLogBase {
        /// Bytes of it.
        size: u64,
        /// Where it begins.
        offset: u64,
    },
    /// An eventfd to signal after marking.
    SetLogDescriptor,
    /// How many descriptors a ring has.
    SetRingSize {
        /// Which ring.
        ring: u32,
        /// How many.
        size: u32,
    },
    /// Where a ring is.
    SetRingAddresses(RingAddresses),
    /// From where on a ring is to be read.
    SetRingBase {
        /// Which ring.
        ring: u32,
        /// The index of the next available entry.
        base: u32,
    },
    /// Stop a ring; the reply says how far it was read, when nothing of it is in flight.
    GetRingBase {
        /// Which ring.
        ring: u32,
    },
    /// The eventfd by which the guest says that there is something.
    SetRingKick(RingDescriptor),
    /// The eventfd by which the guest is interrupted.
    SetRingCall(RingDescriptor),
    /// The eventfd by which QEMU learns that a ring is broken.
    SetRingError(RingDescriptor),
    /// Which protocol features we have.
    GetProtocolFeatures,
    /// Which of them are used.
    SetProtocolFeatures(ProtocolFeatures),
    /// How many queues the device can have.
    GetQueueCount,
    /// Serve a ring, or leave it alone.
    EnableRing {
        /// Which ring.
        ring: u32,
        /// Serve it.
        enabled: bool,
    },
    /// The channel for our own messages.
    SetBackendChannel,
    /// Part of the configuration space.
    GetConfig {
        /// From where.
        offset: u32,
        /// How many bytes.
        size: u32,
        /// Comes back as it is.
        flags: u32,
    },
    /// The guest wrote its configuration space.
    SetConfig {
        /// Where.
        offset: u32,
        /// What.
        bytes: Vec<u8>,
    },
    /// Make shared memory for what is in flight.
    GetInflight {
        /// For so many queues.
        queues: u16,
        /// Of so many descriptors.
        size: u16,
    },
    /// The shared memory of the last session.
    SetInflight {
        /// Bytes of it.
        bytes: u64,
        /// Where in its file it begins.
        offset: u64,
        /// For so many queues.
        queues: u16,
        /// Of so many descriptors.
        size: u16,
    },
    /// Back to the beginning.
    ResetDevice,
    /// How many regions of memory there may be.
    GetMemorySlots,
    /// One more region, with its descriptor.
    AddRegion(Region),
    /// One region less.
    RemoveRegion(Region),
}

impl Request {
    /// Reads the payload of a message with that code.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn decode(header: &Header, payload: &[u8]) -> Result<Self, MessageError> {
        let code = header.code;
        decode::parse(code, payload)?.ok_or(MessageError::Payload { code })
    }

    /// How many descriptors it comes with.
    pub fn descriptors(&self) -> Descriptors {
        match self {
            Self::SetMemoryTable(regions) => Descriptors::Exactly(regions.len()),
            Self::SetLogBase { .. }
            | Self::SetLogDescriptor
            | Self::SetBackendChannel
            | Self::SetInflight { .. }
            | Self::AddRegion(_) => Descriptors::Exactly(1),
            Self::SetRingKick(ring) | Self::SetRingCall(ring) | Self::SetRingError(ring) => {
                Descriptors::Exactly(usize::from(ring.has_descriptor))
            }
            Self::RemoveRegion(_) => Descriptors::AtMost(1),
            Self::GetFeatures
            | Self::SetFeatures(_)
            | Self::SetOwner
            | Self::ResetOwner
            | Self::SetRingSize { .. }
            | Self::SetRingAddresses(_)
            | Self::SetRingBase { .. }
            | Self::GetRingBase { .. }
            | Self::GetProtocolFeatures
            | Self::SetProtocolFeatures(_)
            | Self::GetQueueCount
            | Self::EnableRing { .. }
            | Self::GetConfig { .. }
            | Self::SetConfig { .. }
            | Self::GetInflight { .. }
            | Self::ResetDevice
            | Self::GetMemorySlots => Descriptors::Exactly(0),
        }
    }
}

#[cfg(test)]
mod tests;
