//! What the agent in a guest says of ranges of its disks, told to the shards that serve them.
//!
//! The other way go ranges that will be read, to a guest that follows them.
//!
//! A guest speaks for its own disks: those of the VM whose socket it is, by the serial numbers under which the VM sees them.
//! Base images are others' too, and left out.

use super::registry::{Entry, Registry};
use super::shards::Shards;
use cache::Hint;
use configuration::{Name, serial};
use guest_protocol::{ByteRange, Class, Message, RANGES_MAX, Serial, Used};
use shard::{GuestHandle, GuestTell};
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use units::{Bytes, Offset};

/// Ranges that wait to be told to a guest: those beyond are not told.
const EXPECTED_MAX: usize = 256;

/// A range of a disk that will be read.
pub(super) type Expected = (Serial, ByteRange);

/// Tells what the guest of one VM says.
pub(super) struct GuestHints {
    vm: Name,
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    expects: Sender<Expected>,
    expected: Receiver<Expected>,
}

impl GuestHints {
    pub(super) fn new(vm: Name, registry: Arc<Registry>, shards: Arc<Shards>) -> Self {
        let (expects, expected) = channel(EXPECTED_MAX);
        Self {
            vm,
            registry,
            shards,
            expects,
            expected,
        }
    }

    /// What the guest should read ahead, once there is something.
    pub(super) async fn expected(&mut self) -> Vec<Expected> {
        let mut ranges = Vec::new();
        self.expected.recv_many(&mut ranges, RANGES_MAX).await;
        ranges
    }

    /// The guest is gone: nobody follows any more.
    pub(super) async fn end(&mut self) {
        for disk in self.disks() {
            let _ = self
                .ask(&disk, |guest, reply| guest.listen(None, reply))
                .await;
        }
        while self.expected.try_recv().is_ok() {}
    }

    /// The guest reads ahead what it is told of, of all of its disks; it says how much of that it has not used.
    async fn follow(&self, used: Used) {
        let unused = used.of_bytes.saturating_sub(used.read_bytes);
        for (at, disk) in self.disks().iter().enumerate() {
            let Ok(serial) = serial(&disk.config).parse::<Serial>() else {
                continue;
            };
            let expects = self.expects.clone();
            let tell: GuestTell = Box::new(move |offset, length| {
                if let Some(range) = ByteRange::new(offset, length) {
                    // A guest that is slow is told less.
                    let _ = expects.try_send((serial, range));
                }
            });
            let _ = self
                .ask(disk, |guest, reply| guest.listen(Some(tell), reply))
                .await;
            // One price is the VM's.
            if at == 0 && unused > 0 {
                let unused = Bytes::new(unused);
                let _ = self
                    .ask(disk, |guest, reply| guest.unused(unused, reply))
                    .await;
            }
        }
    }

    /// The VM's own disks.
    pub(super) fn disks(&self) -> Vec<Entry> {
        let mut entries = self.registry.all();
        entries.retain(|entry| entry.is_of(&self.vm));
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
            Message::Used(used) => {
                self.follow(used).await;
                0
            }
            Message::ReadAhead { .. } | Message::Memory(_) | Message::Sockets(_) => 0,
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
