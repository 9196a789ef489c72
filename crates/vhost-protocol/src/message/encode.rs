//! Messages, written: for the tests, and for whoever plays QEMU's part.

use super::{FLAG_NEED_REPLY, Request, RingAddresses, RingDescriptor, VERSION, code};
use crate::limits::DESCRIPTORS_MAX;
use crate::region::Region;

pub(super) fn frame(code: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("our messages are short");
    let mut bytes = [code, flags, length].map(u32::to_le_bytes).concat();
    bytes.extend_from_slice(payload);
    bytes
}

/// The bytes of a request, for whoever plays QEMU's part.
///
/// # Panics
/// If it has more regions than a message may.
pub fn encode(request: &Request, wants_acknowledgement: bool) -> Vec<u8> {
    let (code, payload) = encode_payload(request);
    let wants = if wants_acknowledgement {
        FLAG_NEED_REPLY
    } else {
        0
    };
    frame(code, VERSION | wants, &payload)
}

fn encode_payload(request: &Request) -> (u32, Vec<u8>) {
    let word = |bits: u64| bits.to_le_bytes().to_vec();
    let two = |a: u32, b: u32| [a, b].map(u32::to_le_bytes).concat();
    let bare = |code| (code, Vec::new());
    match request {
        Request::GetFeatures => bare(code::GET_FEATURES),
        Request::SetFeatures(features) => (code::SET_FEATURES, word(features.bits())),
        Request::SetOwner => bare(code::SET_OWNER),
        Request::ResetOwner => bare(code::RESET_OWNER),
        Request::SetMemoryTable(regions) => (code::SET_MEM_TABLE, encode_table(regions)),
        Request::SetLogBase { size, offset } => (
            code::SET_LOG_BASE,
            [*size, *offset].map(u64::to_le_bytes).concat(),
        ),
        Request::SetLogDescriptor => (code::SET_LOG_FD, word(0)),
        Request::SetRingSize { ring, size } => (code::SET_VRING_NUM, two(*ring, *size)),
        Request::SetRingAddresses(addresses) => (code::SET_VRING_ADDR, encode_addresses(addresses)),
        Request::SetRingBase { ring, base } => (code::SET_VRING_BASE, two(*ring, *base)),
        Request::GetRingBase { ring } => (code::GET_VRING_BASE, two(*ring, 0)),
        Request::SetRingKick(ring) => (code::SET_VRING_KICK, encode_ring(*ring)),
        Request::SetRingCall(ring) => (code::SET_VRING_CALL, encode_ring(*ring)),
        Request::SetRingError(ring) => (code::SET_VRING_ERR, encode_ring(*ring)),
        Request::GetProtocolFeatures => bare(code::GET_PROTOCOL_FEATURES),
        Request::SetProtocolFeatures(features) => {
            (code::SET_PROTOCOL_FEATURES, word(features.bits()))
        }
        Request::GetQueueCount => bare(code::GET_QUEUE_NUM),
        Request::EnableRing { ring, enabled } => {
            (code::SET_VRING_ENABLE, two(*ring, u32::from(*enabled)))
        }
        Request::SetBackendChannel => bare(code::SET_BACKEND_REQ_FD),
        Request::GetConfig {
            offset,
            size,
            flags,
        } => {
            let mut payload = [*offset, *size, *flags].map(u32::to_le_bytes).concat();
            payload.resize(payload.len() + *size as usize, 0);
            (code::GET_CONFIG, payload)
        }
        Request::SetConfig { offset, bytes } => {
            let size = u32::try_from(bytes.len()).expect("a configuration space is short");
            let mut payload = [*offset, size, 0].map(u32::to_le_bytes).concat();
            payload.extend_from_slice(bytes);
            (code::SET_CONFIG, payload)
        }
        Request::GetInflight { queues, size } => {
            (code::GET_INFLIGHT_FD, encode_inflight(0, 0, *queues, *size))
        }
        Request::SetInflight {
            bytes,
            offset,
            queues,
            size,
        } => (
            code::SET_INFLIGHT_FD,
            encode_inflight(*bytes, *offset, *queues, *size),
        ),
        Request::ResetDevice => bare(code::RESET_DEVICE),
        Request::GetMemorySlots => bare(code::GET_MAX_MEM_SLOTS),
        Request::AddRegion(region) => (code::ADD_MEM_REG, encode_single(region)),
        Request::RemoveRegion(region) => (code::REM_MEM_REG, encode_single(region)),
    }
}

fn encode_region(region: &Region) -> Vec<u8> {
    [region.guest, region.size, region.user, region.offset]
        .map(u64::to_le_bytes)
        .concat()
}

fn encode_table(regions: &[Region]) -> Vec<u8> {
    assert!(
        regions.len() <= DESCRIPTORS_MAX,
        "a table fits into a message"
    );
    let count = u32::try_from(regions.len()).expect("few regions");
    let mut payload = [count, 0].map(u32::to_le_bytes).concat();
    payload.extend(regions.iter().flat_map(encode_region));
    payload
}

fn encode_single(region: &Region) -> Vec<u8> {
    let mut payload = vec![0; 8];
    payload.extend(encode_region(region));
    payload
}

fn encode_ring(ring: RingDescriptor) -> Vec<u8> {
    let none = u64::from(!ring.has_descriptor) << 8;
    (u64::from(ring.ring) | none).to_le_bytes().to_vec()
}

fn encode_addresses(addresses: &RingAddresses) -> Vec<u8> {
    let head = [addresses.ring, u32::from(addresses.is_logged)].map(u32::to_le_bytes);
    let tail = [
        addresses.descriptors,
        addresses.used,
        addresses.available,
        addresses.log,
    ]
    .map(u64::to_le_bytes);
    [head.concat(), tail.concat()].concat()
}

fn encode_inflight(bytes: u64, offset: u64, queues: u16, size: u16) -> Vec<u8> {
    let mut payload = [bytes, offset].map(u64::to_le_bytes).concat();
    payload.extend([queues, size, 0, 0].map(u16::to_le_bytes).concat());
    payload
}
