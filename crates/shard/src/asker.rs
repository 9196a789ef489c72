//! Which request of the cache is whose.
//!
//! A cache's request id is made of a client's key and the connection's own key of the request:
//!
//! ```text
//!   63            32 31             0
//!  ┌────────────────┬────────────────┐
//!  │ client         │ request key    │   client = COMMANDS: a command's request, by number
//!  └────────────────┴────────────────┘
//! ```
//! A client's key is used again only after its last request was answered, so an id names one
//! request as long as it is in flight.

use cache::RequestId;
use frontend::RequestKey;

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
