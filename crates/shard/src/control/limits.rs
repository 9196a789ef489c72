//! How other threads change the limits of disks.

use super::{Message, ShardHandle};
use crate::error::Reply;
use throttle::Limits;
use units::DiskId;

/// A shard, for who changes the limits of its disks.
#[derive(Debug)]
pub struct LimitHandle<'a>(&'a ShardHandle);

impl<'a> LimitHandle<'a> {
    /// Of this shard.
    pub fn of(shard: &'a ShardHandle) -> Self {
        Self(shard)
    }

    /// Changes what the guests of a disk may ask in a second from now on. What waits passes as the new limits
    /// allow, with a burst of its own.
    pub fn set(&self, disk: DiskId, limits: Limits, reply: Reply<()>) {
        self.0.line.send(Message::SetLimits {
            disk,
            limits,
            reply,
        });
    }
}
