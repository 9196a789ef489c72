//! A guest that says anything at all on its channel.
//!
//! The first byte chooses where the stream is cut, the rest is the stream.

use crate::pieces;
use guest_protocol::{
    Counts, FRAME_BYTES_MAX, FRAMES_PER_SECOND, Frame, Message, PADDING, Receiver,
};
use units::Instant;

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, stream)) = pieces::choice(bytes) else {
        return;
    };
    let (messages, counts) = listen(&[stream]);
    assert_eq!(
        (messages.clone(), counts),
        listen(&pieces::cut(stream, choice)),
        "pieces make no difference"
    );
    assert!(
        messages.len() <= FRAMES_PER_SECOND as usize,
        "the quota holds"
    );
    let mut again = Vec::new();
    for (sequence, message) in (0..).zip(&messages) {
        let message = message.clone();
        let before = again.len();
        Frame { sequence, message }.encode(&mut again);
        assert!(again.len() - before <= FRAME_BYTES_MAX);
    }
    // Behind padding an agent that was started anew is heard, whatever came before.
    let restarted = [stream, &PADDING, &again].concat();
    let (all, counts) = listen(&[&restarted]);
    if counts.dropped == 0 {
        assert!(all.ends_with(&messages), "what is read is written alike");
    }
}

/// The messages of a stream that comes at one moment, and what was counted.
fn listen(pieces: &[&[u8]]) -> (Vec<Message>, Counts) {
    let (mut receiver, mut messages) = (Receiver::new(Instant::ZERO), Vec::new());
    for piece in pieces {
        receiver.receive(piece, |message| messages.push(message));
    }
    (messages, receiver.counts())
}
