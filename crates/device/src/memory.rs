//! Flash in memory, with a power switch: the crash model of the simulated world.
//!
//! The medium outlives the device, as flash outlives a boot:
//!
//! ```text
//!   let flash = Medium::new(MediumOptions::new(Bytes::mib(64), seed));
//!   let device = MemoryDevice::open(&flash);   … use it …
//!   flash.crash();                             the device above hears nothing more
//!   let device = MemoryDevice::open(&flash);   what survived
//! ```

use crate::Device;
use block_io::{BounceBuffers, FlashDone, FlashOp, OriginDone};
use medium::{Medium, Session, flash_done, medium_verb};
use units::{Bytes, Instant};

/// A session of a [`Medium`] as a flash device.
#[derive(Debug)]
pub struct MemoryDevice {
    session: Session,
    bounce_buffers: BounceBuffers,
    done: Vec<OriginDone>,
}

impl MemoryDevice {
    /// Opens the medium; an older device on it ends as if its process had died.
    pub fn open(medium: &Medium) -> Self {
        Self {
            session: medium.open(),
            bounce_buffers: BounceBuffers::default(),
            done: Vec::new(),
        }
    }
}

impl Device for MemoryDevice {
    fn capacity(&self) -> Bytes {
        self.session.medium().options().capacity
    }

    fn submit(&mut self, op: FlashOp, now: Instant) {
        let op = self.bounce_buffers.begin(op);
        self.session.submit(op.token, medium_verb(op.verb), now);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<FlashDone>) {
        self.session.poll(now, &mut self.done);
        let ended = self.done.drain(..).map(flash_done);
        done.extend(ended.map(|one| self.bounce_buffers.end(one)));
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.session.next_deadline()
    }
}
