//! Payloads of messages, read.

use super::{MessageError, Request, RingAddresses, RingDescriptor, code};
use crate::cursor::Cursor;
use crate::limits::{CONFIG_BYTES_MAX, TABLE_REGIONS_MAX};
use crate::region::Region;
use crate::{Features, ProtocolFeatures};

/// The outer error: a code that is not known. `None`: a payload that is not what it should be.
pub(super) fn parse(code: u32, payload: &[u8]) -> Result<Option<Request>, MessageError> {
    let mut fields = Cursor::new(payload);
    let request =
        match code {
            code::GET_FEATURES => Some(Request::GetFeatures),
            code::SET_FEATURES => fields
                .u64()
                .map(|bits| Request::SetFeatures(Features::from_bits(bits))),
            code::SET_OWNER => Some(Request::SetOwner),
            code::RESET_OWNER => Some(Request::ResetOwner),
            code::SET_MEM_TABLE => memory_table(&mut fields),
            code::SET_LOG_BASE => pair(&mut fields, Cursor::u64)
                .map(|(size, offset)| Request::SetLogBase { size, offset }),
            code::SET_LOG_FD => Some(Request::SetLogDescriptor),
            code::SET_VRING_NUM => pair(&mut fields, Cursor::u32)
                .map(|(ring, size)| Request::SetRingSize { ring, size }),
            code::SET_VRING_ADDR => ring_addresses(&mut fields).map(Request::SetRingAddresses),
            code::SET_VRING_BASE => pair(&mut fields, Cursor::u32)
                .map(|(ring, base)| Request::SetRingBase { ring, base }),
            code::GET_VRING_BASE => {
                pair(&mut fields, Cursor::u32).map(|(ring, _)| Request::GetRingBase { ring })
            }
            code::SET_VRING_KICK => ring_descriptor(&mut fields).map(Request::SetRingKick),
            code::SET_VRING_CALL => ring_descriptor(&mut fields).map(Request::SetRingCall),
            code::SET_VRING_ERR => ring_descriptor(&mut fields).map(Request::SetRingError),
            code::GET_PROTOCOL_FEATURES => Some(Request::GetProtocolFeatures),
            code::SET_PROTOCOL_FEATURES => fields
                .u64()
                .map(|bits| Request::SetProtocolFeatures(ProtocolFeatures::from_bits(bits))),
            code::GET_QUEUE_NUM => Some(Request::GetQueueCount),
            code::SET_VRING_ENABLE => pair(&mut fields, Cursor::u32).map(|(ring, enabled)| {
                let enabled = enabled != 0;
                Request::EnableRing { ring, enabled }
            }),
            code::SET_BACKEND_REQ_FD => Some(Request::SetBackendChannel),
            code::GET_CONFIG | code::SET_CONFIG => config(code, fields),
            code::GET_INFLIGHT_FD | code::SET_INFLIGHT_FD => inflight(code, &mut fields),
            code::RESET_DEVICE => Some(Request::ResetDevice),
            code::GET_MAX_MEM_SLOTS => Some(Request::GetMemorySlots),
            code::ADD_MEM_REG => single_region(&mut fields).map(Request::AddRegion),
            code::REM_MEM_REG => single_region(&mut fields).map(Request::RemoveRegion),
            code => return Err(MessageError::Unknown { code }),
        };
    Ok(request)
}

fn pair<'a, T>(
    fields: &mut Cursor<'a>,
    read: impl Fn(&mut Cursor<'a>) -> Option<T>,
) -> Option<(T, T)> {
    Some((read(fields)?, read(fields)?))
}

fn region(fields: &mut Cursor<'_>) -> Option<Region> {
    Some(Region {
        guest: fields.u64()?,
        size: fields.u64()?,
        user: fields.u64()?,
        offset: fields.u64()?,
    })
}

fn memory_table(fields: &mut Cursor<'_>) -> Option<Request> {
    let (count, _padding) = pair(fields, Cursor::u32)?;
    let count = usize::try_from(count).ok()?;
    if count > TABLE_REGIONS_MAX {
        return None;
    }
    let regions: Option<Vec<Region>> = (0..count).map(|_| region(fields)).collect();
    regions.map(Request::SetMemoryTable)
}

fn single_region(fields: &mut Cursor<'_>) -> Option<Region> {
    let _padding = fields.u64()?;
    region(fields)
}

fn ring_descriptor(fields: &mut Cursor<'_>) -> Option<RingDescriptor> {
    const NO_DESCRIPTOR: u64 = 1 << 8;
    let word = fields.u64()?;
    let ring = u8::try_from(word & !NO_DESCRIPTOR).ok()?;
    Some(RingDescriptor {
        ring,
        has_descriptor: word & NO_DESCRIPTOR == 0,
    })
}

fn ring_addresses(fields: &mut Cursor<'_>) -> Option<RingAddresses> {
    let (ring, flags) = pair(fields, Cursor::u32)?;
    Some(RingAddresses {
        ring,
        is_logged: flags & 1 != 0,
        descriptors: fields.u64()?,
        used: fields.u64()?,
        available: fields.u64()?,
        log: fields.u64()?,
    })
}

fn config(code: u32, mut fields: Cursor<'_>) -> Option<Request> {
    let (offset, size, flags) = (fields.u32()?, fields.u32()?, fields.u32()?);
    if offset.checked_add(size)? > CONFIG_BYTES_MAX {
        return None;
    }
    if code == code::GET_CONFIG {
        return Some(Request::GetConfig {
            offset,
            size,
            flags,
        });
    }
    let bytes = fields.rest().get(..usize::try_from(size).ok()?)?.to_vec();
    Some(Request::SetConfig { offset, bytes })
}

fn inflight(code: u32, fields: &mut Cursor<'_>) -> Option<Request> {
    let (bytes, offset) = pair(fields, Cursor::u64)?;
    let (queues, size) = pair(fields, Cursor::u16)?;
    Some(if code == code::GET_INFLIGHT_FD {
        Request::GetInflight { queues, size }
    } else {
        Request::SetInflight {
            bytes,
            offset,
            queues,
            size,
        }
    })
}
