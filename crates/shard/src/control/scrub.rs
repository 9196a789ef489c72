//! How other threads have the flash of a shard scrubbed.

use super::{Message, ShardHandle};
use crate::error::Reply;
use cache::{ScrubPass, ScrubStatus};
use units::Bytes;

/// A shard, for who has its flash scrubbed.
#[derive(Debug)]
pub struct ScrubHandle<'a>(&'a ShardHandle);

impl<'a> ScrubHandle<'a> {
    /// Of this shard.
    pub fn of(shard: &'a ShardHandle) -> Self {
        Self(shard)
    }

    /// Has what is on flash read at this rate, in bytes a second, from where a pass had come to. While a pass is under
    /// way only its rate changes.
    pub fn begin(&self, rate: Bytes, from: ScrubPass, reply: Reply<()>) {
        let pass = Some((rate, from));
        self.0.line.send(Message::Scrub { pass, reply });
    }

    /// Ends the pass that is under way, if there is one.
    pub fn stop(&self, reply: Reply<()>) {
        self.0.line.send(Message::Scrub { pass: None, reply });
    }

    /// How far the scrub is.
    pub fn status(&self, reply: Reply<ScrubStatus>) {
        self.0.line.send(Message::ScrubStatus { reply });
    }
}
