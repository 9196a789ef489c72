//! What one session holds of the keeping: the table, the connections, and what former sessions left.

use super::{Change, KeepSockets, Keeping, Late, Table};
use crate::{NbdSpec, OpenError};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

/// How often a thread that waits for late changes looks whether anybody still wants to know.
const LOOK: Duration = Duration::from_millis(500);

/// A session's hold on what outlives it.
#[derive(Debug)]
pub(crate) struct Hold {
    /// None for a disk that is only read.
    table: Option<Table>,
    keeper: Option<Keeper>,
    late: Vec<Change>,
    watch: Option<Watch>,
}

/// Hands connections to who keeps them.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    sockets: Arc<dyn KeepSockets>,
    prefix: String,
}

/// A thread that waits for late changes.
#[derive(Debug)]
struct Watch {
    over: Receiver<u64>,
    /// The thread ends when this is gone.
    _alive: Arc<()>,
}

impl Hold {
    /// Takes over from former sessions.
    ///
    /// # Errors
    /// [`OpenError`]: see [`Keeping::take_over`]; or if there is no thread to wait for what is late.
    pub(crate) fn new(
        keeping: &Keeping,
        spec: &NbdSpec,
        read_only: bool,
    ) -> Result<Self, OpenError> {
        let (table, late) = if read_only {
            (None, keeping.look(spec)?)
        } else {
            let (table, late) = keeping.take_over(spec)?;
            (Some(table), late)
        };
        let changes = late.changes.clone();
        let watch = Watch::new(late).map_err(|source| OpenError::Unreachable {
            origin: spec.to_string(),
            source,
        })?;
        let keeper = table.is_some().then(|| Keeper {
            sockets: Arc::clone(&keeping.sockets),
            prefix: Keeping::prefix(spec),
        });
        Ok(Self {
            table,
            keeper,
            late: changes,
            watch,
        })
    }

    pub(crate) fn keeper(&self) -> Option<&Keeper> {
        self.keeper.as_ref()
    }

    /// What former sessions have left.
    pub(crate) fn late(&self) -> &[Change] {
        &self.late
    }

    /// A change is about to be sent.
    pub(crate) fn remember(&mut self, change: Change) {
        if let Some(table) = &mut self.table {
            table.begin(change);
        }
    }

    /// A change was answered, or cannot happen any more.
    pub(crate) fn forget(&mut self, cookie: u64) {
        if let Some(table) = &mut self.table {
            table.end(cookie);
        }
    }

    /// Whether every change was answered.
    pub(crate) fn is_settled(&self) -> bool {
        self.table.as_ref().is_none_or(Table::is_empty)
    }

    /// Late changes that have come to their end, by their cookies.
    pub(crate) fn take_over_ones(&mut self) -> Vec<u64> {
        let Some(watch) = &self.watch else {
            return Vec::new();
        };
        let over: Vec<u64> = watch.over.try_iter().collect();
        self.late.retain(|change| !over.contains(&change.cookie));
        if self.late.is_empty() {
            self.watch = None;
        }
        for cookie in &over {
            self.forget(*cookie);
        }
        over
    }
}

impl Keeper {
    /// Has a connection kept until what this gives is dropped.
    pub(crate) fn keep(&self, socket: impl AsFd) -> Kept {
        let name = format!("{}{:016x}", self.prefix, random());
        self.sockets.keep(&name, socket.as_fd());
        Kept {
            sockets: Arc::clone(&self.sockets),
            name,
            is_left: false,
        }
    }
}

/// A connection that somebody keeps for the next process.
#[derive(Debug)]
pub(crate) struct Kept {
    sockets: Arc<dyn KeepSockets>,
    name: String,
    is_left: bool,
}

impl Kept {
    /// Whoever keeps it goes on when this is dropped.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Whether it was left.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.is_left {
            self.sockets.release(&self.name);
        }
    }
}

impl Watch {
    /// None if nothing is late.
    fn new(late: Late) -> io::Result<Option<Self>> {
        if late.changes.is_empty() {
            return Ok(None);
        }
        let (tell, over) = channel();
        let alive = Arc::new(());
        let wanted = Arc::downgrade(&alive);
        let thread = thread::Builder::new().name("nbd-late".to_owned());
        thread.spawn(move || wait(late, &tell, &wanted))?;
        Ok(Some(Self {
            over,
            _alive: alive,
        }))
    }
}

/// Tells of each late change when it is over.
fn wait(late: Late, tell: &Sender<u64>, wanted: &Weak<()>) {
    let Late {
        mut changes,
        mut streams,
    } = late;
    while !changes.is_empty() && wanted.strong_count() > 0 {
        let before = changes.clone();
        let look = Instant::now() + LOOK;
        let until = streams.settled_at().map_or(look, |at| at.min(look));
        streams.listen(until, &mut changes);
        streams.settle(&mut changes);
        let over = before.iter().filter(|change| !changes.contains(change));
        for change in over {
            // Who has gone need not know.
            let _ = tell.send(change.cookie);
        }
    }
}

/// A number that nobody guesses.
pub(crate) fn random() -> u64 {
    // The keys of the standard library's hashers come from the system's source of random numbers.
    RandomState::new().build_hasher().finish()
}
