//! A peer that says anything at all over the link.
//!
//! The first byte chooses where the stream is cut, the rest is a preface and frames behind it.

use crate::pieces;
use link_protocol::{
    DATA_MAX, Frame, Frames, Message, PREFACE_BYTES, Preface, Violation, decode_records,
    encode_records,
};

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, stream)) = pieces::choice(bytes) else {
        return;
    };
    let Some((preface, frames)) = stream.split_first_chunk::<PREFACE_BYTES>() else {
        return;
    };
    if let Ok(preface) = Preface::decode(preface) {
        let version = preface.agree(Preface::ours(1));
        assert!(
            version.is_err() || (preface.oldest..=preface.newest).contains(&version.unwrap_or(0))
        );
    }
    let whole = listen(&[frames]);
    assert_eq!(
        whole,
        listen(&pieces::cut(frames, choice)),
        "pieces make no difference"
    );
    let mut again = Vec::new();
    for frame in &whole.0 {
        assert!(frame.data.len() <= DATA_MAX);
        if let (Message::Records { .. }, Some(records)) =
            (&frame.message, decode_records(&frame.data))
        {
            assert_eq!(encode_records(&records).as_ref(), Some(&frame.data));
        }
        frame.encode(&mut again);
    }
    assert_eq!(
        listen(&[&again]),
        (whole.0, None),
        "what is read is written alike"
    );
}

/// The frames of a stream, and why it ended early.
fn listen(pieces: &[&[u8]]) -> (Vec<Frame>, Option<Violation>) {
    let (mut stream, mut frames) = (Frames::new(), Vec::new());
    for piece in pieces {
        stream.push(piece);
        loop {
            match stream.take() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(violation) => return (frames, Some(violation)),
            }
        }
    }
    (frames, None)
}
