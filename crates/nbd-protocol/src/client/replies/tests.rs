//! Replies in pieces, out of order, and wrong.

use super::*;
use crate::reply;
use proptest::prelude::*;

const A: Cookie = Cookie(0x0102_0304_0506_0708);
const B: Cookie = Cookie(9);

fn read(offset: u64, length: u32) -> Expected {
    Expected::Read {
        offset: Offset::new(offset),
        length,
    }
}

fn asked(structured: bool, requests: &[(Cookie, Expected)]) -> Replies {
    let mut replies = Replies::new(structured);
    for (cookie, expected) in requests {
        replies.expect(*cookie, *expected);
    }
    replies
}

/// What the client made of a stream, as if by a disk of its own.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    data: Vec<(Cookie, u32, u8)>,
    done: Vec<(Cookie, Result<(), Errno>)>,
}

fn run(replies: &mut Replies, pieces: &[&[u8]]) -> Result<Outcome, Violation> {
    let mut outcome = Outcome::default();
    for piece in pieces {
        let mut input = *piece;
        while let Some(event) = replies.next(&mut input)? {
            match event {
                Event::Data { cookie, at, bytes } => {
                    let placed = (at..).zip(bytes).map(|(at, byte)| (cookie, at, *byte));
                    outcome.data.extend(placed);
                }
                Event::Zeroes { cookie, at, length } => {
                    outcome
                        .data
                        .extend((at..at + length).map(|at| (cookie, at, 0)));
                }
                Event::Done { cookie, result } => outcome.done.push((cookie, result)),
            }
        }
        assert!(input.is_empty(), "everything that was handed in is used");
    }
    outcome.data.sort_unstable();
    Ok(outcome)
}

fn data_chunk(cookie: Cookie, done: bool, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    let mut chunk = reply::data_header(cookie, done, Offset::new(offset), length).to_vec();
    chunk.extend_from_slice(bytes);
    chunk
}

#[test]
fn a_simple_read_gives_its_data_and_ends() {
    let mut stream = reply::simple(A, Ok(())).to_vec();
    stream.extend_from_slice(&[7, 8]);
    let mut replies = asked(false, &[(A, read(512, 2))]);
    let outcome = run(&mut replies, &[&stream]).unwrap();
    assert_eq!(outcome.data, [(A, 0, 7), (A, 1, 8)]);
    assert_eq!(outcome.done, [(A, Ok(()))]);
    assert_eq!(replies.in_flight(), 0);
}

#[test]
fn replies_may_come_a_byte_at_a_time() {
    let mut stream = data_chunk(A, false, 1026, &[3, 4]);
    stream.extend_from_slice(&reply::none(B));
    stream.extend_from_slice(&reply::hole(A, true, Offset::new(1024), 2));
    let requests = [(A, read(1024, 4)), (B, Expected::Nothing)];
    let whole = run(&mut asked(true, &requests), &[&stream]).unwrap();
    let pieces: Vec<&[u8]> = stream.chunks(1).collect();
    let slow = run(&mut asked(true, &requests), &pieces).unwrap();
    assert_eq!(whole, slow);
    assert_eq!(whole.done, [(B, Ok(())), (A, Ok(()))]);
    assert_eq!(whole.data, [(A, 0, 0), (A, 1, 0), (A, 2, 3), (A, 3, 4)]);
}

#[test]
fn an_error_chunk_fails_the_request_when_it_ends() {
    let mut stream = Vec::new();
    reply::error(&mut stream, A, Errno::Io, "bad sector");
    let mut replies = asked(true, &[(A, read(0, 4))]);
    let outcome = run(&mut replies, &[&data_chunk(A, false, 0, &[1]), &stream]).unwrap();
    assert_eq!(outcome.done, [(A, Err(Errno::Io))]);
}

#[test]
fn an_error_chunk_is_pinned_byte_for_byte() {
    let mut stream = Vec::new();
    reply::error(&mut stream, A, Errno::NoSpc, "full");
    let expected = [
        0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1, // magic, DONE, ERROR
        1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 10, // cookie, length
        0, 0, 0, 28, 0, 4, b'f', b'u', b'l', b'l',
    ];
    assert_eq!(stream, expected);
}

#[test]
fn what_no_server_may_send_is_a_violation() {
    let one = [(A, read(100, 4))];
    let mut data_and_simple = data_chunk(A, false, 100, &[1]);
    data_and_simple.extend_from_slice(&reply::simple(A, Err(Errno::Io)));
    let mut twice = data_chunk(A, false, 100, &[1, 2]);
    twice.extend_from_slice(&data_chunk(A, true, 101, &[2, 3, 4]));
    let mut endless = data_chunk(A, false, 100, &[1, 2, 3, 4]);
    endless[6..8].copy_from_slice(&77_u16.to_be_bytes());
    let mut long_text = Vec::new();
    reply::error(&mut long_text, A, Errno::Io, "no");
    long_text[25] = 200;
    let wrong: [(&str, Vec<u8>); 11] = [
        ("not a reply", vec![0; 4]),
        ("unknown cookie", reply::none(B).to_vec()),
        ("simple read", reply::simple(A, Ok(())).to_vec()),
        ("short", data_chunk(A, true, 100, &[1, 2, 3])),
        ("nothing", reply::none(A).to_vec()),
        ("before", data_chunk(A, true, 99, &[1, 2, 3, 4])),
        ("beyond", data_chunk(A, true, 101, &[1, 2, 3, 4])),
        ("mixed", data_and_simple),
        ("twice", twice),
        ("unknown chunk", endless),
        ("text beyond the chunk", long_text),
    ];
    for (name, stream) in wrong {
        assert!(run(&mut asked(true, &one), &[&stream]).is_err(), "{name}");
    }
    let chunk = data_chunk(A, true, 100, &[1, 2, 3, 4]);
    assert!(run(&mut asked(true, &one), &[&chunk]).is_ok());
    assert!(run(&mut asked(false, &one), &[&chunk]).is_err());
    let nothing = [(A, Expected::Nothing)];
    assert!(run(&mut asked(true, &nothing), &[&chunk]).is_err());
}

/// A reply to a read of [0, length), as a server may give it.
#[derive(Clone, Debug)]
enum Answer {
    Whole,
    /// Cut at these places, each run a hole or data, in an order that the numbers decide.
    Chunks(Vec<(u32, bool, u8)>),
    Fails,
}

fn answers() -> impl Strategy<Value = Vec<(u32, Answer)>> {
    let answer = prop_oneof![
        Just(Answer::Whole),
        proptest::collection::vec((1..300_u32, any::<bool>(), any::<u8>()), 1..8)
            .prop_map(Answer::Chunks),
        Just(Answer::Fails),
    ];
    proptest::collection::vec((1..1000_u32, answer), 1..6)
}

/// The bytes of an answer, and what the client must make of it.
fn answer(cookie: Cookie, length: u32, how: &Answer) -> (Vec<u8>, Vec<u8>, Result<(), Errno>) {
    let byte = |at: u32| u8::try_from(at % 251).unwrap();
    let mut stream = Vec::new();
    match how {
        Answer::Whole => {
            let data: Vec<u8> = (0..length).map(byte).collect();
            (data_chunk(cookie, true, 0, &data), data, Ok(()))
        }
        Answer::Fails => {
            reply::error(&mut stream, cookie, Errno::Io, "bad sector");
            (stream, Vec::new(), Err(Errno::Io))
        }
        Answer::Chunks(cuts) => {
            let mut data = Vec::new();
            let mut runs = Vec::new();
            let mut at = 0;
            for (n, (run, hole, order)) in cuts.iter().enumerate() {
                let last = n + 1 == cuts.len();
                let end = if last { length } else { (at + run).min(length) };
                if at < end {
                    let bytes = (at..end).map(|at| if *hole { 0 } else { byte(at) });
                    data.extend(bytes);
                    runs.push((*order, at, end, *hole));
                }
                at = end;
            }
            runs.sort_unstable();
            for (n, (_, from, to, hole)) in runs.iter().enumerate() {
                let done = n + 1 == runs.len();
                if *hole {
                    let start = Offset::new(u64::from(*from));
                    stream.extend(reply::hole(cookie, done, start, to - from));
                } else {
                    let bytes = &data[*from as usize..*to as usize];
                    stream.extend(data_chunk(cookie, done, u64::from(*from), bytes));
                }
            }
            (stream, data, Ok(()))
        }
    }
}

proptest! {
    #[test]
    fn what_a_server_says_is_what_a_client_hears(answers in answers(), piece in 1..400_usize) {
        let mut replies = Replies::new(true);
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (n, (length, how)) in answers.iter().enumerate() {
            let cookie = Cookie(n as u64);
            replies.expect(cookie, read(0, *length));
            let (bytes, data, result) = answer(cookie, *length, how);
            stream.extend(bytes);
            expected.push((cookie, data, result));
        }
        let pieces: Vec<&[u8]> = stream.chunks(piece).collect();
        let outcome = run(&mut replies, &pieces).unwrap();
        for (cookie, data, result) in &expected {
            prop_assert!(outcome.done.contains(&(*cookie, *result)));
            let heard = outcome.data.iter().filter(|(whose, _, _)| whose == cookie);
            let heard: Vec<u8> = heard.map(|(_, _, byte)| *byte).collect();
            prop_assert_eq!(&heard, data);
        }
        prop_assert_eq!(outcome.done.len(), expected.len());
        prop_assert_eq!(replies.in_flight(), 0);
    }
}
