//! What a shard asks of a client's connection.

use crate::budget::Account;
use crate::report::Report;
use crate::request::{Incoming, RequestKey};
use crate::reservation::Reservation;
use block_io::{GuestBuffer, IoError, Payload, Slice};
use ring::SourceId;
use std::rc::Rc;
use units::Bytes;

/// What a connection is like after it was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a finished connection has to be dropped"]
pub enum State {
    /// Its source on the ring tells when there is something to do.
    Open,
    /// It has queues of which nobody tells: look at them with [`Connection::polled_queues`] while
    /// awake.
    Quiet,
    /// Its client has gone, and waits for no answer: what has not reached the disk yet need not. What is at the disk is
    /// still answered.
    HungUp,
    /// Nothing more will come of it: drop it, which closes its socket.
    Finished,
}

/// A client's connection, on a shard's thread and ring.
///
/// ```text
///  source ready ─► poll(&mut incoming) ─► requests to the disk
///  disk answers ─► reply(key, result)  ┐ any number, then
///                  poll(&mut incoming) ◄ once: all answers of the turn leave together
/// ```
///
/// Every [`Incoming`] is answered exactly once, also when the client has gone; only then is the
/// connection finished. At a limit it takes no requests: its client waits.
///
/// The first methods are what every front end has. The provided ones are for what only some have,
/// and do nothing unless a front end says otherwise.
pub trait Connection {
    /// The source to watch on the ring.
    fn id(&self) -> SourceId;

    /// Its account in the memory budget. The connection is polled when it was granted room.
    fn account(&self) -> &Account;

    /// Requests at the disk.
    fn in_flight(&self) -> usize;

    /// Handles what the ring has for this connection, appends new requests to `incoming`, and sends
    /// the answers put in since the last call. Called when the source is ready and, once a turn,
    /// after replying.
    fn poll(&mut self, incoming: &mut Vec<Incoming>) -> State;

    /// Answers a request; a read with exactly its bytes, anything else with no bytes. The answer
    /// leaves with the next [`Connection::poll`]. What comes back, if anything, is one more step of
    /// the same request, to be treated like any other [`Incoming`].
    ///
    /// # Panics
    /// If the request was answered before, or a read gets more or fewer bytes than it asked for.
    #[must_use = "a durable discard goes on with a flush"]
    fn reply(&mut self, key: RequestKey, result: Result<Payload, IoError>) -> Option<Incoming>;

    /// Takes no more requests. Those taken are still answered; then the connection is finished.
    fn close(&mut self);

    /// The disk has this size now: the client is told, if the front end has a word for it.
    fn resize(&mut self, _size: Bytes) {}

    /// Its queues run under this reservation from now on, if it has any and they do not run.
    fn reserve_in(&mut self, _reservation: Reservation) {}

    /// Where the disk can put a read's bytes itself, without a copy of ours.
    ///
    /// # Panics
    /// If there is no such request in flight.
    fn read_buffer(&self, _key: RequestKey) -> Option<Rc<dyn GuestBuffer>> {
        None
    }

    /// Answers a read whose bytes lie in its [`Connection::read_buffer`], all but these, each with
    /// its offset there.
    ///
    /// # Panics
    /// If the request was answered before, or has no such buffer.
    fn reply_in_place(&mut self, key: RequestKey, _rest: &[(usize, Slice)]) {
        panic!("the read {key:?} has no buffer of its client's");
    }

    /// Whether its client waits until nothing of it is at the disk, and asks nothing more before: a queue that is
    /// being stopped.
    fn is_stopping(&self) -> bool {
        false
    }

    /// If it keeps memory that others may need until its client does something: a number that
    /// changes whenever the client has.
    fn debt(&self) -> Option<u64> {
        None
    }

    /// Ends it as if its client had gone. Called of one that has a [`Connection::debt`].
    fn cut_off(&mut self) {}

    /// Its queues, if it has any that can be polled.
    fn polled_queues(&mut self) -> Option<&mut dyn PolledQueues> {
        None
    }

    /// What it is like, for people.
    fn report(&self) -> Report {
        Report::default()
    }
}

/// Queues in shared memory. Whoever is awake looks at them, so that guests need not kick.
pub trait PolledQueues {
    /// Whether there are queues of which the guest tells nobody.
    fn is_quiet(&self) -> bool;

    /// Whether the guest has put something into such a queue.
    fn has_work(&self) -> bool;

    /// Asks the guest to kick from now on. True: something has come already, and
    /// [`Connection::poll`] is to be called. Does not touch the ring.
    fn rest(&mut self) -> bool;

    /// Whether [`PolledQueues::rest`] has found something since the last poll.
    fn is_pending(&self) -> bool;
}
