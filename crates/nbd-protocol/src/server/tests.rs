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

#[test]
fn export_name_is_answered_with_zeroes_unless_both_leave_them_out() {
    for (client_flags, padding) in [(0_u32, 124), (1, 124), (3, 0)] {
        let mut server = greeted(TlsPolicy::Off, client_flags);
        server.receive(&option(1, b"vm1"));
        server.receive(b"first request");
        let name = "vm1".to_owned();
        assert_eq!(server.step(), Step::FindExport { name });
        server.answer(Ok(found()));
        let mut expected = vec![0, 0, 0, 0, 0x40, 0, 0, 0, 0, 5];
        expected.extend(vec![0; padding]);
        assert_eq!(server.take_output(), expected);
        assert!(matches!(server.step(), Step::Transmit(_)));
        assert_eq!(server.into_leftover(), b"first request");
    }
}

#[test]
fn export_name_of_no_export_ends_the_session() {
    let mut server = greeted(TlsPolicy::Off, 3);
    server.receive(&option(1, b"vm2"));
    assert!(matches!(server.step(), Step::FindExport { .. }));
    server.answer(Err(Refusal::Unknown));
    assert_eq!(server.step(), Step::Close(CloseReason::NoSuchExport));
    assert_eq!(server.take_output(), b"");
}

#[test]
fn chunks_and_contexts_lead_to_terms() {
    let mut server = greeted(TlsPolicy::Off, 3);
    server.receive(&option(8, b""));
    server.receive(&option(
        10,
        &contexts("vm1", &["x-other:y", "base:allocation"]),
    ));
    assert!(matches!(server.step(), Step::FindExport { .. }));
    server.answer(Ok(found()));
    let mut expected = reply(8, 1, b"");
    expected.extend(reply(10, 4, b"\0\0\0\x01base:allocation"));
    expected.extend(reply(10, 1, b""));
    assert_eq!(server.take_output(), expected);
    server.receive(&option(7, &wish("vm1", &[1, 2, 3])));
    assert!(matches!(server.step(), Step::FindExport { .. }));
    server.answer(Ok(found()));
    let output = server.take_output();
    let named = reply(7, 3, b"\0\x01vm1");
    let described = reply(7, 3, b"\0\x02a disk");
    assert!(output.windows(named.len()).any(|part| part == named));
    assert!(
        output
            .windows(described.len())
            .any(|part| part == described)
    );
    let Step::Transmit(agreed) = server.step() else {
        panic!("GO leads to transmission");
    };
    assert!(agreed.terms.structured);
    assert!(agreed.terms.base_allocation);
    assert!(agreed.terms.export.flags.has(TransmissionFlags::SEND_DF));
}

#[test]
fn a_context_chosen_for_one_export_says_nothing_of_another() {
    let mut server = greeted(TlsPolicy::Off, 3);
    server.receive(&option(8, b""));
    server.receive(&option(10, &contexts("vm2", &["base:allocation"])));
    assert!(matches!(server.step(), Step::FindExport { .. }));
    server.answer(Ok(found()));
    server.receive(&option(7, &wish("vm1", &[])));
    assert!(matches!(server.step(), Step::FindExport { .. }));
    server.answer(Ok(found()));
    let Step::Transmit(agreed) = server.step() else {
        panic!("GO leads to transmission");
    };
    assert!(!agreed.terms.base_allocation);
}

#[test]
fn contexts_are_listed_by_name_by_namespace_and_all() {
    for (queries, listed) in [
        (&[][..], true),
        (&["base:"], true),
        (&["base:allocation"], true),
        (&["qemu:dirty-bitmap:x"], false),
    ] {
        let mut server = greeted(TlsPolicy::Off, 3);
        server.receive(&option(8, b""));
        assert_eq!(server.step(), Step::NeedBytes);
        server.take_output();
        server.receive(&option(9, &contexts("vm1", queries)));
        assert!(matches!(server.step(), Step::FindExport { .. }));
        server.answer(Ok(found()));
        let mut expected = Vec::new();
        if listed {
            expected.extend(reply(9, 4, b"\0\0\0\0base:allocation"));
        }
        expected.extend(reply(9, 1, b""));
        assert_eq!(server.take_output(), expected, "{queries:?}");
    }
}

#[test]
fn a_list_names_every_export() {
    let mut server = greeted(TlsPolicy::Off, 3);
    server.receive(&option(3, b""));
    assert_eq!(server.step(), Step::ListExports);
    server.list([("vm1", "a disk"), ("vm2", "")]);
    let mut expected = reply(3, 2, b"\0\0\0\x03vm1a disk");
    expected.extend(reply(3, 2, b"\0\0\0\x03vm2"));
    expected.extend(reply(3, 1, b""));
    assert_eq!(server.step(), Step::NeedBytes);
    assert_eq!(server.take_output(), expected);
}

#[test]
fn a_goodbye_is_acknowledged() {
    let mut server = greeted(TlsPolicy::Require, 3);
    server.receive(&option(2, b"so long"));
    assert_eq!(server.step(), Step::Close(CloseReason::Aborted));
    assert_eq!(server.take_output(), reply(2, 1, b""));
}

#[test]
fn wrong_options_are_refused_and_the_session_goes_on() {
    use wire::option_reply as kind;
    let refused = [
        ("unknown", option(99, b"data"), kind::ERR_UNSUP),
        ("list with data", option(3, b"x"), kind::ERR_INVALID),
        ("go without data", option(7, b""), kind::ERR_INVALID),
        ("name too long", option(7, &[0xff; 10]), kind::ERR_INVALID),
        (
            "counts lie",
            option(7, b"\0\0\0\0\0\x02\0\x03"),
            kind::ERR_INVALID,
        ),
        (
            "bytes behind",
            option(7, b"\0\0\0\0\0\0!"),
            kind::ERR_INVALID,
        ),
        (
            "name no text",
            option(7, b"\0\0\0\x01\xff\0\0"),
            kind::ERR_INVALID,
        ),
        (
            "context before chunks",
            option(10, &contexts("vm1", &["base:allocation"])),
            kind::ERR_INVALID,
        ),
        ("too big", option(7, &[0; 9000]), kind::ERR_TOO_BIG),
        ("tls", option(5, b""), kind::ERR_POLICY),
        (
            "long name",
            option(7, &wish(&"x".repeat(limits::NAME_BYTES_MAX + 1), &[])),
            kind::ERR_INVALID,
        ),
    ];
    for (name, bytes, expected) in refused {
        let mut server = greeted(TlsPolicy::Off, 3);
        server.receive(&bytes);
        assert_eq!(refusal(&mut server), expected, "{name}");
        server.receive(&option(8, b""));
        assert_eq!(server.step(), Step::NeedBytes);
        assert_eq!(server.take_output(), reply(8, 1, b""), "{name}");
        server.receive(&option(8, b""));
        assert_eq!(refusal(&mut server), kind::ERR_INVALID);
    }
}

#[test]
fn nothing_works_in_the_clear_where_tls_is_required() {
    for number in [3, 6, 7, 8, 9, 10, 99] {
        let mut server = greeted(TlsPolicy::Require, 3);
        server.receive(&option(number, b""));
        let tls_required = wire::option_reply::ERR_TLS_REQD;
        assert_eq!(refusal(&mut server), tls_required, "{number}");
    }
    let mut server = greeted(TlsPolicy::Require, 3);
    server.receive(&option(1, b"vm1"));
    assert_eq!(server.step(), Step::Close(CloseReason::NoSuchExport));
}

#[test]
fn tls_starts_the_haggling_anew() {
    let mut server = greeted(TlsPolicy::Allow, 3);
    server.receive(&option(8, b""));
    server.receive(&option(5, b""));
    assert_eq!(server.step(), Step::StartTls);
    let mut expected = reply(8, 1, b"");
    expected.extend(reply(5, 1, b""));
    assert_eq!(server.take_output(), expected);
    server.secured();
    assert!(server.is_secured());
    server.receive(&option(5, b""));
    assert_eq!(refusal(&mut server), wire::option_reply::ERR_INVALID);
    server.receive(&option(7, &wish("vm1", &[])));
    assert!(matches!(server.step(), Step::FindExport { .. }));
    server.answer(Ok(found()));
    let Step::Transmit(agreed) = server.step() else {
        panic!("GO leads to transmission");
    };
    assert!(!agreed.terms.structured);
}

#[test]
fn bytes_injected_behind_starttls_end_the_session() {
    let mut server = greeted(TlsPolicy::Require, 3);
    let mut bytes = option(5, b"");
    bytes.extend(option(8, b""));
    server.receive(&bytes);
    assert_eq!(server.step(), Step::Close(CloseReason::BytesBeforeTls));
    assert_eq!(server.take_output(), b"");
}

#[test]
fn a_client_beyond_the_limits_is_cut_off() {
    let mut server = greeted(TlsPolicy::Off, 3);
    let mut header = option(7, b"");
    header[12..16].copy_from_slice(&(limits::OPTION_SKIP_BYTES_MAX + 1).to_be_bytes());
    server.receive(&header);
    assert_eq!(server.step(), Step::Close(CloseReason::OverLimit));

    let mut server = greeted(TlsPolicy::Off, 3);
    for _ in 0..limits::OPTIONS_MAX {
        server.receive(&option(99, b""));
        assert_eq!(server.step(), Step::NeedBytes);
    }
    server.receive(&option(99, b""));
    assert_eq!(server.step(), Step::Close(CloseReason::OverLimit));
}

#[test]
fn something_else_than_a_client_is_turned_away() {
    let mut server = Handshake::new(TlsPolicy::Off);
    server.receive(b"GET / HTTP/1.1\r\n");
    assert_eq!(server.step(), Step::Close(CloseReason::NotOurProtocol));

    let mut server = greeted(TlsPolicy::Off, 3);
    server.receive(&[0; 16]);
    assert_eq!(server.step(), Step::Close(CloseReason::NotOurProtocol));

    // A client that cannot read refusals may only name an export.
    let mut server = greeted(TlsPolicy::Off, 0);
    server.receive(&option(7, &wish("vm1", &[])));
    assert_eq!(server.step(), Step::Close(CloseReason::NotOurProtocol));
}

#[test]
fn a_session_a_byte_at_a_time_is_the_same_session() {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(option(8, b""));
    bytes.extend(option(99, &[0; 9000]));
    bytes.extend(option(7, &wish("vm1", &[3])));
    let talk = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut server = Handshake::new(TlsPolicy::Off);
        let mut output = Vec::new();
        for piece in pieces {
            server.receive(piece);
            if matches!(server.step(), Step::FindExport { .. }) {
                server.answer(Ok(found()));
            }
            output.extend(server.take_output());
        }
        (output, server.step())
    };
    let whole = talk(&mut std::iter::once(&bytes[..]));
    assert!(matches!(whole.1, Step::Transmit(_)));
    assert_eq!(talk(&mut bytes.chunks(1)), whole);
}
