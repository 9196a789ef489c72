//! What a finished handshake hands over to a shard.

pub use crate::census::Admission;
use nbd_protocol::{BlockSizes, Export, Terms, TransmissionFlags};
use std::os::fd::OwnedFd;
use units::Bytes;

/// A client that has chosen its export and is about to send requests.
#[derive(Debug)]
pub struct Negotiated {
    /// The client's socket, or one end of a pair whose other end is a TLS session. Blocking.
    pub socket: OwnedFd,
    /// Bytes that arrived behind the handshake: the first requests.
    pub leftover: Vec<u8>,
    /// The export's name as the client wrote it.
    pub export: String,
    /// What requests are judged by.
    pub terms: Terms,
    /// The client's place among the connections that the server allows.
    pub admission: Admission,
}

/// What we advertise of a disk. Every connection of one disk ends in the same shard, hence
/// `CAN_MULTI_CONN`: a flush on one covers what any of them was answered.
pub fn export(size: Bytes, read_only: bool, can_discard: bool) -> Export {
    let flags = TransmissionFlags::HAS_FLAGS
        .with(TransmissionFlags::SEND_FLUSH)
        .with(TransmissionFlags::SEND_FUA)
        .with(TransmissionFlags::SEND_DF)
        .with(TransmissionFlags::SEND_CACHE)
        .with(TransmissionFlags::CAN_MULTI_CONN)
        .with_if(read_only, TransmissionFlags::READ_ONLY)
        .with_if(!read_only, TransmissionFlags::SEND_WRITE_ZEROES)
        .with_if(!read_only && can_discard, TransmissionFlags::SEND_TRIM);
    Export {
        size,
        flags,
        blocks: BlockSizes::OURS,
    }
}
