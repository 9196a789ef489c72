//! A server that answers our client with anything at all.
//!
//! The first byte chooses whether chunks were agreed on and what was asked, the rest is what
//! the server sends.

use crate::pieces;
use nbd_protocol::client::{Event, Expected, Replies};
use nbd_protocol::{Cookie, Errno};
use std::collections::BTreeMap;
use units::Offset;

/// What is in flight: cookies 1 to 4 are reads of these lengths, 5 and 6 read nothing.
const READS: [u32; 4] = [1, 16, 512, 4096];
const OFFSET: u64 = 1 << 20;

/// What the client was told, event by event, runs of data put together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    reads: BTreeMap<Cookie, Vec<Option<u8>>>,
    done: Vec<(Cookie, Result<(), Errno>)>,
    violated: bool,
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, stream)) = pieces::choice(bytes) else {
        return;
    };
    let structured = choice & 1 != 0;
    let whole = listen(structured, &[stream]);
    let cut = listen(structured, &pieces::cut(stream, choice));
    assert_eq!(whole, cut, "pieces make no difference");
    for (cookie, result) in &whole.done {
        if let (Ok(()), Some(read)) = (result, whole.reads.get(cookie)) {
            assert!(
                read.iter().all(Option::is_some),
                "a read that succeeded gave every byte"
            );
        }
    }
}

fn listen(structured: bool, pieces: &[&[u8]]) -> Outcome {
    let mut replies = Replies::new(structured);
    let mut outcome = Outcome::default();
    for (cookie, length) in (1..).map(Cookie).zip(READS) {
        let offset = Offset::new(OFFSET);
        replies.expect(cookie, Expected::Read { offset, length });
        outcome.reads.insert(cookie, vec![None; length as usize]);
    }
    for cookie in [Cookie(5), Cookie(6)] {
        replies.expect(cookie, Expected::Nothing);
    }
    for piece in pieces {
        let mut input = *piece;
        loop {
            match replies.next(&mut input) {
                Ok(Some(event)) => outcome.take(&event),
                Ok(None) => break,
                Err(_) => {
                    outcome.violated = true;
                    return outcome;
                }
            }
        }
        assert!(input.is_empty(), "what was handed in is used");
    }
    assert_eq!(replies.in_flight() + outcome.done.len(), READS.len() + 2);
    outcome
}

impl Outcome {
    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Data { cookie, at, bytes } => {
                let bytes = bytes.iter().copied();
                self.put(*cookie, *at as usize, bytes);
            }
            Event::Zeroes { cookie, at, length } => {
                let zeroes = std::iter::repeat_n(0, *length as usize);
                self.put(*cookie, *at as usize, zeroes);
            }
            Event::Done { cookie, result } => {
                let again = self.done.iter().any(|(done, _)| done == cookie);
                assert!(!again, "a request ends once");
                self.done.push((*cookie, *result));
            }
        }
    }

    fn put(&mut self, cookie: Cookie, at: usize, bytes: impl ExactSizeIterator<Item = u8>) {
        let read = self.reads.get_mut(&cookie);
        let read = read.expect("only what reads is given data");
        for (place, byte) in read[at..at + bytes.len()].iter_mut().zip(bytes) {
            assert_eq!(*place, None, "a byte is given once");
            *place = Some(byte);
        }
    }
}
