//! A client of a disk.

use crate::disk::RequestKind;
use crate::memory::Debt;
use frontend::{Connection, FrontEnd, Incoming, PolledQueues, RequestKey, Reservation, State};
use units::{DiskId, DiskSlot, Instant, TenantSlot};

/// Where a client's disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this slot of the cache.
    Slot(DiskSlot),
    /// At another host, or nowhere.
    Standby(DiskId),
}

impl From<DiskSlot> for Place {
    fn from(slot: DiskSlot) -> Self {
        Self::Slot(slot)
    }
}

/// A client's connection, and what the shard knows of it.
pub(crate) struct Client {
    connection: Box<dyn Connection>,
    front_end: FrontEnd,
    reservation: Reservation,
    place: Place,
    vm: Option<TenantSlot>,
    /// When the disk began to detach, how long the client may take to get its answers.
    farewell: Option<Instant>,
    /// What it owes, while others wait for memory.
    debt: Option<Debt>,
    /// When each request in flight came, by its key.
    starts: Vec<(Instant, RequestKind)>,
}

impl Client {
    pub(crate) fn new(
        connection: Box<dyn Connection>,
        front_end: FrontEnd,
        reservation: Reservation,
        place: Place,
        vm: Option<TenantSlot>,
    ) -> Self {
        Self {
            connection,
            front_end,
            reservation,
            place,
            vm,
            farewell: None,
            debt: None,
            starts: Vec::new(),
        }
    }

    pub(crate) fn connection(&self) -> &dyn Connection {
        &*self.connection
    }

    pub(crate) fn connection_mut(&mut self) -> &mut dyn Connection {
        &mut *self.connection
    }

    pub(crate) fn front_end(&self) -> FrontEnd {
        self.front_end
    }

    /// Shared with the VM's other connections to the disk.
    pub(crate) fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The slot of its disk, if that is here.
    pub(crate) fn disk(&self) -> Option<DiskSlot> {
        match self.place {
            Place::Slot(slot) => Some(slot),
            Place::Standby(_) => None,
        }
    }

    /// Which VM it is, if its disk is here.
    pub(crate) fn vm(&self) -> Option<TenantSlot> {
        self.vm
    }

    /// Its disk has come or gone.
    pub(crate) fn move_to(&mut self, place: Place, vm: Option<TenantSlot>) {
        (self.place, self.vm) = (place, vm);
    }

    /// Polls its connection. True beside the state: it released the disk.
    pub(crate) fn poll(&mut self, incoming: &mut Vec<Incoming>) -> (State, bool) {
        let state = self.connection.poll(incoming);
        (state, self.reservation.take_released())
    }

    /// The queues that are looked at, if there are any.
    pub(crate) fn quiet_queues(&mut self) -> Option<&mut dyn PolledQueues> {
        let queues = self.connection.polled_queues()?;
        queues.is_quiet().then_some(queues)
    }

    /// Takes no more requests, and has this long to receive its answers.
    pub(crate) fn close(&mut self, farewell: Instant) {
        self.connection.close();
        self.farewell = Some(farewell);
    }

    /// Until when it may receive its answers, if it was closed.
    pub(crate) fn farewell(&self) -> Option<Instant> {
        self.farewell
    }

    /// Another look at what it owes, while others wait for memory: whether it has owed it for too
    /// long.
    pub(crate) fn is_stalled(&mut self, look: u64, now: Instant) -> bool {
        let progress = self.connection.debt();
        self.debt = progress.map(|progress| Debt::after(self.debt, progress, look, now));
        self.debt.is_some_and(|debt| debt.is_overdue(now))
    }

    /// Notes that a request came.
    pub(crate) fn begin(&mut self, key: RequestKey, kind: RequestKind, now: Instant) {
        let index = key.get() as usize;
        if index >= self.starts.len() {
            self.starts.resize(index + 1, (now, kind));
        }
        self.starts[index] = (now, kind);
    }

    /// When a request came, and what it was.
    pub(crate) fn start_of(&self, key: RequestKey) -> (Instant, RequestKind) {
        self.starts[key.get() as usize]
    }
}
