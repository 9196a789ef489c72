//! Names of a connection's own operations on the ring.
//!
//! ```text
//!   63           32 31      16 15       8 7      0
//!  ┌───────────────┬──────────┬──────────┬────────┐
//!  │ generation    │    0     │ queue    │ kind   │
//!  └───────────────┴──────────┴──────────┴────────┘
//! ```
//! The generation tells a poll of a descriptor from that of the one that was there before.

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// The socket can be read.
    Socket,
    /// More is to be done than fitted into a turn.
    Again,
    /// A queue was kicked.
    Kick { queue: usize, generation: u32 },
    /// A queue's interrupt was delivered.
    Interrupt { queue: usize },
    /// A queue's interrupt was not delivered at once.
    Missed { queue: usize },
    /// Something else was signalled, and nobody waits for it.
    Signal,
    /// The socket is hung up.
    HangUp,
}

const SOCKET: u64 = 0;
const AGAIN: u64 = 1;
const KICK: u64 = 2;
const INTERRUPT: u64 = 3;
const SIGNAL: u64 = 4;
const HANG_UP: u64 = 5;
const MISSED: u64 = 6;

impl Task {
    pub(crate) fn token(self) -> u64 {
        match self {
            Self::Socket => SOCKET,
            Self::Again => AGAIN,
            Self::Kick { queue, generation } => {
                u64::from(generation) << 32 | (queue as u64) << 8 | KICK
            }
            Self::Interrupt { queue } => (queue as u64) << 8 | INTERRUPT,
            Self::Missed { queue } => (queue as u64) << 8 | MISSED,
            Self::Signal => SIGNAL,
            Self::HangUp => HANG_UP,
        }
    }

    pub(crate) fn of(token: u64) -> Self {
        let queue = usize::try_from(token >> 8 & 0xff).expect("eight bits");
        match token & 0xff {
            SOCKET => Self::Socket,
            AGAIN => Self::Again,
            KICK => {
                let generation = u32::try_from(token >> 32).expect("32 bits");
                Self::Kick { queue, generation }
            }
            INTERRUPT => Self::Interrupt { queue },
            HANG_UP => Self::HangUp,
            MISSED => Self::Missed { queue },
            _ => Self::Signal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_task() {
        for task in [
            Task::Socket,
            Task::Again,
            Task::Kick {
                queue: 63,
                generation: u32::MAX,
            },
            Task::Interrupt { queue: 7 },
            Task::Missed { queue: 63 },
            Task::HangUp,
            Task::Signal,
        ] {
            assert_eq!(Task::of(task.token()), task);
        }
    }
}
