//! The NBD server as a front end of a shard.

use crate::connection::Connection;
use crate::negotiated::Negotiated;
use block_io::{IoError, Payload};
use frontend::budget::Account;
use frontend::{Context, FrontEnd, Incoming, NewClient, RequestKey, State};
use ring::SourceId;

/// Network block device.
pub const FRONT_END: FrontEnd = FrontEnd {
    name: "NBD",
    connections_max: None,
};

impl NewClient for Negotiated {
    fn front_end(&self) -> FrontEnd {
        FRONT_END
    }

    fn open(self: Box<Self>, context: Context<'_>) -> Box<dyn frontend::Connection> {
        let connection = Connection::new(*self, context.ring, context.pool, context.limits);
        Box::new(connection.charging(context.account))
    }
}

/// A disk that grows is no event: NBD has no word for it, and who connects later finds it.
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
        } else {
            State::Open
        }
    }

    fn reply(&mut self, key: RequestKey, result: Result<Payload, IoError>) -> Option<Incoming> {
        self.reply(key, result)
    }

    fn close(&mut self) {
        self.close();
    }

    fn debt(&self) -> Option<u64> {
        self.debt()
    }

    fn cut_off(&mut self) {
        self.cut_off();
    }
}
