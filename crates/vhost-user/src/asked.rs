//! What a connection keeps of a request that is at the disk.

use crate::memory::Memory;
use std::rc::Rc;
use vhost_protocol::{GuestAddress, Segments};

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// With data, into the guest's segments.
    Data,
    /// With success or failure.
    Word,
    /// With success or failure, but a flush comes first.
    WordAfterFlush,
}

/// A request at the disk. It keeps the memory that it names mapped.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) place: Place,
    pub(crate) memory: Rc<Memory>,
    /// Where a read's data goes; empty for others.
    pub(crate) data: Segments,
    pub(crate) answer: Answer,
}

/// Where a request's answer goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) queue: usize,
    pub(crate) head: u16,
    pub(crate) status: GuestAddress,
}
