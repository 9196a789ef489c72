//! A client that haggles with the server in any way at all.
//!
//! The first byte chooses the server's policy, the rest is what the client sends.

use crate::pieces;
use nbd_protocol::server::{Agreed, CloseReason, Found, Handshake, Refusal, Step, TlsPolicy};
use nbd_protocol::{BlockSizes, Export, TransmissionFlags, limits};
use units::Bytes;

const EXPORTS: [(&str, &str); 2] = [("vm1", "a disk"), ("", "")];

/// What a session came to.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Haggling,
    Transmitting(Agreed, Vec<u8>),
    Closed(CloseReason),
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, stream)) = pieces::choice(bytes) else {
        return;
    };
    let policy = match choice % 3 {
        0 => TlsPolicy::Off,
        1 => TlsPolicy::Allow,
        _ => TlsPolicy::Require,
    };
    let (whole, secured) = talk(policy, &[stream]);
    let (cut, cut_secured) = talk(policy, &pieces::cut(stream, choice));
    if !secured && !cut_secured && !matches!(whole.1, End::Closed(CloseReason::BytesBeforeTls)) {
        assert_eq!(whole, cut, "pieces make no difference");
    }
}

/// Output and end of a session, and whether TLS was started: what arrives behind `STARTTLS`
/// counts as injected or not by when it arrives.
fn talk(policy: TlsPolicy, pieces: &[&[u8]]) -> ((Vec<u8>, End), bool) {
    let mut server = Handshake::new(policy);
    let mut output = Vec::new();
    let mut received = 0;
    for piece in pieces {
        server.receive(piece);
        received += piece.len();
        loop {
            let step = server.step();
            output.extend(server.take_output());
            match step {
                Step::FindExport { name } => {
                    assert!(name.len() <= limits::NAME_BYTES_MAX);
                    assert!(
                        policy != TlsPolicy::Require || server.is_secured(),
                        "no export is looked up in the clear"
                    );
                    server.answer(find(&name));
                }
                Step::ListExports => {
                    assert!(policy != TlsPolicy::Require || server.is_secured());
                    server.list(EXPORTS);
                }
                Step::StartTls => {
                    assert!(policy != TlsPolicy::Off);
                    server.secured();
                }
                Step::NeedBytes | Step::Transmit(_) | Step::Close(_) => break,
            }
        }
    }
    // The longest answer to the shortest option is a list of exports.
    assert!(
        output.len() <= 512 + 16 * received,
        "{received} bytes brought {} out",
        output.len()
    );
    let secured = server.is_secured();
    let end = match server.step() {
        Step::Transmit(agreed) => {
            assert!(agreed.terms.structured || !agreed.terms.base_allocation);
            End::Transmitting(agreed, server.into_leftover())
        }
        Step::Close(reason) => End::Closed(reason),
        Step::NeedBytes | Step::FindExport { .. } | Step::ListExports | Step::StartTls => {
            End::Haggling
        }
    };
    ((output, end), secured)
}

fn find(name: &str) -> Result<Found, Refusal> {
    match name {
        "vm1" | "" => Ok(Found {
            export: Export {
                size: Bytes::gib(1),
                flags: TransmissionFlags::KNOWN,
                blocks: BlockSizes::OURS,
            },
            description: "a disk".to_owned(),
        }),
        "secret" => Err(Refusal::Forbidden),
        "late" => Err(Refusal::ShuttingDown),
        _ => Err(Refusal::Unknown),
    }
}
