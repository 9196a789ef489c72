//! A guest's memory, where it wants the bytes of a read: it writes there while it is being read,
//! and nobody else may once the read is answered.

use crate::violation::Violation;
use crate::world::World;
use block_io::{GuestBuffer, Payload, Slice};
use cache::{RequestId, Verb};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// Reads of more bytes than this are refused and need no memory.
const MEMORY_MAX: u64 = 32 << 20;

/// Memory for one read.
pub(crate) struct Lap {
    bytes: RefCell<Vec<u8>>,
    /// So many looks at it find a byte that the guest has changed.
    scribbles: Cell<u32>,
    is_answered: Cell<bool>,
}

impl Lap {
    pub(crate) fn new(bytes: usize, scribbles: u32) -> Self {
        Self {
            bytes: RefCell::new(vec![0xa5; bytes]),
            scribbles: Cell::new(scribbles),
            is_answered: Cell::new(false),
        }
    }

    /// The guest has its answer and uses its memory for something else.
    pub(crate) fn answered(&self) {
        self.is_answered.set(true);
    }

    /// All of it.
    pub(crate) fn contents(&self) -> Vec<u8> {
        self.bytes.borrow().clone()
    }
}

impl fmt::Debug for Lap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lap({}B)", self.bytes.borrow().len())
    }
}

impl GuestBuffer for Lap {
    fn bytes(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        let mut bytes = self.bytes.borrow_mut();
        if let Some(left) = self.scribbles.get().checked_sub(1) {
            self.scribbles.set(left);
            bytes[at + into.len() / 2] ^= 0x40;
        }
        into.copy_from_slice(&bytes[at..at + into.len()]);
    }

    fn store(&self, at: usize, from: &[u8]) {
        assert!(
            !self.is_answered.get(),
            "nothing comes into a guest's memory after its read was answered"
        );
        self.bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from);
    }
}

impl World {
    /// Memory of its own for every other read, of which some guests change a byte or two while it
    /// is read. By the request's number and without dice.
    pub(crate) fn lap_for(&mut self, id: RequestId, verb: &Verb) -> Option<Rc<Lap>> {
        let Verb::Read { length, .. } = verb else {
            return None;
        };
        // Settings with write-back have none yet: their dirty blocks never go there.
        if id.0.is_multiple_of(2) || self.run.settings().back.is_some() || length.get() > MEMORY_MAX
        {
            return None;
        }
        let scribbles = if id.0 % 16 == 3 {
            1 + u32::from(id.0 % 32 == 3)
        } else {
            0
        };
        if scribbles > 0 {
            self.run.hit("guest scribbles");
        }
        Some(Rc::new(Lap::new(length.to_usize(), scribbles)))
    }

    /// The cache has brought a read to where its guest wanted it, all but `rest`.
    pub(crate) fn guest_read_in_place(
        &mut self,
        id: RequestId,
        rest: &[(usize, Slice)],
    ) -> Result<(), Violation> {
        let lap = self.outstanding.get(&id).and_then(|one| one.lap.clone());
        let Some(lap) = lap else {
            return Err(Violation::new(
                "I8",
                format!("request {} was read in place and has no memory", id.0),
            ));
        };
        for (at, bytes) in rest {
            lap.store(*at, bytes);
        }
        self.run.hit("read in place");
        let bytes = self.run.pool().copy_of(&lap.contents());
        self.guest_is_answered(id, Ok(Payload::from_iter([bytes])))
    }
}
