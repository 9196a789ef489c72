//! The client's side: the handshake, and the replies to requests.

mod handshake;
mod replies;

pub use handshake::{Handshake, HandshakeError, Step, Wishes};
pub use replies::{Event, Expected, Replies, Violation};
