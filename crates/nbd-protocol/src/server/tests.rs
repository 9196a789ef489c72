//! Handshakes pinned byte for byte, and what a hostile client may not do.

use super::*;
use crate::{BlockSizes, TransmissionFlags};
use units::Bytes;

const SIZE: u64 = 1 << 30;

fn export() -> Export {
    Export {
        size: Bytes::new(SIZE),
        flags: TransmissionFlags::HAS_FLAGS
            .with(TransmissionFlags::SEND_FLUSH)
            .with(TransmissionFlags::SEND_DF),
        blocks: BlockSizes::OURS,
    }
}

fn found() -> Found {
    Found {
        export: export(),
        description: "a disk".to_owned(),
    }
}

/// An option as a client sends it.
fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A reply to an option as a server sends it.
fn reply(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x00, 0x03, 0xe8, 0x89, 0x04, 0x55, 0x65, 0xa9];
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// `GO` or `INFO` data: a name and the kinds of information wanted.
fn wish(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&u16::try_from(kinds.len()).unwrap().to_be_bytes());
    for kind in kinds {
        data.extend_from_slice(&kind.to_be_bytes());
    }
    data
}

/// Data of the options on metadata contexts.
fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&u32::try_from(queries.len()).unwrap().to_be_bytes());
    for query in queries {
        data.extend_from_slice(&u32::try_from(query.len()).unwrap().to_be_bytes());
        data.extend_from_slice(query.as_bytes());
    }
    data
}

/// A session whose greeting is over, with these handshake flags of the client.
fn greeted(tls: TlsPolicy, client_flags: u32) -> Handshake {
    let mut server = Handshake::new(tls);
    assert_eq!(server.take_output(), b"NBDMAGICIHAVEOPT\x00\x03");
    server.receive(&client_flags.to_be_bytes());
    assert_eq!(server.step(), Step::NeedBytes);
    server
}

/// The error type of the one refusal in the output.
fn refusal(server: &mut Handshake) -> u32 {
    assert_eq!(server.step(), Step::NeedBytes);
    let output = server.take_output();
    assert_eq!(
        output[..8],
        [0x00, 0x03, 0xe8, 0x89, 0x04, 0x55, 0x65, 0xa9]
    );
    u32::from_be_bytes(output[12..16].try_into().unwrap())
}

#[test]
fn go_is_answered_byte_for_byte() {
    let mut server = greeted(TlsPolicy::Off, 3);
    server.receive(&option(7, &wish("vm1", &[3])));
    let name = "vm1".to_owned();
    assert_eq!(server.step(), Step::FindExport { name });
    server.answer(Ok(found()));
    let expected = [
        0x00, 0x03, 0xe8, 0x89, 0x04, 0x55, 0x65, 0xa9, // magic
        0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 12, // GO, INFO, 12 bytes
        0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 5, // EXPORT, 1 GiB, flags
        0x00, 0x03, 0xe8, 0x89, 0x04, 0x55, 0x65, 0xa9, //
        0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 14, // GO, INFO, 14 bytes
        0, 3, 0, 0, 2, 0, 0, 0, 0x10, 0, 2, 0, 0, 0, // BLOCK_SIZE 512, 4096, 32 MiB
        0x00, 0x03, 0xe8, 0x89, 0x04, 0x55, 0x65, 0xa9, //
        0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, // GO, ACK
    ];
    assert_eq!(server.take_output(), expected);
    let Step::Transmit(agreed) = server.step() else {
        panic!("GO leads to transmission");
    };
    assert_eq!(agreed.name, "vm1");
    assert!(!agreed.terms.structured);
    assert!(!agreed.terms.base_allocation);
}
