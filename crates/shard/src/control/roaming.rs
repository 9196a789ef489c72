//! What other threads say to a shard about disks that roam.

use super::{Attached, Message, OfImage, ShardHandle};
use crate::error::{Reply, ShardError};
use crate::spec::DiskSpec;
use crate::standbys::{StandbyTell, Watched};
use block_io::IoError;
use borrowing::{Manner, Run};
use cache::{Borrowed, Follower, LoanRequest, OfDirty, Shipment};
use frontend::Offer;
use handoff::{Hold, IncomingClient, Look};
use origin::Opened;
use tenancy::Wanted;
use units::{Bytes, DiskId, Offset};

/// What is said about a disk that roams.
pub(crate) enum Roaming {
    Enter {
        offer: Box<Offer>,
        tell: StandbyTell,
    },
    Incoming(IncomingClient),
    Look(Reply<Look>),
    Hold {
        why: Hold,
        reply: Reply<()>,
    },
    Give {
        dirty: OfDirty,
        reply: Reply<()>,
    },
    /// Somebody follows what is written.
    Follow(Follower),
    /// Nothing of a disk's log goes to its origin until the number is released, which has no reply.
    HoldDestage {
        number: u64,
        reply: Option<Reply<()>>,
    },
    Serve,
    Fail,
    EndOld,
    Read {
        offset: Offset,
        length: Bytes,
        reply: Reply<Vec<u8>>,
    },
    AnswerRead {
        ticket: u64,
        result: Result<Vec<u8>, IoError>,
    },
    /// Another host, which has the disk now or is about to, asks.
    Lend {
        request: LoanRequest,
        reply: Reply<Borrowed<Vec<u8>>>,
    },
    /// What the host that has the disk, or had it before, can lend or says.
    Borrow(Borrow),
    Ahead(Ahead),
    /// It is a base image.
    Image(OfImage),
    /// Its VM has come from another host.
    Comes {
        vm: String,
        wanted: Wanted,
    },
}

/// What is said about a cache that goes ahead of its disk.
pub(crate) enum Ahead {
    /// The other host, which stands by, begins to copy the disk's cache, or ends.
    Watch {
        /// What is noted from now on; nothing any more unless given.
        what: Option<Watched>,
        reply: Reply<()>,
    },
    TakeChanges(Reply<Vec<Run>>),
    /// Attaches the disk as the other host's.
    Stand {
        spec: Box<DiskSpec>,
        /// What its reads go to; the other host unless given.
        origin: Option<Box<Opened>>,
        reply: Reply<Attached>,
    },
    /// Detaches it again.
    StandDown(Reply<()>),
    /// The other host has changed these blocks of a disk that is attached so.
    Stale {
        run: Run,
        reply: Reply<()>,
    },
    /// Records of its log are kept for a disk that is attached so, in the period in which this host would have it.
    Keep {
        period: u64,
        shipment: Box<Shipment<Vec<u8>>>,
        reply: Reply<()>,
    },
}

/// What is said about what a disk borrows of the host that had it before.
pub(crate) enum Borrow {
    Manner(Manner),
    List(Vec<Run>),
    Answer { number: u64, bytes: Option<Vec<u8>> },
    Linked(bool),
    Pull { run: Run, reply: Reply<()> },
    Prefetch { run: Run, reply: Reply<()> },
    End,
}

impl Roaming {
    pub(super) fn refuse(self, error: ShardError) {
        match self {
            Self::Look(reply) => reply(Err(error)),
            Self::Image(what) => what.refuse(error),
            Self::Read { reply, .. } => reply(Err(error)),
            Self::Lend { reply, .. } => reply(Err(error)),
            Self::Ahead(Ahead::TakeChanges(reply)) => reply(Err(error)),
            Self::Ahead(Ahead::Stand { reply, .. }) => reply(Err(error)),
            Self::Ahead(
                Ahead::Watch { reply, .. }
                | Ahead::StandDown(reply)
                | Ahead::Stale { reply, .. }
                | Ahead::Keep { reply, .. },
            )
            | Self::Hold { reply, .. }
            | Self::Give { reply, .. }
            | Self::HoldDestage {
                reply: Some(reply), ..
            }
            | Self::Borrow(Borrow::Pull { reply, .. } | Borrow::Prefetch { reply, .. }) => {
                reply(Err(error));
            }
            Self::Borrow(_)
            | Self::Follow(_)
            | Self::HoldDestage { reply: None, .. }
            | Self::Enter { .. }
            | Self::Incoming(_)
            | Self::Serve
            | Self::Fail
            | Self::EndOld
            | Self::AnswerRead { .. }
            | Self::Comes { .. } => {}
        }
    }
}

/// Says to a shard what concerns a disk whose data goes ahead of it, or comes with it.
pub struct AheadHandle<'a>(&'a ShardHandle);

impl AheadHandle<'_> {
    /// For a second somebody follows what is written to a roaming disk under write-back: its guest's requests wait for that one
    /// a little.
    pub fn follow(&self, disk: DiskId, follower: Follower) {
        self.0.about_roaming(disk, Roaming::Follow(follower));
    }

    /// Brings nothing more of a roaming disk's dirty log to its origin until this number is released. Ends when nothing is on
    /// its way there and what has arrived is durable; fails if the disk is not under write-back, or its origin does not
    /// take it. It has to be released then, too.
    pub fn hold_destage(&self, disk: DiskId, number: u64, reply: Reply<()>) {
        let reply = Some(reply);
        self.0
            .about_roaming(disk, Roaming::HoldDestage { number, reply });
    }

    /// What was held under this number goes on.
    pub fn release_destage(&self, disk: DiskId, number: u64) {
        let reply = None;
        self.0
            .about_roaming(disk, Roaming::HoldDestage { number, reply });
    }

    /// The VM of an attached roaming disk has come from another host, where it wanted this: its share of the flash begins
    /// with that.
    pub fn vm_comes(&self, disk: DiskId, vm: String, wanted: Wanted) {
        self.0.about_roaming(disk, Roaming::Comes { vm, wanted });
    }

    /// The other host has changed these blocks of a disk that is attached so: copies of them are discarded, also
    /// those that are on their way.
    pub fn stale(&self, disk: DiskId, run: Run, reply: Reply<()>) {
        self.0
            .about_roaming(disk, Roaming::Ahead(Ahead::Stale { run, reply }));
    }

    /// Keeps records of the host that has a disk which is attached so, for the period in which this host would have it.
    /// Ends when all are durable here.
    pub fn keep_records(
        &self,
        disk: DiskId,
        period: u64,
        shipment: Shipment<Vec<u8>>,
        reply: Reply<()>,
    ) {
        let keep = Ahead::Keep {
            period,
            shipment: Box::new(shipment),
            reply,
        };
        self.0.about_roaming(disk, Roaming::Ahead(keep));
    }
}

impl ShardHandle {
    /// What is said about a disk whose data goes to another host before the disk does.
    pub fn ahead(&self) -> AheadHandle<'_> {
        AheadHandle(self)
    }

    /// Clients may come for a disk whether it is attached or another host has it; what they need is told.
    pub fn roam(&self, disk: DiskId, offer: Offer, tell: StandbyTell) {
        let offer = Box::new(offer);
        self.about_roaming(disk, Roaming::Enter { offer, tell });
    }

    /// Something is seen of the other host's client of a roaming disk.
    pub fn see_incoming(&self, disk: DiskId, seen: IncomingClient) {
        self.about_roaming(disk, Roaming::Incoming(seen));
    }

    /// Says what is seen of a roaming disk's clients here.
    pub fn look_at_roaming(&self, disk: DiskId, reply: Reply<Look>) {
        self.about_roaming(disk, Roaming::Look(reply));
    }

    /// Lets the requests of an attached roaming disk wait, if that is still right. Those that are under way go on.
    pub fn hold(&self, disk: DiskId, why: Hold, reply: Reply<()>) {
        self.about_roaming(disk, Roaming::Hold { why, reply });
    }

    /// Brings everything of a roaming disk to its origin, or keeps here what it lacks, and closes it; its clients stay,
    /// and stand by.
    pub fn give(&self, disk: DiskId, dirty: OfDirty, reply: Reply<()>) {
        self.about_roaming(disk, Roaming::Give { dirty, reply });
    }

    /// Lets the requests of an attached roaming disk pass, also those that wait.
    pub fn serve_roaming(&self, disk: DiskId) {
        self.about_roaming(disk, Roaming::Serve);
    }

    /// Answers what waits for a roaming disk with errors.
    pub fn fail_parked(&self, disk: DiskId) {
        self.about_roaming(disk, Roaming::Fail);
    }

    /// Answers the clients that were served before a roaming disk was given away with errors, for ever.
    pub fn end_old_clients(&self, disk: DiskId) {
        self.about_roaming(disk, Roaming::EndOld);
    }

    /// Reads an attached roaming disk for the client of another host.
    pub fn read_for_peer(
        &self,
        disk: DiskId,
        offset: Offset,
        length: Bytes,
        reply: Reply<Vec<u8>>,
    ) {
        let read = Roaming::Read {
            offset,
            length,
            reply,
        };
        self.about_roaming(disk, read);
    }

    /// Answers a read that was told as [`Notice::Read`](handoff::Notice::Read). Nothing, if it waits no more.
    pub fn answer_read(&self, disk: DiskId, ticket: u64, result: Result<Vec<u8>, IoError>) {
        self.about_roaming(disk, Roaming::AnswerRead { ticket, result });
    }

    /// Reads for another host, which has a roaming disk now, what is cached of it here.
    pub fn lend(&self, disk: DiskId, request: LoanRequest, reply: Reply<Borrowed<Vec<u8>>>) {
        self.about_roaming(disk, Roaming::Lend { request, reply });
    }

    /// The host that had an attached roaming disk before is asked so from now on; `None`: not any more.
    pub fn borrow(&self, disk: DiskId, manner: Option<Manner>) {
        let what = manner.map_or(Borrow::End, Borrow::Manner);
        self.about_borrowing(disk, what);
    }

    /// The host that had an attached roaming disk before has these blocks in its cache.
    pub fn list_borrowable(&self, disk: DiskId, runs: Vec<Run>) {
        self.about_borrowing(disk, Borrow::List(runs));
    }

    /// The host that had the disk before has answered [`StandbyNeeds::Loan`](crate::StandbyNeeds::Loan):
    /// with the bytes of whole blocks, or that it does not have them.
    pub fn answer_loan(&self, disk: DiskId, number: u64, bytes: Option<Vec<u8>>) {
        self.about_borrowing(disk, Borrow::Answer { number, bytes });
    }

    /// The host that had the disk before can be asked, or cannot.
    pub fn set_lender_linked(&self, disk: DiskId, is_linked: bool) {
        self.about_borrowing(disk, Borrow::Linked(is_linked));
    }

    /// Brings what of a run can be borrowed into the cache, as far as it has room.
    pub fn pull(&self, disk: DiskId, run: Run, reply: Reply<()>) {
        self.about_borrowing(disk, Borrow::Pull { run, reply });
    }

    /// Brings a run into the cache, as far as it has room, from wherever it can be had.
    pub fn prefetch(&self, disk: DiskId, run: Run, reply: Reply<()>) {
        self.about_borrowing(disk, Borrow::Prefetch { run, reply });
    }

    /// The other host stands by for a disk that is served here, and copies blocks of it from now on, of which this is
    /// noted; or no more. Fails if the disk is not served here.
    pub fn watch(&self, disk: DiskId, what: Option<Watched>, reply: Reply<()>) {
        self.about_roaming(disk, Roaming::Ahead(Ahead::Watch { what, reply }));
    }

    /// What has changed of a disk since the last time, if it was watched from before that on: some of it,
    /// until it is empty. Fails once that is not known; what was copied does not count then.
    pub fn take_changes(&self, disk: DiskId, reply: Reply<Vec<Run>>) {
        self.about_roaming(disk, Roaming::Ahead(Ahead::TakeChanges(reply)));
    }

    /// Attaches a roaming disk of this size which another host has: its cache can be copied from there
    /// ([`ShardHandle::list_borrowable`], [`ShardHandle::pull`]), or from `origin` ([`ShardHandle::prefetch`]), which was
    /// opened beside that host. Its clients stand by as ever.
    pub fn stand(&self, spec: DiskSpec, origin: Option<Opened>, reply: Reply<Attached>) {
        let (disk, spec, origin) = (spec.id, Box::new(spec), origin.map(Box::new));
        let stand = Ahead::Stand {
            spec,
            origin,
            reply,
        };
        self.about_roaming(disk, Roaming::Ahead(stand));
    }

    /// Detaches a disk that is attached so. What has come counts if the disk is attached as the successor's next.
    pub fn stand_down(&self, disk: DiskId, reply: Reply<()>) {
        self.about_roaming(disk, Roaming::Ahead(Ahead::StandDown(reply)));
    }

    fn about_borrowing(&self, disk: DiskId, what: Borrow) {
        self.about_roaming(disk, Roaming::Borrow(what));
    }

    pub(super) fn about_roaming(&self, disk: DiskId, what: Roaming) {
        self.line.send(Message::Roaming { disk, what });
    }
}
