use super::*;
use crate::limits::CONFIG_BYTES_MAX;
use proptest::prelude::*;

fn header(bytes: &[u8]) -> Result<Header, MessageError> {
    Header::decode(bytes[..Header::BYTES].try_into().unwrap())
}

fn read(bytes: &[u8]) -> Result<Request, MessageError> {
    Request::decode(&header(bytes)?, &bytes[Header::BYTES..])
}

fn region(guest: u64) -> Region {
    Region {
        guest,
        size: 0x1000,
        user: guest + 1,
        offset: guest + 2,
    }
}

fn one_of_each() -> Vec<Request> {
    let ring = RingDescriptor {
        ring: 3,
        has_descriptor: true,
    };
    vec![
        Request::GetFeatures,
        Request::SetFeatures(Features::OFFERED),
        Request::SetOwner,
        Request::ResetOwner,
        Request::SetMemoryTable(vec![region(0), region(0x10_0000)]),
        Request::SetLogBase { size: 5, offset: 6 },
        Request::SetRingSize { ring: 1, size: 128 },
        Request::SetRingAddresses(RingAddresses {
            ring: 1,
            is_logged: true,
            descriptors: 2,
            used: 3,
            available: 4,
            log: 5,
        }),
        Request::SetRingBase { ring: 1, base: 9 },
        Request::GetRingBase { ring: 1 },
        Request::SetRingKick(ring),
        Request::SetRingCall(RingDescriptor {
            has_descriptor: false,
            ..ring
        }),
        Request::SetRingError(ring),
        Request::GetProtocolFeatures,
        Request::SetProtocolFeatures(ProtocolFeatures::OFFERED),
        Request::GetQueueCount,
        Request::EnableRing {
            ring: 2,
            enabled: true,
        },
        Request::SetBackendChannel,
        Request::GetConfig {
            offset: 0,
            size: 60,
            flags: 0,
        },
        Request::SetConfig {
            offset: 32,
            bytes: vec![1],
        },
        Request::GetInflight {
            queues: 2,
            size: 128,
        },
        Request::SetInflight {
            bytes: 1,
            offset: 2,
            queues: 3,
            size: 4,
        },
        Request::ResetDevice,
        Request::GetMemorySlots,
        Request::AddRegion(region(7)),
        Request::RemoveRegion(region(7)),
    ]
}

#[test]
fn what_is_written_is_read_again() {
    for request in one_of_each() {
        assert_eq!(read(&encode(&request, false)), Ok(request));
    }
}

#[test]
fn a_payload_cut_short_is_no_request() {
    for request in one_of_each() {
        let bytes = encode(&request, true);
        let header = header(&bytes).unwrap();
        assert!(header.wants_acknowledgement);
        for end in Header::BYTES..bytes.len() {
            // A configuration request's own bytes are no part of the question.
            if matches!(request, Request::GetConfig { .. }) && end >= Header::BYTES + 12 {
                continue;
            }
            // A message whose shape is fixed may carry padding that nobody reads.
            if matches!(
                request,
                Request::SetLogDescriptor
                    | Request::GetInflight { .. }
                    | Request::SetInflight { .. }
            ) && end >= Header::BYTES + 20
            {
                continue;
            }
            let cut = Request::decode(&header, &bytes[Header::BYTES..end]);
            assert_eq!(cut, Err(MessageError::Payload { code: header.code }));
        }
    }
}

#[test]
fn a_memory_table_looks_as_the_specification_draws_it() {
    let bytes = encode(&Request::SetMemoryTable(vec![region(0x2000)]), false);
    assert_eq!(bytes[..12], [5, 0, 0, 0, 1, 0, 0, 0, 40, 0, 0, 0]);
    assert_eq!(bytes[12..20], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[20..28], 0x2000_u64.to_le_bytes());
    assert_eq!(bytes[28..36], 0x1000_u64.to_le_bytes());
    assert_eq!(bytes[36..44], 0x2001_u64.to_le_bytes());
    assert_eq!(bytes[44..52], 0x2002_u64.to_le_bytes());
}

#[test]
fn replies_say_that_they_are_replies() {
    let to = Header {
        code: 1,
        wants_acknowledgement: false,
        length: 0,
    };
    let bytes = reply::number(&to, 0x1234);
    assert_eq!(bytes[..12], [1, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(bytes[12..], 0x1234_u64.to_le_bytes());
    assert_eq!(reply::inflight(&to, 1, 2, 3).len(), 12 + 24);
    assert_eq!(reply::ring_base(&to, 1, 7)[12..], [1, 0, 0, 0, 7, 0, 0, 0]);
}

#[test]
fn nonsense_is_named() {
    let with_flags = |flags: u32| [1, flags, 0].map(u32::to_le_bytes).concat();
    for flags in [0, 2, 3, 5] {
        let refused = header(&with_flags(flags));
        assert_eq!(refused, Err(MessageError::Flags { code: 1, flags }));
    }
    let endless = [5, 1, u32::MAX].map(u32::to_le_bytes).concat();
    let length = u32::MAX;
    assert_eq!(
        header(&endless),
        Err(MessageError::TooLong { code: 5, length })
    );
    let unknown = [9999, 1, 0].map(u32::to_le_bytes).concat();
    assert_eq!(read(&unknown), Err(MessageError::Unknown { code: 9999 }));
    let nine = [
        &[5, 1, 8, 9, 0].map(u32::to_le_bytes).concat()[..],
        &[0; 288],
    ]
    .concat();
    assert_eq!(read(&nine), Err(MessageError::Payload { code: 5 }));
}

#[test]
fn a_configuration_space_has_an_end() {
    let beyond = Request::GetConfig {
        offset: CONFIG_BYTES_MAX,
        size: 1,
        flags: 0,
    };
    let code = code::GET_CONFIG;
    assert_eq!(
        read(&encode(&beyond, false)),
        Err(MessageError::Payload { code })
    );
}

#[test]
fn descriptors_are_counted() {
    assert!(Descriptors::Exactly(1).allow(1));
    assert!(!Descriptors::Exactly(1).allow(0));
    assert!(!Descriptors::Exactly(0).allow(1));
    assert!(Descriptors::AtMost(1).allow(0));
    assert!(!Descriptors::AtMost(1).allow(2));
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_an_error(code in 0_u32..45, payload in prop::collection::vec(any::<u8>(), 0..300)) {
        let header = Header { code, wants_acknowledgement: false, length: 0 };
        if let Ok(request) = Request::decode(&header, &payload) {
            let again = read(&encode(&request, false));
            prop_assert_eq!(again, Ok(request));
        }
    }
}
