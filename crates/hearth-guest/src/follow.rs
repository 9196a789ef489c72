//! Reading ahead, by file, what the host expects to be read.
//!
//! A range of a disk is read as a part of the file that it belongs to, so that it lands where the file's readers look: reading the
//! device would fill the device's own cache. What belongs to no file that matters is left out.

use crate::preload::{FileSystems, open};
use guest_files::{Followed, Handle, Outcome, Part, Places};
use guest_protocol::{ByteRange, Serial, Used};
use rustix::fs::{Advice, fadvise};
use std::num::NonZeroU64;

/// Of the available memory, what may be read ahead in an epoch.
const MEMORY_PART: u64 = 16;

/// What the agent follows.
#[derive(Default)]
pub(crate) struct Follow {
    places: Places<Serial>,
    followed: Followed,
    /// Bytes that may be read ahead until the epoch ends.
    left_bytes: u64,
    /// Bytes that were read ahead since the start.
    bytes: u64,
}

impl Follow {
    /// Files are there from now on.
    pub(crate) fn set_places(&mut self, places: Places<Serial>) {
        self.places = places;
    }

    /// The host expects these ranges to be read.
    pub(crate) fn read(&mut self, file_systems: &FileSystems, asked: &[(Serial, ByteRange)]) {
        for (serial, range) in asked {
            let start = range.offset().get();
            let parts = self
                .places
                .parts(*serial, start..start + range.length().get());
            for part in parts {
                self.read_part(file_systems, &part);
            }
        }
    }

    fn read_part(&mut self, file_systems: &FileSystems, part: &Part) {
        let length = part.length.min(self.left_bytes);
        let Some(bytes) = NonZeroU64::new(length) else {
            return;
        };
        let Ok(file) = open(file_systems, &part.handle) else {
            return;
        };
        if fadvise(&file, part.offset, Some(bytes), Advice::WillNeed).is_ok() {
            self.left_bytes -= length;
            self.bytes += length;
            self.followed.read(&part.handle, length);
        }
    }

    /// A file was used by others.
    pub(crate) fn used(&mut self, handle: &Handle) {
        self.followed.used(handle);
    }

    /// An epoch ends, with so much memory available: what to say of those before it.
    pub(crate) fn end_epoch(&mut self, available_bytes: u64) -> Used {
        self.left_bytes = available_bytes / MEMORY_PART;
        let Outcome {
            used_bytes,
            of_bytes,
        } = self.followed.end_epoch();
        Used {
            read_bytes: used_bytes,
            of_bytes,
        }
    }

    /// Bytes that were read ahead since the start.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
