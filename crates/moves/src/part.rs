//! Requests that are not answered yet, and their parts.

use crate::devices::Host;
use units::Instant;

/// A block of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) vm: usize,
    pub(crate) request: usize,
    pub(crate) block: u32,
    pub(crate) host: Host,
    /// What a read has to get at least.
    pub(crate) floor: u32,
    /// What its host had learnt when it began.
    pub(crate) changes: u32,
    /// The block was cached when it began.
    pub(crate) was_cached: bool,
}

/// A request that is not answered yet.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub(crate) began: Instant,
    pub(crate) left: u32,
    pub(crate) is_read: bool,
}

/// Requests that are not answered yet, by number.
#[derive(Default)]
pub(crate) struct Opens {
    list: Vec<Option<Open>>,
    free: Vec<usize>,
}

impl Opens {
    /// The number of another one.
    pub(crate) fn add(&mut self, open: Open) -> usize {
        if let Some(at) = self.free.pop() {
            self.list[at] = Some(open);
            return at;
        }
        self.list.push(Some(open));
        self.list.len() - 1
    }

    /// A block of it is done: the request, if that was the last.
    pub(crate) fn done(&mut self, number: usize) -> Option<Open> {
        let open = self.list[number].as_mut()?;
        open.left -= 1;
        if open.left > 0 {
            return None;
        }
        self.free.push(number);
        self.list[number].take()
    }
}
