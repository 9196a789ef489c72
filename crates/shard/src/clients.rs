//! The clients of a shard: their connections, and which request is whose.
//!
//! A cache's request id is made of a client's key and the connection's own key of the request:
//!
//! ```text
//!   63            32 31             0
//!  ┌────────────────┬────────────────┐
//!  │ client         │ request key    │   client = COMMANDS: a command's flush, by number
//!  └────────────────┴────────────────┘
//! ```
//! A client's key is used again only after its last request was answered, so an id names one
//! request as long as it is in flight.

use crate::disk::RequestKind;
use crate::memory::Debt;
use cache::RequestId;
use frontend::{Connection, FrontEnd, RequestKey, Reservation};
use units::{DiskSlot, Instant, TenantSlot};

/// The client number of requests that a command makes.
const COMMANDS: u32 = u32::MAX;

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Client { client: usize, key: RequestKey },
    Command(usize),
}

impl Asker {
    pub(crate) fn id(self) -> RequestId {
        let (high, low) = match self {
            Self::Client { client, key } => (number(client), key.get()),
            Self::Command(command) => (COMMANDS, number(command)),
        };
        assert!(
            high != COMMANDS || matches!(self, Self::Command(_)),
            "there are fewer clients than numbers"
        );
        RequestId(u64::from(high) << 32 | u64::from(low))
    }

    pub(crate) fn of(id: RequestId) -> Self {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).expect("32 bits");
        let (high, low) = (half(id.0 >> 32), half(id.0));
        if high == COMMANDS {
            Self::Command(low as usize)
        } else {
            Self::Client {
                client: high as usize,
                key: RequestKey::from_number(low),
            }
        }
    }
}

fn number(key: usize) -> u32 {
    u32::try_from(key).expect("a table in memory has fewer than 2^32 entries")
}

/// A client of a disk.
pub(crate) struct Client {
    pub(crate) connection: Box<dyn Connection>,
    front_end: FrontEnd,
    reservation: Reservation,
    pub(crate) disk: DiskSlot,
    /// Which VM it is.
    pub(crate) vm: TenantSlot,
    /// When the disk began to detach, how long the client may take to get its answers.
    pub(crate) farewell: Option<Instant>,
    /// Listed to be polled at the end of this turn.
    pub(crate) touched: bool,
    /// Listed among those whose rings are looked at.
    pub(crate) watched: bool,
    /// What it owes, while others wait for memory.
    pub(crate) debt: Option<Debt>,
    /// When each request in flight came, by its key.
    starts: Vec<(Instant, RequestKind)>,
}

impl Client {
    pub(crate) fn new(
        connection: Box<dyn Connection>,
        front_end: FrontEnd,
        reservation: Reservation,
        disk: DiskSlot,
        vm: TenantSlot,
    ) -> Self {
        Self {
            connection,
            front_end,
            reservation,
            disk,
            vm,
            farewell: None,
            touched: false,
            watched: false,
            debt: None,
            starts: Vec::new(),
        }
    }

    pub(crate) fn front_end(&self) -> FrontEnd {
        self.front_end
    }

    /// Shared with the VM's other connections to the disk.
    pub(crate) fn reservation(&self) -> &Reservation {
        &self.reservation
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_asker() {
        for asker in [
            Asker::Client {
                client: 0,
                key: RequestKey::from_number(0),
            },
            Asker::Client {
                client: 70_000,
                key: RequestKey::from_number(u32::MAX),
            },
            Asker::Command(0),
            Asker::Command(9),
        ] {
            assert_eq!(Asker::of(asker.id()), asker);
        }
    }
}
