//! How other threads talk to a shard.
//!
//! Every call returns at once; the answer comes by a callback on the shard's thread, which
//! should do no more than pass it on. A callback that is dropped instead of being called means
//! that the shard's thread has ended.

mod detaching;
mod hints;
mod images;
mod limits;
mod roaming;
mod scrub;

pub use detaching::DetachHandle;
pub use hints::GuestHandle;
pub(crate) use hints::OfGuest;
pub(crate) use images::OfImage;
pub use images::{AttachedImage, ImageHandle};
pub use limits::LimitHandle;
pub(crate) use roaming::{Ahead, Borrow, Roaming};
pub use scrub::ScrubHandle;

use crate::error::{Reply, ShardError};
use crate::owners::OwnerError;
use crate::spec::DiskSpec;
use crate::status::ShardStatus;
use crate::tap::Tap;
use block_io::{OriginGeometry, Token};
use cache::{DropReason, OfDirty, ScrubPass, ScrubStatus, WriteBack, WritePolicy};
use frontend::NewClient;
use origin::Opened;
use policy::replacement::Fraction;
use ring::Sender;
use std::fmt;
use std::sync::Arc;
use tenancy::{Settings, TenantSettings};
use throttle::Limits;
use units::{Bytes, DiskId};

/// A disk that was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// What its origin is like: what is advertised to clients.
    pub geometry: OriginGeometry,
    /// Blocks of it that were on flash and are served.
    pub warm_blocks: u64,
    /// Why blocks on flash are not used, if they are not.
    pub dropped: Option<DropReason>,
}

pub(crate) enum Message {
    Attach {
        spec: Box<DiskSpec>,
        opened: Opened,
        reply: Reply<Attached>,
    },
    Detach {
        disk: DiskId,
        dirty: OfDirty,
        reply: Reply<()>,
    },
    GiveUpFlush {
        disk: DiskId,
        reply: Reply<()>,
    },
    Drop {
        disk: DiskId,
        reply: Reply<()>,
    },
    SetPolicy {
        disk: DiskId,
        policy: WritePolicy,
        reply: Reply<()>,
    },
    SetWriteBack {
        disk: DiskId,
        write_back: WriteBack,
        reply: Reply<()>,
    },
    SetLimits {
        disk: DiskId,
        limits: Limits,
        reply: Reply<()>,
    },
    Grow {
        disk: DiskId,
        size: Bytes,
        reply: Reply<()>,
    },
    Flush {
        disk: DiskId,
        reply: Reply<()>,
    },
    Destage {
        disk: DiskId,
        reply: Reply<()>,
    },
    Tap {
        disk: DiskId,
        tap: Option<Tap>,
        reply: Reply<()>,
    },
    SetTenancy {
        settings: Option<Box<Settings>>,
        reply: Reply<()>,
    },
    SetTenant {
        tenant: String,
        settings: Box<TenantSettings>,
        reply: Reply<()>,
    },
    SetWeights {
        weights: Vec<(String, Fraction)>,
        reply: Reply<()>,
    },
    Status {
        reply: Reply<ShardStatus>,
    },
    /// Begin a pass of the scrub, or end it.
    Scrub {
        pass: Option<(Bytes, ScrubPass)>,
        reply: Reply<()>,
    },
    ScrubStatus {
        reply: Reply<ScrubStatus>,
    },
    Connect {
        disk: DiskId,
        client: Box<dyn NewClient>,
        vm: Option<String>,
        reply: Reply<()>,
    },
    Stop {
        reply: Reply<()>,
    },
    /// From the guest of a disk.
    Guest {
        disk: DiskId,
        what: OfGuest,
    },
    /// About a disk that roams.
    Roaming {
        disk: DiskId,
        what: Roaming,
    },
    /// From a thread of our own: the cache's record is written, or cannot be.
    Recorded {
        token: Token,
        recorded: bool,
    },
    /// From a thread of our own: how far the flash is was recorded, or could not be.
    ProgressStored,
    /// From a thread of our own: who has a disk is recorded, or why it cannot be.
    Owned {
        token: Token,
        disk: DiskId,
        outcome: Result<(), OwnerError>,
    },
}

/// A shard, for other threads. When the last handle is gone the shard stops cleanly.
#[derive(Clone)]
pub struct ShardHandle {
    line: Arc<Line>,
}

/// The shard has a sender of its own, so its mailbox cannot tell that the handles are gone.
struct Line(Sender<Message>);

impl Line {
    fn send(&self, message: Message) {
        if let Err(refused) = self.0.send(message) {
            refused.0.refuse(ShardError::Ended);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let reply: Reply<()> = Box::new(|_| {});
        // A shard that has ended needs no word.
        let _ended = self.0.send(Message::Stop { reply });
    }
}

impl ShardHandle {
    pub(crate) fn new(sender: Sender<Message>) -> Self {
        let line = Arc::new(Line(sender));
        Self { line }
    }

    /// Attaches a disk whose origin was opened by [`origin::open`], which may block and is
    /// therefore the caller's part. An origin that cannot be reached concerns nobody else.
    pub fn attach(&self, spec: DiskSpec, opened: Opened, reply: Reply<Attached>) {
        let spec = Box::new(spec);
        self.line.send(Message::Attach {
            spec,
            opened,
            reply,
        });
    }

    /// Takes no more requests for a disk, answers those in flight, closes its clients'
    /// connections and forgets it; its blocks stay on flash for the next time. `dirty` says what
    /// becomes of bytes that its origin lacks; a refusal leaves the disk as it was, without clients.
    pub fn detach(&self, disk: DiskId, dirty: OfDirty, reply: Reply<()>) {
        self.line.send(Message::Detach { disk, dirty, reply });
    }

    /// Forgets every block of a disk; it stays attached.
    pub fn drop_cache(&self, disk: DiskId, reply: Reply<()>) {
        self.line.send(Message::Drop { disk, reply });
    }

    /// A disk whose origin has become longer has this size from now on. VMs over vhost-user are told;
    /// whoever connects over NBD from now on finds it.
    pub fn grow(&self, disk: DiskId, size: Bytes, reply: Reply<()>) {
        self.line.send(Message::Grow { disk, size, reply });
    }

    /// Changes what writes to a disk do from now on.
    pub fn set_policy(&self, disk: DiskId, policy: WritePolicy, reply: Reply<()>) {
        self.line.send(Message::SetPolicy {
            disk,
            policy,
            reply,
        });
    }

    /// Changes how writes reach the origin from now on, if they do so later.
    pub fn set_write_back(&self, disk: DiskId, write_back: WriteBack, reply: Reply<()>) {
        self.line.send(Message::SetWriteBack {
            disk,
            write_back,
            reply,
        });
    }

    /// Brings every write that guests were answered to the disk's origin, durably, also those that
    /// may go there later. May take long; ends with an error if the origin fails.
    pub fn destage(&self, disk: DiskId, reply: Reply<()>) {
        self.line.send(Message::Destage { disk, reply });
    }

    /// Makes every write that guests were answered durable where the write policy promises it.
    pub fn flush(&self, disk: DiskId, reply: Reply<()>) {
        self.line.send(Message::Flush { disk, reply });
    }

    /// Tells a tap what the guests of a disk ask from now on, or nobody any more. A disk that is
    /// detached takes its tap along.
    pub fn tap(&self, disk: DiskId, tap: Option<Tap>, reply: Reply<()>) {
        self.line.send(Message::Tap { disk, tap, reply });
    }

    /// Changes what holds for all tenants from now on; with none there are no tenants, and
    /// everything that is read is admitted. Contradictions are refused and nothing has changed.
    pub fn set_tenancy(&self, settings: Option<Settings>, reply: Reply<()>) {
        let settings = settings.map(Box::new);
        self.line.send(Message::SetTenancy { settings, reply });
    }

    /// Changes what holds for the VM or image with this name from now on, whether it has a disk
    /// here or not. Contradictions are refused and nothing has changed; of one that has no disk
    /// here they show when it gets one, in its status.
    pub fn set_tenant(&self, tenant: String, settings: TenantSettings, reply: Reply<()>) {
        let settings = Box::new(settings);
        self.line.send(Message::SetTenant {
            tenant,
            settings,
            reply,
        });
    }

    /// Changes what the reads of VMs weigh for `frequency` in memory, whether they have disks here or not.
    pub fn set_weights(&self, weights: Vec<(String, Fraction)>, reply: Reply<()>) {
        self.line.send(Message::SetWeights { weights, reply });
    }

    /// What the shard is like now. Answered after the flash has been opened.
    pub fn status(&self, reply: Reply<ShardStatus>) {
        self.line.send(Message::Status { reply });
    }

    /// Hands over a client that has come for this disk; of a shared disk `vm` says which VM it
    /// is, of any other nobody does. On failure its socket is closed.
    pub fn connect(
        &self,
        disk: DiskId,
        client: Box<dyn NewClient>,
        vm: Option<String>,
        reply: Reply<()>,
    ) {
        self.line.send(Message::Connect {
            disk,
            client,
            vm,
            reply,
        });
    }

    /// Detaches every disk, brings the flash into the state that restarts warmest, and ends
    /// the thread. Other commands are refused from now on. Waits for requests in flight, so
    /// for as long as the slowest origin takes.
    pub fn stop(&self, reply: Reply<()>) {
        self.line.send(Message::Stop { reply });
    }
}

impl Message {
    /// Answers a command with an error.
    pub(crate) fn refuse(self, error: ShardError) {
        match self {
            Self::Attach { reply, .. } => reply(Err(error)),
            Self::Status { reply } => reply(Err(error)),
            Self::ScrubStatus { reply } => reply(Err(error)),
            Self::Detach { reply, .. }
            | Self::GiveUpFlush { reply, .. }
            | Self::Drop { reply, .. }
            | Self::SetPolicy { reply, .. }
            | Self::SetWriteBack { reply, .. }
            | Self::SetLimits { reply, .. }
            | Self::Destage { reply, .. }
            | Self::Grow { reply, .. }
            | Self::SetTenancy { reply, .. }
            | Self::SetTenant { reply, .. }
            | Self::SetWeights { reply, .. }
            | Self::Scrub { reply, .. }
            | Self::Flush { reply, .. }
            | Self::Tap { reply, .. }
            | Self::Connect { reply, .. }
            | Self::Stop { reply } => reply(Err(error)),
            Self::Guest { what, .. } => what.refuse(error),
            Self::Roaming { what, .. } => what.refuse(error),
            Self::Recorded { .. } | Self::ProgressStored | Self::Owned { .. } => {}
        }
    }
}

impl fmt::Debug for ShardHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShardHandle")
    }
}
