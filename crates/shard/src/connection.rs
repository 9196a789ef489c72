//! A client's connection, over either front end: what the loop asks of both.

use block_io::{IoError, Landing, Payload, Slice};
use frontend::budget::Account;
use frontend::{Incoming, RequestKey, nbd};
use ring::SourceId;
use std::rc::Rc;
use units::Bytes;
use vhost_user::Turn;

/// Over which front end.
pub(crate) enum Connection {
    Nbd(Box<nbd::Connection>),
    Vhost(Box<vhost_user::Connection>),
}

impl Connection {
    pub(crate) fn id(&self) -> SourceId {
        match self {
            Self::Nbd(nbd) => nbd.id(),
            Self::Vhost(vhost) => vhost.id(),
        }
    }

    /// Its account in the memory budget.
    pub(crate) fn account(&self) -> &Account {
        match self {
            Self::Nbd(nbd) => nbd.account(),
            Self::Vhost(vhost) => vhost.account(),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        match self {
            Self::Nbd(nbd) => nbd.in_flight(),
            Self::Vhost(vhost) => vhost.in_flight(),
        }
    }

    pub(crate) fn poll(&mut self, incoming: &mut Vec<Incoming>) {
        match self {
            Self::Nbd(nbd) => nbd.poll(incoming),
            Self::Vhost(vhost) => vhost.poll(incoming),
        }
    }

    #[must_use = "a durable discard goes on with a flush"]
    pub(crate) fn reply(
        &mut self,
        key: RequestKey,
        result: Result<Payload, IoError>,
    ) -> Option<Incoming> {
        match self {
            Self::Nbd(nbd) => nbd.reply(key, result),
            Self::Vhost(vhost) => vhost.reply(key, result),
        }
    }

    /// Where a read's bytes can be put without a copy, if they can.
    pub(crate) fn landing(&self, key: RequestKey) -> Option<Rc<dyn Landing>> {
        match self {
            Self::Nbd(_) => None,
            Self::Vhost(vhost) => Some(Rc::new(vhost.buffers(key)?)),
        }
    }

    /// Answers a read whose bytes were put there, all but `rest`.
    ///
    /// # Panics
    /// If there is no such place.
    pub(crate) fn reply_in_place(&mut self, key: RequestKey, rest: &[(usize, Slice)]) {
        match self {
            Self::Nbd(_) => panic!("an NBD client has no memory here"),
            Self::Vhost(vhost) => {
                for (at, bytes) in rest {
                    vhost.put(key, *at, bytes);
                }
                vhost.reply_in_place(key, Ok(()));
            }
        }
    }

    /// The disk has another size now: whoever can be told is.
    pub(crate) fn resize(&mut self, size: Bytes) {
        match self {
            // NBD has no word for it: who connects from now on finds it.
            Self::Nbd(_) => {}
            Self::Vhost(vhost) => vhost.resize(size),
        }
    }

    pub(crate) fn close(&mut self) {
        match self {
            Self::Nbd(nbd) => nbd.close(),
            Self::Vhost(vhost) => vhost.close(),
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Self::Nbd(nbd) => nbd.is_finished(),
            Self::Vhost(vhost) => vhost.is_finished(),
        }
    }

    /// The VM's device, to be looked at by whoever waits, if its guest tells nobody of requests.
    pub(crate) fn quiet(&mut self) -> Option<&mut vhost_user::Connection> {
        match self {
            Self::Nbd(_) => None,
            Self::Vhost(vhost) => vhost.is_quiet().then_some(vhost),
        }
    }

    /// The VM's device, if it is one.
    pub(crate) fn vhost(&self) -> Option<&vhost_user::Connection> {
        match self {
            Self::Nbd(_) => None,
            Self::Vhost(vhost) => Some(vhost),
        }
    }

    /// Whether it has the turn at its disk.
    pub(crate) fn has_turn(&self) -> bool {
        self.vhost().is_some_and(vhost_user::Connection::has_turn)
    }

    /// The turn that it takes with others, if it takes any.
    pub(crate) fn turn(&self) -> Option<&Turn> {
        self.vhost().map(vhost_user::Connection::turn)
    }
}
