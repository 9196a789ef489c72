//! The client's side of the handshake.
//!
//! ```text
//!   Greeting ─► StartTls ─► StructuredReply ─► Go ─► Ready
//!       │      (if wished)    (or not)         │ ERR_UNSUP
//!       └──────── not fixed newstyle ──────────┴─► ExportName ─► Ready
//! ```
//!
//! A server may refuse structured replies and `GO`; everything else that is not an
//! acknowledgement ends the handshake with a [`HandshakeError`]. The driver's loop is: send
//! [`Handshake::take_output`], act on [`Handshake::step`], read only on [`Step::NeedBytes`].

use crate::cursor::Cursor;
use crate::{BlockSizes, Export, Terms, TransmissionFlags, limits, wire};
use std::mem;
use units::Bytes;

/// What the client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// The export's name; empty for the server's default export.
    pub export: String,
    /// Whether to refuse to go on without TLS.
    pub tls: bool,
}

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the output, read from the socket, hand the bytes to [`Handshake::receive`]. A
    /// server that closes instead refuses: with `EXPORT_NAME` it has no other way.
    NeedBytes,
    /// Send the output, do the TLS handshake, then call [`Handshake::secured`].
    StartTls,
    /// Requests may be sent. Replies that came early are in [`Handshake::into_leftover`].
    Ready(Terms),
    /// Close; there is no session.
    Failed(HandshakeError),
}

/// Why there is no session, split by whether trying again may help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The far side is no NBD server, or one of a kind that is no longer in use.
    #[error("not a newstyle NBD server")]
    NotNbd,
    /// The server has no such export, or not now.
    #[error("no such export: {text}")]
    UnknownExport {
        /// The server's words.
        text: String,
    },
    /// The server is shutting down; another may take its place.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The server serves nobody in the clear.
    #[error("the server wants TLS: write its address with nbds")]
    WantsTls,
    /// The server has no TLS.
    #[error("the server offers no TLS: write its address with nbd to go without")]
    OffersNoTls,
    /// The server refuses an option that we cannot do without.
    #[error("the server refuses option {option} with error {kind:#x}: {text}")]
    Refused {
        /// Number of the option.
        option: u32,
        /// Type of the reply.
        kind: u32,
        /// The server's words.
        text: String,
    },
    /// The server breaks the protocol.
    #[error("the server breaks the protocol: {what}")]
    Violation {
        /// What was wrong.
        what: &'static str,
    },
}

#[derive(Debug)]
enum State {
    Greeting,
    /// An option is out; its replies are being read.
    Option(u32),
    Securing,
    ExportName,
    Ready(Terms),
    Failed(HandshakeError),
}

/// The client's side of one session's handshake.
#[derive(Debug)]
pub struct Handshake {
    wishes: Wishes,
    state: State,
    secured: bool,
    no_zeroes: bool,
    structured: bool,
    /// From the replies to `GO`.
    described: Option<(Bytes, TransmissionFlags)>,
    blocks: BlockSizes,
    replies_seen: u32,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Length of an option reply's header: magic, option, type, length of the data.
const REPLY_HEADER_BYTES: usize = 20;

impl Handshake {
    /// A session that has just been connected; the server speaks first.
    ///
    /// # Panics
    /// If the export's name is longer than [`limits::NAME_BYTES_MAX`].
    pub fn new(wishes: Wishes) -> Self {
        assert!(
            wishes.export.len() <= limits::NAME_BYTES_MAX,
            "an export's name is within its limit"
        );
        Self {
            wishes,
            state: State::Greeting,
            secured: false,
            no_zeroes: false,
            structured: false,
            described: None,
            blocks: BlockSizes::UNSAID,
            replies_seen: 0,
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Takes bytes that came from the server, in any pieces.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The bytes that are to be sent now, in order.
    pub fn take_output(&mut self) -> Vec<u8> {
        mem::take(&mut self.output)
    }

    /// Goes on as far as the received bytes allow and says what is needed next.
    pub fn step(&mut self) -> Step {
        loop {
            let advanced = match &self.state {
                State::Securing => return Step::StartTls,
                State::Ready(terms) => return Step::Ready(*terms),
                State::Failed(error) => return Step::Failed(error.clone()),
                State::Greeting => self.take_greeting(),
                State::Option(option) => self.take_reply(*option),
                State::ExportName => self.take_export(),
            };
            match advanced {
                Ok(true) => {}
                Ok(false) => return Step::NeedBytes,
                Err(error) => self.state = State::Failed(error),
            }
        }
    }

    /// Says that TLS is up.
    ///
    /// # Panics
    /// If TLS was not asked for, or the output was not taken before.
    pub fn secured(&mut self) {
        assert!(
            matches!(self.state, State::Securing),
            "TLS follows Step::StartTls"
        );
        assert!(
            self.output.is_empty(),
            "everything in the clear is sent before TLS begins"
        );
        self.secured = true;
        self.ask(wire::option::STRUCTURED_REPLY, &[]);
    }

    /// What was received behind the handshake.
    pub fn into_leftover(self) -> Vec<u8> {
        self.input
    }

    fn ask(&mut self, option: u32, data: &[&[u8]]) {
        let length = data.iter().map(|part| part.len()).sum::<usize>();
        let length = u32::try_from(length).expect("an option is within its limits");
        let out = &mut self.output;
        out.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&option.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        for part in data {
            out.extend_from_slice(part);
        }
        self.replies_seen = 0;
        self.state = State::Option(option);
    }

    fn ask_go(&mut self) {
        let name = mem::take(&mut self.wishes.export);
        let length = u32::try_from(name.len()).expect("a name is within its limit");
        let parts: [&[u8]; 4] = [
            &length.to_be_bytes(),
            name.as_bytes(),
            &1_u16.to_be_bytes(),
            &wire::info::BLOCK_SIZE.to_be_bytes(),
        ];
        self.ask(wire::option::GO, &parts);
        self.wishes.export = name;
    }

    fn ask_export_name(&mut self) {
        let name = mem::take(&mut self.wishes.export);
        self.ask(wire::option::EXPORT_NAME, &[name.as_bytes()]);
        self.wishes.export = name;
        self.state = State::ExportName;
    }

    fn take_greeting(&mut self) -> Result<bool, HandshakeError> {
        let mut fields = Cursor::new(&self.input);
        let (Some(magic), Some(style)) = (fields.u64(), fields.u64()) else {
            return Ok(false);
        };
        if magic != wire::GREETING_MAGIC || style != wire::OPTION_MAGIC {
            return Err(HandshakeError::NotNbd);
        }
        let Some(flags) = fields.u16() else {
            return Ok(false);
        };
        self.input.drain(..18);
        let ours = flags & (wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES);
        self.no_zeroes = ours & wire::FLAG_NO_ZEROES != 0;
        let fixed = ours & wire::FLAG_FIXED_NEWSTYLE != 0;
        self.output
            .extend_from_slice(&u32::from(ours).to_be_bytes());
        match (fixed, self.wishes.tls) {
            (true, true) => self.ask(wire::option::STARTTLS, &[]),
            (true, false) => self.ask(wire::option::STRUCTURED_REPLY, &[]),
            (false, false) => self.ask_export_name(),
            (false, true) => {
                let what = "TLS is wanted and the server cannot haggle";
                return Err(HandshakeError::Violation { what });
            }
        }
        Ok(true)
    }

    fn take_reply(&mut self, option: u32) -> Result<bool, HandshakeError> {
        let mut fields = Cursor::new(&self.input);
        let (Some(magic), Some(to), Some(kind), Some(length)) =
            (fields.u64(), fields.u32(), fields.u32(), fields.u32())
        else {
            return Ok(false);
        };
        let violation = |what| Err(HandshakeError::Violation { what });
        if magic != wire::OPTION_REPLY_MAGIC || to != option {
            return violation("a reply to nothing that was asked");
        }
        if length > limits::OPTION_REPLY_BYTES_MAX
            || self.replies_seen >= limits::OPTION_REPLIES_MAX
        {
            return violation("replies to an option go over the limit");
        }
        let Some(data) = usize::try_from(length).ok().and_then(|n| fields.bytes(n)) else {
            return Ok(false);
        };
        let data = data.to_vec();
        self.input.drain(..REPLY_HEADER_BYTES + data.len());
        self.replies_seen += 1;
        if kind & wire::option_reply::ERROR_BIT != 0 {
            self.refused(option, kind, &data)?;
        } else {
            self.granted(option, kind, &data)?;
        }
        Ok(true)
    }

    fn refused(&mut self, option: u32, kind: u32, data: &[u8]) -> Result<(), HandshakeError> {
        let words = &data[..data.len().min(limits::MESSAGE_BYTES_MAX)];
        let text = String::from_utf8_lossy(words).into_owned();
        match (option, kind) {
            (_, wire::option_reply::ERR_SHUTDOWN) => Err(HandshakeError::ShuttingDown),
            // Needed or not, the server would go on refusing everything.
            (_, wire::option_reply::ERR_TLS_REQD) => Err(HandshakeError::WantsTls),
            (
                wire::option::STARTTLS,
                wire::option_reply::ERR_UNSUP | wire::option_reply::ERR_POLICY,
            ) => Err(HandshakeError::OffersNoTls),
            (wire::option::STRUCTURED_REPLY, _) => {
                self.ask_go();
                Ok(())
            }
            (wire::option::GO, wire::option_reply::ERR_UNSUP) => {
                self.ask_export_name();
                Ok(())
            }
            (wire::option::GO, wire::option_reply::ERR_UNKNOWN) => {
                Err(HandshakeError::UnknownExport { text })
            }
            _ => Err(HandshakeError::Refused { option, kind, text }),
        }
    }

    fn granted(&mut self, option: u32, kind: u32, data: &[u8]) -> Result<(), HandshakeError> {
        let violation = |what| Err(HandshakeError::Violation { what });
        match (option, kind) {
            (wire::option::STARTTLS, wire::option_reply::ACK) => {
                if !self.input.is_empty() {
                    return violation("bytes in the clear behind the answer to STARTTLS");
                }
                self.state = State::Securing;
            }
            (wire::option::STRUCTURED_REPLY, wire::option_reply::ACK) => {
                self.structured = true;
                self.ask_go();
            }
            (wire::option::GO, wire::option_reply::INFO) => self.information(data)?,
            (wire::option::GO, wire::option_reply::ACK) => {
                let Some((size, flags)) = self.described else {
                    return violation("an export without size and flags");
                };
                self.ready(size, flags)?;
            }
            _ => return violation("a reply that does not fit its option"),
        }
        Ok(())
    }

    fn information(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        let what = "a piece of information of the wrong length";
        let short = || HandshakeError::Violation { what };
        let mut fields = Cursor::new(data);
        match fields.u16().ok_or_else(short)? {
            wire::info::EXPORT => {
                let size = fields.u64().ok_or_else(short)?;
                let flags = fields.u16().ok_or_else(short)?;
                let flags = TransmissionFlags::from_wire(flags);
                self.described = Some((Bytes::new(size), flags));
            }
            wire::info::BLOCK_SIZE => {
                let minimum = fields.u32().ok_or_else(short)?;
                let preferred = fields.u32().ok_or_else(short)?;
                let maximum = fields.u32().ok_or_else(short)?;
                self.blocks =
                    offered(minimum, preferred, maximum).ok_or(HandshakeError::Violation {
                        what: "block sizes that make no sense",
                    })?;
            }
            // A name, a description, something newer: for people.
            _ => return Ok(()),
        }
        if fields.is_empty() {
            Ok(())
        } else {
            Err(short())
        }
    }

    fn take_export(&mut self) -> Result<bool, HandshakeError> {
        let mut fields = Cursor::new(&self.input);
        let (Some(size), Some(flags)) = (fields.u64(), fields.u16()) else {
            return Ok(false);
        };
        let padding = if self.no_zeroes {
            0
        } else {
            wire::EXPORT_NAME_PADDING_BYTES
        };
        if fields.bytes(padding).is_none() {
            return Ok(false);
        }
        self.input.drain(..10 + padding);
        self.ready(Bytes::new(size), TransmissionFlags::from_wire(flags))?;
        Ok(true)
    }

    fn ready(&mut self, size: Bytes, flags: TransmissionFlags) -> Result<(), HandshakeError> {
        // Offsets are signed 64-bit numbers in every file system that could hold the export.
        if i64::try_from(size.get()).is_err() {
            let what = "an export that is larger than any can be";
            return Err(HandshakeError::Violation { what });
        }
        let flags = if flags.has(TransmissionFlags::HAS_FLAGS) {
            flags
        } else {
            TransmissionFlags::NONE
        };
        self.state = State::Ready(Terms {
            export: Export {
                size,
                flags,
                blocks: self.blocks,
            },
            structured: self.structured,
            base_allocation: false,
        });
        Ok(())
    }
}

/// Block sizes as a server offers them. A largest payload that is no multiple of the smallest
/// block is rounded down, as some servers count on.
fn offered(minimum: u32, preferred: u32, maximum: u32) -> Option<BlockSizes> {
    let rounded = maximum - maximum.checked_rem(minimum)?;
    let blocks = BlockSizes {
        minimum,
        preferred,
        maximum: if maximum == u32::MAX {
            maximum
        } else {
            rounded
        },
    };
    blocks.is_sound().then_some(blocks)
}

#[cfg(test)]
mod tests;
