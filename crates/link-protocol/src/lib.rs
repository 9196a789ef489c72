//! What two hosts say to each other about the disks that roam between them, without I/O.
//!
//! ```text
//!   preface, both ways at once     24 bytes: magic, versions, features, the sender's instance
//!   frames, both ways              16 bytes: length of the message, length of the data, number
//!                                  the message (postcard), the data
//! ```
//!
//! A connection belongs to two hosts, not to a disk: messages name the unit (all disks of one VM) or the disk that
//! they are about. Frames keep their order. The number pairs a question with its answer; a message that is
//! no question and no answer has the number 0.
//!
//! The stream is inside TLS, which authenticates every byte, so frames have no checksum of their own. A peer
//! is authenticated and nevertheless not trusted: every length is bounded before memory is taken for it, and whatever
//! does not parse ends the connection ([`Violation`]).
//!
//! [`Preface`] comes first, [`Frame::encode`] and [`Frames`] are for what follows.

#![forbid(unsafe_code)]

mod frame;
mod limits;
mod message;
mod preface;
mod records;
mod runs;

pub use frame::{Frame, Frames, Violation};
pub use limits::{
    CURVE_POINTS_MAX, DATA_MAX, HEADER_BYTES, HOST_NAME_MAX, MESSAGE_MAX, OBSTACLE_TEXT_MAX,
    OBSTACLES_MAX, UNIT_DISKS_MAX, UNIT_NAME_MAX,
};
pub use message::{
    DirtyLook, DiskLook, DiskRole, HITS_OF, Holder, ImageLook, Message, NotServed, Obstacle,
    Refusal,
};
pub use preface::{
    NoCommonVersion, PREFACE_BYTES, Preface, PrefaceError, VERSION_NEWEST, VERSION_OLDEST,
};
pub use records::{Erased, Record, RecordWhat, decode_records, encode_records};
pub use runs::{decode_runs, encode_runs};
