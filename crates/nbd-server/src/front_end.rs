//! The NBD server as a front end of a shard.

use crate::connection::Connection;
use crate::negotiated::Negotiated;
use frontend::{Context, FrontEnd, NewClient};

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
