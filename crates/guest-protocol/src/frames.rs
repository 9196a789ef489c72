//! A stream of bytes, cut into frames.

use crate::header::{Header, MAGIC, VERSION};
use crate::limits::{BODY_BYTES_MAX, FRAME_BYTES_MAX, HEADER_BYTES};
use zerocopy::FromBytes;

/// A frame whose body nobody has looked into yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// Which message the body is.
    pub kind: u8,
    /// How many frames its sender had sent before, modulo 2^32.
    pub sequence: u32,
    /// The body.
    pub body: &'a [u8],
}

/// Bytes that are no frame of this protocol. The stream goes on behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The checksum is another one: a frame was torn, or somebody lies.
    #[error("a frame whose checksum is wrong")]
    Checksum,
    /// A version that is not known here.
    #[error("a frame of version {0}")]
    Version(u8),
    /// A kind of message that is not known here.
    #[error("a message of kind {0}")]
    Kind(u8),
    /// The body is no message of its kind.
    #[error("a body that is no message of its kind")]
    Body,
}

/// Cuts a stream into frames. Holds less than one frame beside what was given last.
///
/// Every byte is looked at a bounded number of times: a frame whose checksum is wrong is skipped as a
/// whole, so nobody makes us try each of its bytes again.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Bytes at the beginning that were taken already.
    taken: usize,
    skipped: u64,
}

impl Frames {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// More bytes have come. All frames before were taken.
    ///
    /// # Panics
    /// If whole frames were left.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        assert!(
            self.bytes.len() < FRAME_BYTES_MAX,
            "what came before was taken"
        );
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that belonged to no frame, padding included.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped
    }

    /// The next frame, or what is none; `None` until more bytes have come.
    pub fn take(&mut self) -> Option<Result<Raw<'_>, Fault>> {
        loop {
            self.skip_to_magic();
            let rest = &self.bytes[self.taken..];
            let header = Header::read_from_bytes(rest.get(..HEADER_BYTES)?).ok()?;
            if header.body_bytes() > BODY_BYTES_MAX {
                self.skip(MAGIC.len());
                continue;
            }
            let end = HEADER_BYTES + header.body_bytes();
            let is_of = header.is_of(rest.get(HEADER_BYTES..end)?);
            if !is_of {
                self.skip(end);
                return Some(Err(Fault::Checksum));
            }
            let from = self.taken;
            self.taken += end;
            if header.version != VERSION {
                return Some(Err(Fault::Version(header.version)));
            }
            return Some(Ok(Raw {
                kind: header.kind,
                sequence: header.sequence(),
                body: &self.bytes[from + HEADER_BYTES..from + end],
            }));
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.taken += bytes;
        self.skipped += bytes as u64;
    }

    /// Goes to where a frame begins, or might once more bytes have come.
    fn skip_to_magic(&mut self) {
        let rest = &self.bytes[self.taken..];
        let begins = |at: &usize| {
            let here = &rest[*at..];
            let known = here.len().min(MAGIC.len());
            here[..known] == MAGIC[..known]
        };
        let at = (0..rest.len()).find(begins).unwrap_or(rest.len());
        self.skip(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PADDING;
    use crate::message::samples::any_message;
    use crate::message::{Frame, Memory, Message};
    use proptest::prelude::*;

    fn encoded(messages: &[Message]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (sequence, message) in (0..).zip(messages) {
            let message = message.clone();
            Frame { sequence, message }.encode(&mut bytes);
        }
        bytes
    }

    fn taken(frames: &mut Frames) -> Vec<Result<Message, Fault>> {
        let mut all = Vec::new();
        while let Some(next) = frames.take() {
            all.push(next.and_then(Message::decode));
        }
        all
    }

    fn listen(stream: &[u8], cut: usize) -> (Vec<Result<Message, Fault>>, u64) {
        let (mut frames, mut all) = (Frames::new(), Vec::new());
        for piece in stream.chunks(cut) {
            frames.push(piece);
            all.extend(taken(&mut frames));
        }
        (all, frames.skipped_bytes())
    }

    fn small() -> Message {
        Message::Memory(Memory {
            available_bytes: 1,
            cache_bytes: 2,
            pressure_hundredths: 3,
        })
    }

    proptest! {
        #[test]
        fn frames_come_back_however_the_stream_is_cut(
            messages in proptest::collection::vec(any_message(), 0..12),
            cut in 1..5000_usize,
        ) {
            let (back, skipped) = listen(&encoded(&messages), cut);
            let expected: Vec<_> = messages.into_iter().map(Ok).collect();
            prop_assert_eq!(back, expected);
            prop_assert_eq!(skipped, 0);
        }

        /// A predecessor that was torn anywhere, even one that sent noise, hides no frame of its successor.
        #[test]
        fn all_that_follows_padding_arrives(
            before in proptest::collection::vec(any_message(), 0..4),
            torn in any::<prop::sample::Index>(),
            noise in proptest::collection::vec(any::<u8>(), 0..64),
            after in proptest::collection::vec(any_message(), 1..4),
            cut in 1..5000_usize,
        ) {
            let mut stream = encoded(&before);
            stream.truncate(torn.index(stream.len() + 1));
            stream.extend(&noise);
            stream.extend(PADDING);
            stream.extend(encoded(&after));
            let (back, _) = listen(&stream, cut);
            let expected: Vec<_> = after.into_iter().map(Ok).collect();
            prop_assert!(back.ends_with(&expected), "{back:?}");
        }

        #[test]
        fn hostile_bytes_cost_no_memory_and_no_panic(
            stream in proptest::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(MAGIC.to_vec())], 0..20_000),
            cut in 1..9000_usize,
        ) {
            let mut frames = Frames::new();
            for piece in stream.chunks(cut) {
                frames.push(piece);
                taken(&mut frames);
                prop_assert!(frames.bytes.len() - frames.taken < FRAME_BYTES_MAX);
            }
            prop_assert_eq!(listen(&stream, cut), listen(&stream, stream.len().max(1)));
        }
    }

    #[test]
    fn a_torn_frame_without_padding_takes_its_length_along_and_no_more() {
        let mut stream = encoded(&[small()]);
        stream.truncate(20);
        for _ in 0..4 {
            stream.extend(encoded(&[small()]));
        }
        let (back, skipped) = listen(&stream, 7);
        // 20 bytes of a frame of 40: the next one is half eaten, and the two after it are whole.
        assert_eq!(back.first(), Some(&Err(Fault::Checksum)));
        assert_eq!(back[1..], [Ok(small()), Ok(small()), Ok(small())]);
        assert_eq!(skipped, 60);
    }

    #[test]
    fn a_length_beyond_the_limit_is_no_header() {
        let mut stream = encoded(&[small()]);
        stream[6..8].copy_from_slice(&4097_u16.to_le_bytes());
        stream.extend(encoded(&[small()]));
        assert_eq!(listen(&stream, 4096).0, [Ok(small())]);
    }

    #[test]
    fn any_flipped_bit_is_seen() {
        let whole = encoded(&[small()]);
        for bit in 0..whole.len() * 8 {
            let mut stream = whole.clone();
            stream[bit / 8] ^= 1 << (bit % 8);
            stream.extend(PADDING);
            let (back, _) = listen(&stream, stream.len());
            assert!(back.iter().all(Result::is_err), "bit {bit}: {back:?}");
        }
    }

    /// Another version with a right checksum, as a later agent would send it.
    #[test]
    fn frames_of_another_version_are_skipped_one_by_one() {
        let mut later = encoded(&[small()]);
        later[4] = 2;
        let checksum = crc_fast::checksum(
            crc_fast::CrcAlgorithm::Crc32Iscsi,
            &[&later[..12], &later[16..]].concat(),
        );
        later[12..16].copy_from_slice(&u32::try_from(checksum).unwrap().to_le_bytes());
        later.extend(encoded(&[small()]));
        assert_eq!(listen(&later, 11).0, [Err(Fault::Version(2)), Ok(small())]);
    }

    /// Headers that each announce the largest body, close together: the dearest stream there is. Each
    /// byte is checksummed once, not once for each header before it.
    #[test]
    fn nested_headers_cost_one_checksum_a_frame() {
        let head = &encoded(&[small()])[..HEADER_BYTES];
        let mut head = head.to_vec();
        head[6..8].copy_from_slice(&4096_u16.to_le_bytes());
        let stream = head.repeat(40 * FRAME_BYTES_MAX / HEADER_BYTES);
        let (back, skipped) = listen(&stream, 65_536);
        assert_eq!(back, vec![Err(Fault::Checksum); 40]);
        assert_eq!(skipped, stream.len() as u64);
    }
}
