//! What the agent in a guest says of ranges of its disks, told to the shards that serve them.
//!
//! A guest speaks for its own disks: those of the VM whose socket it is, by the serial numbers under which the VM sees them.
//! Base images are others' too, and left out.

use super::registry::{Entry, Registry};
use super::shards::Shards;
use cache::Hint;
use configuration::{Name, serial};
use guest_protocol::{ByteRange, Class, Message};
use shard::GuestHandle;
use std::sync::Arc;
use units::{Bytes, Offset};

/// Tells what the guest of one VM says.
pub(super) struct GuestHints {
    vm: Name,
    registry: Arc<Registry>,
    shards: Arc<Shards>,
}

impl GuestHints {
    pub(super) fn new(vm: Name, registry: Arc<Registry>, shards: Arc<Shards>) -> Self {
        Self {
            vm,
            registry,
            shards,
        }
    }

    /// The VM's own disks.
    pub(super) fn disks(&self) -> Vec<Entry> {
        let mut entries = self.registry.all();
        entries.retain(|entry| !entry.config.shared && entry.vm() == self.vm);
        entries
    }

    /// Tells what follows from a message. How many ranges were too many, or of no disk of the VM that is served here.
    pub(super) async fn tell(&self, message: Message) -> u64 {
        match message {
            Message::Hello(_) => {
                for disk in self.disks() {
                    // A disk that is not served has no hints.
                    let _ = self.ask(&disk, |guest, reply| guest.forget(reply)).await;
                }
                0
            }
            Message::Classes {
                serial: of,
                class,
                ranges,
            } => {
                let of = of.to_string();
                let mut disks = self.disks();
                disks.retain(|entry| serial(&entry.config) == of);
                let count = ranges.len() as u64;
                let Some(disk) = disks.pop() else {
                    return count;
                };
                let ranges: Vec<_> = ranges.iter().map(extent).collect();
                let said = self.ask(&disk, |guest, reply| {
                    guest.hint(hint_of(class), ranges, reply);
                });
                said.await.unwrap_or(count)
            }
            Message::ReadAhead { .. }
            | Message::Used(_)
            | Message::Memory(_)
            | Message::Sockets(_) => 0,
        }
    }

    /// Asks the shard of a disk; nothing, if the shard does not serve the disk.
    async fn ask<T: Send + 'static>(
        &self,
        disk: &Entry,
        say: impl FnOnce(GuestHandle<'_>, shard::Reply<T>),
    ) -> Option<T> {
        let shard = self.shards.of(disk).ok()?;
        let said = shard.ask(|handle, reply| say(GuestHandle::of(handle, disk.id), reply));
        said.await.ok()
    }
}

fn hint_of(class: Class) -> Hint {
    match class {
        Class::Swap | Class::Journal | Class::Temporary | Class::Once => Hint::KeepOut,
        Class::Preferred => Hint::Wanted,
    }
}

fn extent(range: &ByteRange) -> (Offset, Bytes) {
    (range.offset(), range.length())
}
