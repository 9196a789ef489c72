//! A QEMU that says anything at all: headers and payloads, one message after the other.

use vhost_protocol::limits::{CONFIG_BYTES_MAX, DESCRIPTORS_MAX, PAYLOAD_MAX, TABLE_REGIONS_MAX};
use vhost_protocol::{Descriptors, Header, MessageError, Request, encode};

pub(crate) fn run(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((header, behind)) = rest.split_first_chunk() {
        let Ok(header) = Header::decode(header) else {
            return;
        };
        assert!(header.length <= PAYLOAD_MAX);
        let length = (header.length as usize).min(behind.len());
        let (payload, next) = behind.split_at(length);
        rest = next;
        match Request::decode(&header, payload) {
            Ok(request) => judge(&request),
            Err(MessageError::Unknown { code } | MessageError::Payload { code }) => {
                assert_eq!(code, header.code);
            }
            Err(error) => panic!("a payload is no header: {error}"),
        }
    }
}

fn judge(request: &Request) {
    match request {
        Request::SetMemoryTable(regions) => assert!(regions.len() <= TABLE_REGIONS_MAX),
        Request::GetConfig { offset, size, .. } => assert!(offset + size <= CONFIG_BYTES_MAX),
        Request::SetConfig { offset, bytes } => {
            assert!(*offset as usize + bytes.len() <= CONFIG_BYTES_MAX as usize);
        }
        _ => {}
    }
    let (Descriptors::Exactly(count) | Descriptors::AtMost(count)) = request.descriptors();
    assert!(count <= DESCRIPTORS_MAX);
    // What was understood says the same again.
    let again = encode(request, false);
    let (header, payload) = again.split_first_chunk().expect("a message has a header");
    let header = Header::decode(header).expect("what we write is a message");
    assert_eq!(Request::decode(&header, payload).as_ref(), Ok(request));
}
