//! The protocol's numbers, as they stand on the wire.

/// First eight bytes of a server: `NBDMAGIC`.
pub const GREETING_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Second eight bytes of a newstyle server, and the first of every option: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Second eight bytes of an oldstyle server, which we do not speak to.
pub const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// First eight bytes of a reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First four bytes of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First four bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First four bytes of a structured reply's chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag of server and client: fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag of server and client: no 124 zero bytes after `EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;

/// Zero bytes that end the answer to `EXPORT_NAME` unless both sides leave them out.
pub const EXPORT_NAME_PADDING_BYTES: usize = 124;

/// Option numbers.
pub mod option {
    /// Choose an export and enter transmission; cannot fail politely.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Go on under TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and enter transmission.
    pub const GO: u32 = 7;
    /// Answer reads and errors in chunks.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Which metadata contexts does an export have?
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts for an export.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of a reply to an option.
pub mod option_reply {
    /// The option is accepted, or the list is over.
    pub const ACK: u32 = 1;
    /// One export of a list.
    pub const SERVER: u32 = 2;
    /// One piece of information on an export.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Set in every type that is an error.
    pub const ERROR_BIT: u32 = 1 << 31;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = ERROR_BIT | 1;
    /// The option is forbidden here.
    pub const ERR_POLICY: u32 = ERROR_BIT | 2;
    /// The option makes no sense as sent.
    pub const ERR_INVALID: u32 = ERROR_BIT | 3;
    /// The option is not possible on this platform.
    pub const ERR_PLATFORM: u32 = ERROR_BIT | 4;
    /// The server wants TLS first.
    pub const ERR_TLS_REQD: u32 = ERROR_BIT | 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = ERROR_BIT | 6;
    /// The server is shutting down.
    pub const ERR_SHUTDOWN: u32 = ERROR_BIT | 7;
    /// The server wants the client to ask for block sizes.
    pub const ERR_BLOCK_SIZE_REQD: u32 = ERROR_BIT | 8;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = ERROR_BIT | 9;
}

/// Kinds of information on an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's canonical name.
    pub const NAME: u16 = 1;
    /// A description for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest block.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Command numbers of requests.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the payload follows the header.
    pub const WRITE: u16 = 1;
    /// Disconnect; there is no reply.
    pub const DISC: u16 = 2;
    /// Make completed writes durable.
    pub const FLUSH: u16 = 3;
    /// The range is no longer needed.
    pub const TRIM: u16 = 4;
    /// The range will be read soon.
    pub const CACHE: u16 = 5;
    /// The range reads as zeroes from now on.
    pub const WRITE_ZEROES: u16 = 6;
    /// Describe the range's allocation.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Types of a structured reply's chunk.
pub mod chunk {
    /// Flag: the last chunk of its reply.
    pub const FLAG_DONE: u16 = 1 << 0;
    /// Nothing but the flags.
    pub const NONE: u16 = 0;
    /// Offset and data.
    pub const OFFSET_DATA: u16 = 1;
    /// Offset and length of zeroes.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents of a metadata context.
    pub const BLOCK_STATUS: u16 = 5;
    /// Set in every type that is an error.
    pub const ERROR_BIT: u16 = 1 << 15;
    /// Error number and message.
    pub const ERROR: u16 = ERROR_BIT | 1;
    /// Error number, message and where it happened.
    pub const ERROR_OFFSET: u16 = ERROR_BIT | 2;
}

/// The one metadata context that we know.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Our number for [`BASE_ALLOCATION`].
pub const BASE_ALLOCATION_ID: u32 = 1;
/// State flag of `base:allocation`: nothing is allocated here.
pub const STATE_HOLE: u32 = 1 << 0;
/// State flag of `base:allocation`: this reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;
