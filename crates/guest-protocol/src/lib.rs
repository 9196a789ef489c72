//! What the agent in a guest and the daemon on its host say to each other, without I/O.
//!
//! ```text
//!   ┌───────────── header, 16 bytes, little-endian ─────────────┐
//!   │ magic 4 │ version 1 │ kind 1 │ length 2 │ sequence 4 │ crc32c 4 │ body, `length` bytes
//!   └───────────────────────────────────────────────────────────┘
//! ```
//!
//! The channel is a serial port of the VM (virtio-serial), one for each VM. Bytes keep their order;
//! either side may be started anew at any byte, and the other side goes on. So whoever starts sends
//! [`PADDING`] first: zeros that end a frame which the predecessor left half written. Then comes a
//! [`Hello`], and sequence numbers begin at 0.
//!
//! The daemon trusts nothing of what a guest says: which VM speaks is known by the socket. Every length
//! is bounded before memory is taken; what is no frame is skipped in time linear in its bytes
//! ([`Frames`]); frames beyond [`FRAMES_PER_SECOND`] are dropped and counted ([`Receiver`]).

#![forbid(unsafe_code)]

mod bodies;
mod frames;
mod header;
mod limits;
mod message;
mod quota;
mod receiver;

pub use frames::{Fault, Frames, Raw};
pub use limits::{
    BODY_BYTES_MAX, DISKS_MAX, FRAME_BYTES_MAX, FRAMES_PER_SECOND, HEADER_BYTES, PADDING,
    RANGES_MAX, SERIAL_BYTES, SOCKETS_MAX,
};
pub use message::{ByteRange, Class, Frame, Hello, Memory, Message, Serial, Socket, Used};
pub use quota::Quota;
pub use receiver::{Counts, Receiver};
