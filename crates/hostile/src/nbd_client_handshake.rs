//! A server that haggles with our client in any way at all.
//!
//! The first byte chooses what the client wishes, the rest is what the server sends.

use crate::pieces;
use nbd_protocol::client::{Handshake, Step, Wishes};
use nbd_protocol::limits;

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, stream)) = pieces::choice(bytes) else {
        return;
    };
    let tls = choice & 1 != 0;
    let whole = talk(tls, &[stream]);
    let cut = talk(tls, &pieces::cut(stream, choice));
    // What arrives behind the answer to STARTTLS is judged by when it arrives.
    if !tls {
        assert_eq!(whole, cut, "pieces make no difference");
    }
}

fn talk(tls: bool, pieces: &[&[u8]]) -> (Vec<u8>, Step, Vec<u8>) {
    let mut client = Handshake::new(Wishes {
        export: "vm1".to_owned(),
        tls,
    });
    let mut output = Vec::new();
    let mut secured = false;
    for piece in pieces {
        client.receive(piece);
        loop {
            let step = client.step();
            output.extend(client.take_output());
            if step != Step::StartTls {
                break;
            }
            assert!(tls, "TLS starts only where it is wished");
            secured = true;
            client.secured();
        }
    }
    let step = client.step();
    if let Step::Ready(terms) = &step {
        assert!(secured || !tls, "nothing is agreed on in the clear");
        assert!(i64::try_from(terms.export.size.get()).is_ok());
        assert!(terms.export.blocks.is_sound());
    }
    // Each of at most four options carries the name once.
    assert!(output.len() <= 4 * (limits::NAME_BYTES_MAX + 64));
    (output, step, client.into_leftover())
}
