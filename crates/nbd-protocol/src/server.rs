//! The server's side of the handshake.
//!
//! ```text
//!            receive(bytes)                      output → take_output()
//!                  │                                   ▲
//!   ClientFlags ─► Option ◄──────────────┬─────────────┤
//!                  │ LIST ─► Listing ────┤ list()      │
//!                  │ INFO, META ─► Finding ─┤ answer() │
//!                  │ STARTTLS ─► Securing ──┘ secured()│
//!                  │ GO, EXPORT_NAME ─► Finding ─► Transmitting
//!                  └ ABORT, nonsense ─► Closed
//! ```
//!
//! The machine pauses in *Listing*, *Finding* and *Securing* until its driver has answered; it
//! never guesses an export. The driver's loop is: send [`Handshake::take_output`], act on
//! [`Handshake::step`], and read from the socket only on [`Step::NeedBytes`].
//!
//! Invariants:
//! - Under [`TlsPolicy::Require`] no name is looked up and nothing is listed in the clear.
//! - What was haggled in the clear is forgotten when TLS starts, and bytes that arrived behind
//!   `STARTTLS` in the clear end the session: they could have been injected.
//! - At most one option is held in memory, of at most [`limits::OPTION_BYTES_MAX`].

mod answer;
mod options;

use crate::{Export, Terms, limits, wire};
use options::{Ask, Parsed};
use std::mem;

/// Whether a session may, must or cannot go on under TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPolicy {
    /// `STARTTLS` is refused.
    Off,
    /// The client chooses.
    Allow,
    /// Nothing but `STARTTLS` and `ABORT` works before TLS.
    Require,
}

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the output, read from the socket, hand the bytes to [`Handshake::receive`].
    NeedBytes,
    /// Look up this export and call [`Handshake::answer`].
    FindExport {
        /// The name as the client wrote it; may be empty, which means the default export.
        name: String,
    },
    /// Call [`Handshake::list`] with the exports that may be seen.
    ListExports,
    /// Send the output, do the TLS handshake, then call [`Handshake::secured`].
    StartTls,
    /// Send the output; requests follow. What was received beyond the handshake is in
    /// [`Handshake::into_leftover`].
    Transmit(Agreed),
    /// Send the output and close.
    Close(CloseReason),
}

/// The handshake's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The export's name as the client wrote it.
    pub name: String,
    /// What requests are judged by.
    pub terms: Terms,
}

/// An export as a driver answers for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Size, abilities and limits.
    pub export: Export,
    /// For people; may be empty. At most [`limits::NAME_BYTES_MAX`] bytes, the rest is cut.
    pub description: String,
}

/// Why there is no export of that name for this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none.
    #[error("no such export")]
    Unknown,
    /// There is one, but not for this client or not now.
    #[error("not permitted")]
    Forbidden,
    /// The server is going down.
    #[error("shutting down")]
    ShuttingDown,
}

/// Why a session ended before transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The client said goodbye.
    #[error("the client ended the session")]
    Aborted,
    /// The client speaks something else, or sent handshake flags that we do not know.
    #[error("the client does not speak this protocol")]
    NotOurProtocol,
    /// The client sent more or longer options than anyone needs.
    #[error("the client went over a limit of the handshake")]
    OverLimit,
    /// `EXPORT_NAME` cannot be refused in any other way.
    #[error("the export that the client named is not available")]
    NoSuchExport,
    /// The client sent bytes in the clear behind `STARTTLS`.
    #[error("bytes in the clear behind STARTTLS")]
    BytesBeforeTls,
}

#[derive(Debug)]
enum State {
    ClientFlags,
    Option,
    /// The rest of an option that is too long, on its way to nowhere.
    Skipping {
        option: u32,
        bytes: usize,
    },
    Listing,
    Finding(Ask),
    Securing,
    Transmitting(Agreed),
    Closed(CloseReason),
}

/// The server's side of one session's handshake.
#[derive(Debug)]
pub struct Handshake {
    tls: TlsPolicy,
    secured: bool,
    /// What the client said of itself: fixed newstyle, no zeroes.
    client_flags: u32,
    structured: bool,
    /// The export for which `base:allocation` was chosen last.
    base_allocation_of: Option<String>,
    options_seen: u32,
    state: State,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Length of an option's header: magic, number, length of the data.
const OPTION_HEADER_BYTES: usize = 16;

impl Handshake {
    /// A session that has just been accepted; the greeting is in the output.
    pub fn new(tls: TlsPolicy) -> Self {
        let mut output = Vec::with_capacity(64);
        output.extend_from_slice(&wire::GREETING_MAGIC.to_be_bytes());
        output.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
        let flags = wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES;
        output.extend_from_slice(&flags.to_be_bytes());
        Self {
            tls,
            secured: false,
            client_flags: 0,
            structured: false,
            base_allocation_of: None,
            options_seen: 0,
            state: State::ClientFlags,
            input: Vec::new(),
            output,
        }
    }

    /// Takes bytes that came from the client, in any pieces.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The bytes that are to be sent now, in order.
    pub fn take_output(&mut self) -> Vec<u8> {
        mem::take(&mut self.output)
    }

    /// Whether the session goes on under TLS.
    pub const fn is_secured(&self) -> bool {
        self.secured
    }

    /// Goes on as far as the received bytes allow and says what is needed next. Calling it
    /// again without having done that returns the same step.
    pub fn step(&mut self) -> Step {
        loop {
            match &self.state {
                State::Listing => return Step::ListExports,
                State::Finding(ask) => {
                    return Step::FindExport {
                        name: ask.name.clone(),
                    };
                }
                State::Securing => return Step::StartTls,
                State::Transmitting(agreed) => return Step::Transmit(agreed.clone()),
                State::Closed(reason) => return Step::Close(*reason),
                State::ClientFlags | State::Option | State::Skipping { .. } => {}
            }
            if !self.advance() {
                return Step::NeedBytes;
            }
        }
    }

    /// Answers [`Step::FindExport`].
    ///
    /// # Panics
    /// If no export was asked for.
    pub fn answer(&mut self, found: Result<Found, Refusal>) {
        let state = mem::replace(&mut self.state, State::Option);
        let State::Finding(ask) = state else {
            panic!("an answer follows Step::FindExport");
        };
        self.answer_ask(ask, found);
    }

    /// Answers [`Step::ListExports`] with names and descriptions.
    ///
    /// # Panics
    /// If no list was asked for.
    pub fn list<'a>(&mut self, exports: impl IntoIterator<Item = (&'a str, &'a str)>) {
        assert!(
            matches!(self.state, State::Listing),
            "a list follows Step::ListExports"
        );
        self.state = State::Option;
        self.answer_list(exports);
    }

    /// Says that TLS is up. What follows is haggled anew.
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
            "the answer to STARTTLS is sent before TLS begins"
        );
        self.state = State::Option;
        self.secured = true;
        self.structured = false;
        self.base_allocation_of = None;
    }

    /// What was received behind the handshake: the first requests.
    pub fn into_leftover(self) -> Vec<u8> {
        self.input
    }

    /// One step on what has been received; false if there is too little of it.
    fn advance(&mut self) -> bool {
        match self.state {
            State::ClientFlags => self.take_client_flags(),
            State::Skipping { option, bytes } => {
                let step = bytes.min(self.input.len());
                self.input.drain(..step);
                if step < bytes {
                    let bytes = bytes - step;
                    self.state = State::Skipping { option, bytes };
                    return false;
                }
                self.state = State::Option;
                self.refuse(option, wire::option_reply::ERR_TOO_BIG, "option too long");
                true
            }
            _ => self.take_option(),
        }
    }

    fn take_client_flags(&mut self) -> bool {
        let Some((&flags, _)) = self.input.split_first_chunk() else {
            return false;
        };
        self.input.drain(..4);
        self.client_flags = u32::from_be_bytes(flags);
        let known = u32::from(wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES);
        self.state = if self.client_flags & !known == 0 {
            State::Option
        } else {
            State::Closed(CloseReason::NotOurProtocol)
        };
        true
    }

    fn said(&self, flag: u16) -> bool {
        self.client_flags & u32::from(flag) != 0
    }

    fn take_option(&mut self) -> bool {
        let Some((magic, option, length)) = options::header(&self.input) else {
            return false;
        };
        if magic != wire::OPTION_MAGIC {
            self.state = State::Closed(CloseReason::NotOurProtocol);
            return true;
        }
        let over = length > limits::OPTION_SKIP_BYTES_MAX;
        if over || self.options_seen >= limits::OPTIONS_MAX {
            self.state = State::Closed(CloseReason::OverLimit);
            return true;
        }
        let bytes = usize::try_from(length).expect("an option's limit fits");
        if length > limits::OPTION_BYTES_MAX {
            self.options_seen += 1;
            self.input.drain(..OPTION_HEADER_BYTES);
            self.state = State::Skipping { option, bytes };
            return true;
        }
        let end = OPTION_HEADER_BYTES + bytes;
        if self.input.len() < end {
            return false;
        }
        self.options_seen += 1;
        let parsed = options::parse(option, &self.input[OPTION_HEADER_BYTES..end]);
        self.input.drain(..end);
        self.apply(option, parsed);
        true
    }

    fn apply(&mut self, option: u32, parsed: Parsed) {
        let old_style = matches!(&parsed, Parsed::Ask(ask) if ask.is_export_name());
        // A client of the first newstyle knows one option only and could not read a refusal.
        if !self.said(wire::FLAG_FIXED_NEWSTYLE) && !old_style {
            self.state = State::Closed(CloseReason::NotOurProtocol);
            return;
        }
        if self.tls == TlsPolicy::Require && !self.secured {
            match parsed {
                Parsed::Abort | Parsed::StartTls => {}
                _ if old_style => {
                    self.state = State::Closed(CloseReason::NoSuchExport);
                    return;
                }
                _ => {
                    let kind = wire::option_reply::ERR_TLS_REQD;
                    return self.refuse(option, kind, "TLS is required: send STARTTLS first");
                }
            }
        }
        match parsed {
            Parsed::Abort => {
                self.acknowledge(option);
                self.state = State::Closed(CloseReason::Aborted);
            }
            Parsed::List => self.state = State::Listing,
            Parsed::StartTls => self.start_tls(option),
            Parsed::StructuredReply => self.structured_reply(option),
            Parsed::Ask(ask) => self.ask(option, ask),
            Parsed::Malformed => {
                if option == wire::option::EXPORT_NAME {
                    self.state = State::Closed(CloseReason::NoSuchExport);
                } else {
                    let kind = wire::option_reply::ERR_INVALID;
                    self.refuse(option, kind, "the option's data make no sense");
                }
            }
            Parsed::Unknown => {
                self.refuse(option, wire::option_reply::ERR_UNSUP, "unknown option");
            }
        }
    }

    fn start_tls(&mut self, option: u32) {
        if self.secured {
            let kind = wire::option_reply::ERR_INVALID;
            self.refuse(option, kind, "TLS is in use already");
        } else if self.tls == TlsPolicy::Off {
            let kind = wire::option_reply::ERR_POLICY;
            self.refuse(option, kind, "TLS is not set up here");
        } else if !self.input.is_empty() {
            self.state = State::Closed(CloseReason::BytesBeforeTls);
        } else {
            self.acknowledge(option);
            self.state = State::Securing;
        }
    }

    fn structured_reply(&mut self, option: u32) {
        if self.structured {
            let kind = wire::option_reply::ERR_INVALID;
            self.refuse(option, kind, "structured replies were agreed on already");
        } else {
            self.structured = true;
            self.acknowledge(option);
        }
    }

    fn ask(&mut self, option: u32, ask: Ask) {
        if ask.is_meta_context() && !self.structured {
            let kind = wire::option_reply::ERR_INVALID;
            self.refuse(option, kind, "ask for structured replies first");
        } else {
            self.state = State::Finding(ask);
        }
    }
}

#[cfg(test)]
mod tests;
