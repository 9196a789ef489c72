//! Frames: a message, and bytes of a disk behind it.

use crate::limits::{DATA_MAX, HEADER_BYTES, MESSAGE_MAX};
use crate::message::Message;

/// One message, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Pairs a question with its answer; 0 for what is neither.
    pub number: u64,
    /// The message.
    pub message: Message,
    /// Bytes of a disk; empty for most messages.
    pub data: Vec<u8>,
}

/// How a peer broke the protocol. The connection is ended: nothing behind it can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The header gives a message a length that none has.
    #[error("a message of {0} bytes")]
    MessageLength(u32),
    /// The header gives data more bytes than a frame may have.
    #[error("{0} bytes of data in a frame")]
    DataLength(u32),
    /// The bytes are no message of this version, or more than one.
    #[error("bytes that are no message")]
    NoMessage,
    /// The message is outside of the limits that the protocol sets.
    #[error("a message outside of the protocol's limits")]
    Limits,
    /// The message has no data, and some came.
    #[error("data behind a message that has none")]
    UnexpectedData,
}

impl Frame {
    /// A message that is no question and no answer.
    pub const fn notice(message: Message) -> Self {
        Self::numbered(0, message)
    }

    /// A question or an answer without data.
    pub const fn numbered(number: u64, message: Message) -> Self {
        Self {
            number,
            message,
            data: Vec::new(),
        }
    }

    /// Appends its bytes to `out`.
    ///
    /// # Panics
    /// If the message or the data is longer than a frame may have: the sender keeps to the limits.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.data.len() <= DATA_MAX, "data of one frame");
        assert!(self.message.is_within_limits(), "a message that is allowed");
        let message = postcard::to_allocvec(&self.message).expect("a message is written to memory");
        assert!(message.len() <= MESSAGE_MAX, "a message that fits");
        out.reserve(HEADER_BYTES + message.len() + self.data.len());
        out.extend_from_slice(&length(message.len()));
        out.extend_from_slice(&length(self.data.len()));
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&message);
        out.extend_from_slice(&self.data);
    }
}

fn length(bytes: usize) -> [u8; 4] {
    let bytes = u32::try_from(bytes).expect("it was bounded");
    bytes.to_le_bytes()
}

/// A header that keeps to the limits.
#[derive(Clone, Copy)]
struct Header {
    message: usize,
    data: usize,
    number: u64,
}

impl Header {
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Violation> {
        let [m0, m1, m2, m3, d0, d1, d2, d3, number @ ..] = *bytes;
        let message = u32::from_le_bytes([m0, m1, m2, m3]);
        let data = u32::from_le_bytes([d0, d1, d2, d3]);
        if message == 0 || message as usize > MESSAGE_MAX {
            return Err(Violation::MessageLength(message));
        }
        if data as usize > DATA_MAX {
            return Err(Violation::DataLength(data));
        }
        Ok(Self {
            message: message as usize,
            data: data as usize,
            number: u64::from_le_bytes(number),
        })
    }

    const fn frame_bytes(self) -> usize {
        HEADER_BYTES + self.message + self.data
    }
}

/// Cuts a stream into frames. Holds at most one frame and what was given with its end.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Bytes at the beginning that were taken already.
    taken: usize,
}

impl Frames {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// More bytes have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, or `None` if it has not come whole.
    ///
    /// # Errors
    /// [`Violation`], as soon as the bytes that are there show it; and from then on.
    pub fn take(&mut self) -> Result<Option<Frame>, Violation> {
        let rest = &self.bytes[self.taken..];
        let Some(header) = rest.first_chunk() else {
            return Ok(None);
        };
        let header = Header::decode(header)?;
        let Some(frame) = rest.get(..header.frame_bytes()) else {
            return Ok(None);
        };
        let (message, data) = frame[HEADER_BYTES..].split_at(header.message);
        let (message, behind): (Message, _) =
            postcard::take_from_bytes(message).map_err(|_| Violation::NoMessage)?;
        if !behind.is_empty() {
            return Err(Violation::NoMessage);
        }
        if !message.is_within_limits() {
            return Err(Violation::Limits);
        }
        if !data.is_empty() && !message.has_data() {
            return Err(Violation::UnexpectedData);
        }
        let data = data.to_vec();
        self.taken += header.frame_bytes();
        Ok(Some(Frame {
            number: header.number,
            message,
            data,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{
        HOST_NAME_MAX, OBSTACLE_TEXT_MAX, OBSTACLES_MAX, UNIT_DISKS_MAX, UNIT_NAME_MAX,
    };
    use crate::message::{
        DirtyLook, DiskLook, DiskRole, Holder, ImageLook, NotServed, Obstacle, Refusal,
    };
    use proptest::prelude::*;

    const IMAGE: ImageLook = ImageLook {
        size: u64::MAX,
        sample: u128::MAX,
        fingerprint: Some(u128::MAX),
    };

    const DIRTY: DirtyLook = DirtyLook {
        bytes: u64::MAX,
        room: u64::MAX,
        goes_along: true,
    };

    fn longest_look() -> DiskLook {
        let long = "\u{e9}".repeat(OBSTACLE_TEXT_MAX);
        DiskLook {
            size: Some(1 << 40),
            is_encrypted: true,
            role: DiskRole::Owner,
            holder: Some(Holder {
                host: "h".repeat(HOST_NAME_MAX),
                epoch: u64::MAX,
            }),
            obstacles: vec![Obstacle::new(&long, &long, &long); OBSTACLES_MAX],
            image: Some(Box::new(IMAGE)),
            dirty: Some(DIRTY),
        }
    }

    fn traced(trace: u128, span: u64) -> Message {
        Message::Traced {
            unit: "web".to_owned(),
            trace,
            span,
            is_sampled: true,
        }
    }

    fn every_message() -> Vec<Message> {
        let unit = || "web".to_owned();
        let look = longest_look();
        let most = u32::try_from(DATA_MAX).unwrap();
        vec![
            Message::List {
                unit: "w".repeat(UNIT_NAME_MAX),
                disks: (0..UNIT_DISKS_MAX as u128)
                    .map(|disk| u128::MAX - 99 + disk)
                    .collect(),
            },
            Message::Unlist { unit: unit() },
            Message::Client {
                unit: unit(),
                is_there: true,
            },
            Message::Announce { unit: unit() },
            Message::Claim {
                unit: unit(),
                is_return: true,
            },
            Message::Grant {
                unit: unit(),
                epoch: u64::MAX,
            },
            Message::Refuse {
                unit: unit(),
                why: Refusal::NotOwner,
            },
            Message::Stopped { unit: unit() },
            Message::AskLook { disk: 7 },
            Message::Look { look },
            Message::Read {
                disk: 7,
                offset: u64::MAX - u64::from(most),
                length: most,
            },
            Message::Bytes,
            Message::NotServed {
                why: NotServed::Range,
            },
            Message::Alive,
            Message::AskRecords {
                disk: u128::MAX,
                epoch: u64::MAX,
                from: u64::MAX,
                settled: Some(u64::MAX),
                cache: u128::MAX,
            },
            Message::Demand {
                disk: u128::MAX,
                accessed: u64::MAX,
                reused: u64::MAX,
                reads: u64::MAX,
                curve: (0..64).map(|at| (u64::MAX - 64 + at, 1_000_000)).collect(),
            },
            Message::Records {
                period: u64::MAX,
                first: 7,
                base: 7,
                end: 7,
            },
            Message::AskImage {
                disk: u128::MAX,
                image: Box::new(IMAGE),
            },
            traced(u128::MAX, u64::MAX),
        ]
    }

    fn encoded(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in frames {
            frame.encode(&mut bytes);
        }
        bytes
    }

    fn taken(frames: &mut Frames) -> Result<Vec<Frame>, Violation> {
        std::iter::from_fn(|| frames.take().transpose()).collect()
    }

    fn first_of(bytes: &[u8]) -> Result<Option<Frame>, Violation> {
        let mut frames = Frames::new();
        frames.push(bytes);
        frames.take()
    }

    proptest! {
        #[test]
        fn frames_come_back_however_the_stream_is_cut(
            which in proptest::collection::vec((0..18_usize, any::<u64>(), 0..3000_usize), 0..12),
            cut in 1..700_usize,
        ) {
            let messages = every_message();
            let frames: Vec<Frame> = which
                .into_iter()
                .map(|(which, number, data)| {
                    let message = messages[which].clone();
                    let data = if message.has_data() { vec![0xa5; data] } else { Vec::new() };
                    Frame { number, message, data }
                })
                .collect();
            let (mut stream, mut back) = (Frames::new(), Vec::new());
            for piece in encoded(&frames).chunks(cut) {
                stream.push(piece);
                back.extend(taken(&mut stream).unwrap());
            }
            prop_assert_eq!(back, frames);
            prop_assert_eq!(stream.bytes.len(), stream.taken, "nothing is left");
        }
    }

    #[test]
    fn every_message_fits_and_comes_back() {
        let frames: Vec<Frame> = every_message().into_iter().map(Frame::notice).collect();
        let mut stream = Frames::new();
        stream.push(&encoded(&frames));
        assert_eq!(taken(&mut stream).unwrap(), frames);
    }

    #[test]
    fn lengths_are_refused_before_the_bytes_have_come() {
        let header = |message: u32, data: u32| {
            let mut bytes = [0; HEADER_BYTES];
            bytes[..4].copy_from_slice(&message.to_le_bytes());
            bytes[4..8].copy_from_slice(&data.to_le_bytes());
            bytes
        };
        assert_eq!(first_of(&header(0, 0)), Err(Violation::MessageLength(0)));
        assert_eq!(
            first_of(&header(4097, 0)),
            Err(Violation::MessageLength(4097))
        );
        let most = u32::try_from(DATA_MAX).unwrap();
        assert_eq!(
            first_of(&header(1, most + 1)),
            Err(Violation::DataLength(most + 1))
        );
        assert_eq!(first_of(&header(4096, most)), Ok(None));
        assert_eq!(first_of(&header(4096, most)[..15]), Ok(None));
    }

    /// A frame with these bytes as its message.
    fn raw(message: &[u8], data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&length(message.len()));
        bytes.extend_from_slice(&length(data.len()));
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(message);
        bytes.extend_from_slice(data);
        bytes
    }

    fn of(message: &Message) -> Vec<u8> {
        postcard::to_allocvec(message).unwrap()
    }

    #[test]
    fn a_look_and_records_keep_to_their_limits() {
        let look = |host: &str, count| {
            of(&Message::Look {
                look: DiskLook {
                    size: None,
                    is_encrypted: true,
                    role: DiskRole::Between,
                    holder: Some(Holder {
                        host: host.to_owned(),
                        epoch: 1,
                    }),
                    obstacles: vec![Obstacle::new("a\nb", "c", "d"); count],
                    image: None,
                    dirty: None,
                },
            })
        };
        assert!(first_of(&raw(&look("a", OBSTACLES_MAX), b"")).is_ok());
        for (host, count) in [("a", OBSTACLES_MAX + 1), ("a\x1b[2J", 0)] {
            let refused = first_of(&raw(&look(host, count), b""));
            assert_eq!(refused, Err(Violation::Limits));
        }
        let records = |base, first, end| {
            of(&Message::Records {
                period: 1,
                first,
                base,
                end,
            })
        };
        assert!(first_of(&raw(&records(1, 2, 3), b"data")).is_ok());
        for (base, first, end) in [(2, 1, 3), (1, 3, 2)] {
            let refused = first_of(&raw(&records(base, first, end), b""));
            assert_eq!(refused, Err(Violation::Limits));
        }
    }

    #[test]
    fn a_trace_and_a_span_have_numbers() {
        let traced = |trace, span| of(&traced(trace, span));
        assert!(first_of(&raw(&traced(1, 1), b"")).is_ok());
        for (trace, span) in [(0, 1), (1, 0)] {
            let refused = first_of(&raw(&traced(trace, span), b""));
            assert_eq!(refused, Err(Violation::Limits));
        }
    }

    #[test]
    fn what_is_no_message_is_refused_again_and_again() {
        let bytes = of(&Message::Bytes);
        assert!(first_of(&raw(&bytes, b"data")).is_ok());
        assert_eq!(first_of(&raw(b"\xff", b"")), Err(Violation::NoMessage));
        let two = [bytes.clone(), bytes].concat();
        assert_eq!(first_of(&raw(&two, b"")), Err(Violation::NoMessage));
        let ask = of(&Message::AskLook { disk: 1 });
        assert_eq!(
            first_of(&raw(&ask, b"data")),
            Err(Violation::UnexpectedData)
        );
        let unlist = |unit: String| of(&Message::Unlist { unit });
        for unit in [String::new(), "w".repeat(UNIT_NAME_MAX + 1)] {
            assert_eq!(first_of(&raw(&unlist(unit), b"")), Err(Violation::Limits));
        }
        let list = |disks: Vec<u128>| {
            let unit = "web".to_owned();
            of(&Message::List { unit, disks })
        };
        let many = (0..=UNIT_DISKS_MAX as u128).collect();
        for disks in [vec![], vec![1, 1], vec![2, 1], many] {
            assert_eq!(first_of(&raw(&list(disks), b"")), Err(Violation::Limits));
        }
        let read = |offset, length| {
            of(&Message::Read {
                disk: 1,
                offset,
                length,
            })
        };
        for (offset, length) in [(0, 0), (u64::MAX, 1), (0, u32::MAX)] {
            assert_eq!(
                first_of(&raw(&read(offset, length), b"")),
                Err(Violation::Limits)
            );
        }
        let mut stream = Frames::new();
        stream.push(&raw(b"\xff", b""));
        assert_eq!(stream.take(), stream.take());
    }
}
