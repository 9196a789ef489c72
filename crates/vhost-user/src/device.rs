//! The device as QEMU has set it up: features, memory, log, queues.

use crate::dirty::DirtyLog;
use crate::mapping::{Mapping, View};
use crate::memory::Memory;
use crate::quota::Quota;
use crate::tokens::Task;
use crate::vring::{RingError, Start, Vring};
use rustix::fs::{MemfdFlags, SealFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::Bytes;
use vhost_protocol::blk::Terms;
use vhost_protocol::limits::QUEUES_MAX;
use vhost_protocol::{ConfigSpace, Features, Inflight, ProtocolFeatures};

/// What a VM is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// What people call it.
    pub name: String,
    /// The serial number that the guest sees; cut to 20 bytes.
    pub serial: String,
    /// Its size; a multiple of its sector.
    pub size: Bytes,
    /// The smallest unit of address and length, in bytes: 512 or 4096.
    pub sector: u32,
    /// Refuse writes.
    pub read_only: bool,
    /// Whether discards do anything.
    pub can_discard: bool,
}

/// Memory that outlives us, for what is in flight.
#[derive(Debug)]
pub(crate) struct InflightFile {
    pub(crate) mapping: Rc<Mapping>,
    pub(crate) queues: u16,
    pub(crate) size: u16,
}

impl InflightFile {
    /// Bytes that it takes.
    pub(crate) fn bytes(queues: u16, size: u16) -> usize {
        usize::from(queues) * Inflight::<View>::stride(size)
    }

    /// A new one, for QEMU to keep.
    pub(crate) fn create(queues: u16, size: u16) -> io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("hearth-inflight", flags)?;
        rustix::fs::ftruncate(&file, Self::bytes(queues, size) as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        Ok(file)
    }

    fn view(&self, queue: usize) -> Option<View> {
        if queue >= usize::from(self.queues) {
            return None;
        }
        let stride = Inflight::<View>::stride(self.size);
        View::new(&self.mapping, queue * stride, stride, 8)
    }
}

/// What messages change.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) config: ConfigSpace,
    pub(crate) serial: String,
    pub(crate) features: Features,
    pub(crate) protocol: ProtocolFeatures,
    pub(crate) memory: Rc<Memory>,
    /// What may be mapped.
    pub(crate) quota: Quota,
    pub(crate) log: Option<Rc<DirtyLog>>,
    pub(crate) log_signal: Option<Rc<OwnedFd>>,
    /// Something was marked in the log since it was last signalled.
    pub(crate) has_marked: bool,
    pub(crate) inflight: Option<InflightFile>,
    pub(crate) channel: Option<OwnedFd>,
    /// QEMU is to be told that the disk's size may be another.
    pub(crate) to_announce: bool,
    pub(crate) has_announced: bool,
    pub(crate) vrings: Vec<Vring>,
    /// Queues that may have something, a bit each.
    pub(crate) pending: u64,
    /// Queues that were empty and whose guest was not asked to kick, a bit each.
    pub(crate) quiet: u64,
    /// Queues whose kicks may not be heard, a bit each.
    pub(crate) to_hear: u64,
    /// Queues whose guest is to be interrupted whatever is published, a bit each.
    pub(crate) to_wake: u64,
    /// Requests that were taken up and not reported yet.
    pub(crate) resumed: usize,
    /// Polls of descriptors that are gone.
    pub(crate) to_cancel: Vec<u64>,
}

const _: () = assert!(QUEUES_MAX as u32 <= u64::BITS, "a bit for each queue");

impl Device {
    /// # Panics
    /// If the disk's size is not a multiple of its sector, or that is not 512 or 4096.
    pub(crate) fn new(disk: &Disk) -> Self {
        assert!(
            matches!(disk.sector, 512 | 4096),
            "sectors have 512 or 4096 bytes"
        );
        assert!(
            disk.size.is_multiple_of(u64::from(disk.sector)),
            "a disk has whole sectors"
        );
        let terms = Terms {
            size: disk.size,
            sector: disk.sector,
            read_only: disk.read_only,
            can_discard: disk.can_discard,
        };
        Self {
            config: ConfigSpace {
                terms,
                queues: QUEUES_MAX,
                write_back: true,
            },
            serial: disk.serial.clone(),
            features: Features::NONE,
            protocol: ProtocolFeatures::NONE,
            memory: Rc::default(),
            quota: Quota::default(),
            log: None,
            log_signal: None,
            has_marked: false,
            inflight: None,
            channel: None,
            to_announce: false,
            has_announced: false,
            vrings: (0..QUEUES_MAX).map(|_| Vring::default()).collect(),
            pending: 0,
            quiet: 0,
            to_hear: 0,
            to_wake: 0,
            resumed: 0,
            to_cancel: Vec::new(),
        }
    }

    /// What the disk offers.
    pub(crate) fn offered(&self) -> Features {
        let terms = &self.config.terms;
        let changes = !terms.read_only;
        Features::OFFERED
            .with(Features::BLK_MQ)
            .with_if(terms.read_only, Features::BLK_RO)
            .with_if(changes, Features::BLK_WRITE_ZEROES)
            .with_if(changes && terms.can_discard, Features::BLK_DISCARD)
    }

    /// Whether every write has to be durable when it is answered.
    pub(crate) fn writes_through(&self) -> bool {
        !self.config.write_back || !self.features.has(Features::BLK_FLUSH)
    }

    /// The log, if what is written into buffers is marked.
    pub(crate) fn data_log(&self) -> Option<&Rc<DirtyLog>> {
        self.log
            .as_ref()
            .filter(|_| self.features.has(Features::LOG_ALL))
    }

    /// Whether memory of this device lost its file.
    pub(crate) fn is_lost(&self) -> bool {
        self.memory.is_lost()
            || self.log.as_ref().is_some_and(|log| log.is_lost())
            || self
                .inflight
                .as_ref()
                .is_some_and(|file| file.mapping.is_lost())
    }

    pub(crate) fn start(&mut self, queue: usize) -> Result<(), RingError> {
        let inflight = match &self.inflight {
            Some(file) => Some(file.view(queue).ok_or(RingError::Unset)?),
            None => None,
        };
        let start = Start {
            memory: &self.memory,
            log: self.log.as_ref(),
            by_index: self.features.has(Features::RING_EVENT_IDX),
            inflight,
        };
        let vring = &mut self.vrings[queue];
        self.resumed += vring.start(start)?;
        if !self.features.has(Features::PROTOCOL_FEATURES) {
            vring.is_enabled = true;
        }
        self.look_at(queue);
        Ok(())
    }

    /// A queue may have something: after it started, was enabled or was kicked.
    pub(crate) fn look_at(&mut self, queue: usize) {
        self.pending |= 1 << queue;
        self.to_hear |= 1 << queue;
    }

    /// The guest may have missed an interrupt: whoever served the disk before may have died after
    /// answering and before telling.
    pub(crate) fn wake(&mut self, queue: usize) {
        self.to_wake |= 1 << queue;
    }

    /// Stops a queue that has nothing in flight, and says how far it was read.
    pub(crate) fn stop(&mut self, queue: usize) -> u16 {
        self.forget_kick(queue);
        self.pending &= !(1 << queue);
        self.to_hear &= !(1 << queue);
        self.to_wake &= !(1 << queue);
        self.vrings[queue].stop()
    }

    /// A poll of the queue's present kick must not go on.
    pub(crate) fn forget_kick(&mut self, queue: usize) {
        let vring = &mut self.vrings[queue];
        if vring.kick.take().is_some_and(|kick| kick.is_heard) {
            let generation = vring.generation;
            self.to_cancel
                .push(Task::Kick { queue, generation }.token());
        }
        vring.generation = vring.generation.wrapping_add(1);
    }

    /// The rings' places are found anew after the memory changed.
    pub(crate) fn move_rings(&mut self) -> Result<(), RingError> {
        let mut result = Ok(());
        for vring in &mut self.vrings {
            let moved = vring.move_to(&self.memory, self.log.as_ref());
            result = result.and(moved);
        }
        result
    }

    pub(crate) fn set_log(&mut self, log: Option<Rc<DirtyLog>>) {
        self.log = log;
        for vring in &mut self.vrings {
            vring.set_log(self.log.as_ref());
        }
    }

    /// Everything as before the first message, but for what belongs to the connection.
    pub(crate) fn reset(&mut self) {
        for queue in 0..self.vrings.len() {
            self.stop(queue);
            self.vrings[queue].reset();
        }
        self.features = Features::NONE;
        self.set_log(None);
        self.inflight = None;
        self.config.write_back = true;
    }

    /// Whether every queue is idle.
    pub(crate) fn is_idle(&self) -> bool {
        self.vrings.iter().all(Vring::is_idle)
    }
}

/// Bits of a mask, lowest first, beginning with bit `first` and going round.
pub(crate) fn bits(mask: u64, first: usize) -> impl Iterator<Item = usize> {
    let rotated = mask.rotate_right(u32::try_from(first % 64).expect("a bit's number"));
    let mut left = rotated;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let bit = left.trailing_zeros() as usize;
        left &= left - 1;
        Some((bit + first) % 64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_round() {
        let of = |mask, first| bits(mask, first).collect::<Vec<usize>>();
        assert_eq!(of(0b1011, 0), [0, 1, 3]);
        assert_eq!(of(0b1011, 1), [1, 3, 0]);
        assert_eq!(of(1 << 63 | 1, 63), [63, 0]);
        assert!(of(0, 5).is_empty());
    }

    #[test]
    fn a_read_only_disk_offers_no_changes() {
        let disk = Disk {
            name: "d".to_owned(),
            serial: "s".to_owned(),
            size: Bytes::mib(1),
            sector: 512,
            read_only: true,
            can_discard: true,
        };
        let offered = Device::new(&disk).offered();
        assert!(offered.has(Features::BLK_RO));
        assert!(!offered.has(Features::BLK_DISCARD));
        assert!(!offered.has(Features::BLK_WRITE_ZEROES));
    }
}
