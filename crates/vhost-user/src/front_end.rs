//! vhost-user as a front end of a shard.

use crate::connection::Connection;
use crate::device::Disk;
use crate::limits::CONNECTIONS_MAX;
use crate::quota::MappingLimits;
use block_io::{GuestBuffer, IoError, Payload, Slice};
use frontend::budget::Account;
use frontend::{
    Context, FrontEnd, Incoming, NewClient, PolledQueues, Report, RequestKey, Reservation, State,
};
use ring::SourceId;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::Bytes;

/// vhost-user-blk.
pub const FRONT_END: FrontEnd = FrontEnd {
    name: "vhost-user",
    connections_max: Some(CONNECTIONS_MAX),
};

/// A VM that has connected to a disk's socket, and what it is offered.
#[derive(Debug)]
pub struct Client {
    /// The VM's socket.
    pub socket: OwnedFd,
    /// The serial number that the guest sees; cut to 20 bytes.
    pub serial: String,
    /// The smallest unit of address and length that it is offered, in bytes: 512 or 4096.
    pub sector: u32,
    /// What may be mapped of its memory.
    pub mapping: MappingLimits,
}

impl NewClient for Client {
    fn front_end(&self) -> FrontEnd {
        FRONT_END
    }

    /// # Panics
    /// If the sector is neither 512 nor 4096.
    fn open(self: Box<Self>, context: Context<'_>) -> Box<dyn frontend::Connection> {
        let (offer, sector) = (context.offer, u64::from(self.sector));
        let disk = Disk {
            name: offer.name,
            serial: self.serial,
            // What is beyond the last whole sector cannot be asked for.
            size: Bytes::new(offer.size.get() / sector * sector),
            sector: self.sector,
            read_only: offer.read_only,
            can_discard: offer.can_discard,
        };
        let (ring, pool, limits) = (context.ring, context.pool, context.limits);
        let connection = Connection::new(self.socket, &disk, ring, pool, limits);
        let connection = connection.reserving(context.reservation);
        let connection = connection.watched().charging(context.account);
        Box::new(connection.mapping_within(&self.mapping))
    }
}

impl frontend::Connection for Connection {
    fn id(&self) -> SourceId {
        self.id()
    }

    fn account(&self) -> &Account {
        self.account()
    }

    fn in_flight(&self) -> usize {
        self.in_flight()
    }

    fn poll(&mut self, incoming: &mut Vec<Incoming>) -> State {
        self.poll(incoming);
        if self.is_finished() {
            State::Finished
        } else if self.has_hung_up() {
            State::HungUp
        } else if self.is_quiet() {
            State::Quiet
        } else {
            State::Open
        }
    }

    fn reply(&mut self, key: RequestKey, result: Result<Payload, IoError>) -> Option<Incoming> {
        self.reply(key, result)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping()
    }

    fn close(&mut self) {
        self.close();
    }

    fn resize(&mut self, size: Bytes) {
        self.resize(size);
    }

    fn reserve_in(&mut self, reservation: Reservation) {
        self.reserve_in(reservation);
    }

    fn read_buffer(&self, key: RequestKey) -> Option<Rc<dyn GuestBuffer>> {
        Some(Rc::new(self.buffers(key)?))
    }

    fn reply_in_place(&mut self, key: RequestKey, rest: &[(usize, Slice)]) {
        for (at, bytes) in rest {
            self.put(key, *at, bytes);
        }
        self.reply_in_place(key, Ok(()));
    }

    fn polled_queues(&mut self) -> Option<&mut dyn PolledQueues> {
        Some(self)
    }

    fn report(&self) -> Report {
        Report {
            is_waiting: self.waits_for_reservation(),
            queues: self.queues(),
            counters: self.counters(),
        }
    }
}

impl PolledQueues for Connection {
    fn is_quiet(&self) -> bool {
        self.is_quiet()
    }

    fn has_work(&self) -> bool {
        self.has_work()
    }

    fn rest(&mut self) -> bool {
        self.rest()
    }

    fn is_pending(&self) -> bool {
        self.is_pending()
    }
}
