//! The client's handshake, pinned, and against the server of this crate.

use super::*;
use crate::server::{self, Found, Refusal, TlsPolicy};

fn wishes(tls: bool) -> Wishes {
    Wishes {
        export: "vm1".to_owned(),
        tls,
    }
}

fn export() -> Export {
    let flags = TransmissionFlags::HAS_FLAGS
        .with(TransmissionFlags::SEND_FLUSH)
        .with(TransmissionFlags::CAN_MULTI_CONN);
    Export {
        size: Bytes::mib(5),
        flags,
        blocks: BlockSizes::OURS,
    }
}

/// Lets client and server talk until the client needs nothing more; `answer` stands for the
/// driver of the server.
fn converse(
    client: &mut Handshake,
    server: &mut server::Handshake,
    answer: &Result<Found, Refusal>,
) -> Step {
    for _ in 0..100 {
        client.receive(&server.take_output());
        let client_step = client.step();
        let to_server = client.take_output();
        match client_step {
            Step::NeedBytes | Step::StartTls => server.receive(&to_server),
            Step::Ready(_) | Step::Failed(_) => return client_step,
        }
        match server.step() {
            server::Step::FindExport { name } => {
                assert_eq!(name, "vm1");
                server.answer(answer.clone());
            }
            server::Step::StartTls => {
                client.receive(&server.take_output());
                assert_eq!(client.step(), Step::StartTls);
                server.secured();
                client.secured();
            }
            server::Step::Close(_) => {
                client.receive(&server.take_output());
                return client.step();
            }
            _ => {}
        }
    }
    panic!("the handshake comes to an end");
}

fn found() -> Found {
    Found {
        export: export(),
        description: String::new(),
    }
}

#[test]
fn client_and_server_agree() {
    for (policy, tls) in [
        (TlsPolicy::Off, false),
        (TlsPolicy::Allow, false),
        (TlsPolicy::Allow, true),
        (TlsPolicy::Require, true),
    ] {
        let mut client = Handshake::new(wishes(tls));
        let mut server = server::Handshake::new(policy);
        let step = converse(&mut client, &mut server, &Ok(found()));
        let Step::Ready(terms) = step else {
            panic!("{policy:?} {tls} ends in {step:?}");
        };
        assert_eq!(terms.export, export());
        assert!(terms.structured);
        assert_eq!(server.is_secured(), tls);
        let server::Step::Transmit(agreed) = server.step() else {
            panic!("the server is in transmission too");
        };
        assert_eq!(agreed.terms, terms);
    }
}

#[test]
fn a_server_that_wants_tls_refuses_a_client_that_does_not() {
    let mut client = Handshake::new(wishes(false));
    let mut server = server::Handshake::new(TlsPolicy::Require);
    let step = converse(&mut client, &mut server, &Ok(found()));
    assert_eq!(step, Step::Failed(HandshakeError::WantsTls));
}

#[test]
fn a_server_without_tls_is_told_from_one_that_refuses() {
    let mut client = Handshake::new(wishes(true));
    let mut server = server::Handshake::new(TlsPolicy::Off);
    let step = converse(&mut client, &mut server, &Ok(found()));
    assert_eq!(step, Step::Failed(HandshakeError::OffersNoTls));
}

#[test]
fn refusals_are_told_apart() {
    for (refusal, unknown) in [
        (Refusal::Unknown, true),
        (Refusal::Forbidden, false),
        (Refusal::ShuttingDown, false),
    ] {
        let mut client = Handshake::new(wishes(false));
        let mut server = server::Handshake::new(TlsPolicy::Off);
        let step = converse(&mut client, &mut server, &Err(refusal));
        let Step::Failed(error) = step else {
            panic!("there is no such export");
        };
        let told = matches!(error, HandshakeError::UnknownExport { .. });
        assert_eq!(told, unknown, "{refusal}");
    }
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = wire::OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A client that was greeted with these flags.
fn greeted(flags: u8) -> Handshake {
    let mut client = Handshake::new(wishes(false));
    assert_eq!(client.step(), Step::NeedBytes);
    client.receive(b"NBDMAGICIHAVEOPT\x00");
    client.receive(&[flags]);
    assert_eq!(client.step(), Step::NeedBytes);
    client
}

#[test]
fn an_old_server_is_asked_byte_for_byte() {
    let mut client = greeted(3);
    let structured = b"\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x08\x00\x00\x00\x00";
    assert_eq!(client.take_output(), structured);
    client.receive(&reply(8, wire::option_reply::ERR_UNSUP, b"what?"));
    assert_eq!(client.step(), Step::NeedBytes);
    let go = b"IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x0b\x00\x00\x00\x03vm1\x00\x01\x00\x03";
    assert_eq!(client.take_output(), go);
    client.receive(&reply(7, wire::option_reply::ERR_UNSUP, b"what?"));
    assert_eq!(client.step(), Step::NeedBytes);
    let export_name = b"IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x03vm1";
    assert_eq!(client.take_output(), export_name);
    client.receive(&[0, 0, 0, 0, 0, 0x50, 0, 0, 0, 5, 99]);
    let Step::Ready(terms) = client.step() else {
        panic!("an old server serves, too");
    };
    assert_eq!(terms.export.size, Bytes::mib(5));
    assert_eq!(terms.export.blocks, BlockSizes::UNSAID);
    assert!(!terms.structured);
    assert_eq!(client.into_leftover(), [99]);
}

#[test]
fn the_first_newstyle_ends_in_zeroes() {
    let mut client = greeted(0);
    assert_eq!(
        client.take_output(),
        b"\x00\x00\x00\x00IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x03vm1"
    );
    client.receive(&[0, 0, 0, 0, 0, 0x50, 0, 0, 0, 5]);
    client.receive(&[0; 123]);
    assert_eq!(client.step(), Step::NeedBytes);
    client.receive(&[0]);
    assert!(matches!(client.step(), Step::Ready(_)));
}

#[test]
fn a_largest_payload_is_rounded_to_blocks() {
    assert_eq!(
        offered(512, 4096, 33_000_001).unwrap().maximum,
        33_000_000 / 512 * 512
    );
    assert_eq!(offered(1, 4096, u32::MAX).unwrap().maximum, u32::MAX);
    assert_eq!(offered(0, 4096, 4096), None);
    assert_eq!(offered(4096, 512, 8192), None);
}

#[test]
fn servers_that_break_the_protocol_are_left() {
    let info = |kind: u16, rest: &[u8]| {
        let mut data = kind.to_be_bytes().to_vec();
        data.extend_from_slice(rest);
        reply(7, wire::option_reply::INFO, &data)
    };
    let ack = reply(7, wire::option_reply::ACK, b"");
    let huge = info(0, &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let wrong: [(&str, Vec<u8>); 7] = [
        ("ack without export", ack.clone()),
        ("short export", info(0, &[0; 9])),
        ("long export", info(0, &[0; 11])),
        ("block sizes of zero", info(3, &[0; 12])),
        ("reply to another option", reply(8, 1, b"")),
        ("too large an export", [huge, ack].concat()),
        ("too long a reply", reply(7, 3, &vec![0; 20_000])),
    ];
    for (name, bytes) in wrong {
        let mut client = greeted(3);
        client.receive(&reply(8, 1, b""));
        assert_eq!(client.step(), Step::NeedBytes);
        client.receive(&bytes);
        let step = client.step();
        let failed = matches!(step, Step::Failed(HandshakeError::Violation { .. }));
        assert!(failed, "{name}: {step:?}");
    }
}

#[test]
fn something_else_is_no_nbd_server() {
    for greeting in [
        &b"SSH-2.0-OpenSSH_9.2p1"[..],
        b"NBDMAGIC\x00\x00\x42\x02\x81\x86\x12\x53",
    ] {
        let mut client = Handshake::new(wishes(false));
        client.receive(greeting);
        assert_eq!(client.step(), Step::Failed(HandshakeError::NotNbd));
    }
}

#[test]
fn an_endless_list_of_replies_is_cut_off() {
    let mut client = greeted(3);
    client.receive(&reply(8, 1, b""));
    assert_eq!(client.step(), Step::NeedBytes);
    let piece = reply(7, wire::option_reply::INFO, &[0, 2]);
    for _ in 0..=limits::OPTION_REPLIES_MAX {
        client.receive(&piece);
    }
    assert!(matches!(client.step(), Step::Failed(_)));
}
