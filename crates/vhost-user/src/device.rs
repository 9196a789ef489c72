//! The device as QEMU has set it up: features, memory, log, queues.

mod messages;

use crate::bell::Signals;
use crate::dirty::DirtyLog;
use crate::mapping::{Mapping, View};
use crate::memory::Memory;
use crate::queues::Queues;
use crate::quota::Quota;
use crate::vring::{RingError, Start};
use rustix::fs::{MemfdFlags, SealFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::Bytes;
use vhost_protocol::blk::Terms;
use vhost_protocol::limits::QUEUES_MAX;
use vhost_protocol::{
    ConfigSpace, Features, GuestAddress, Header, Inflight, ProtocolFeatures, Segment,
};

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
struct InflightFile {
    mapping: Rc<Mapping>,
    queues: u16,
    size: u16,
}

impl InflightFile {
    /// Bytes that it takes.
    fn bytes(queues: u16, size: u16) -> usize {
        usize::from(queues) * Inflight::<View>::stride(size)
    }

    /// A new one, for QEMU to keep.
    fn create(queues: u16, size: u16) -> io::Result<OwnedFd> {
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
    config: ConfigSpace,
    serial: String,
    features: Features,
    protocol: ProtocolFeatures,
    memory: Rc<Memory>,
    /// What may be mapped.
    quota: Quota,
    log: Option<Rc<DirtyLog>>,
    log_signal: Option<Rc<OwnedFd>>,
    /// Something was marked in the log since it was last signalled.
    has_marked: bool,
    inflight: Option<InflightFile>,
    channel: Option<OwnedFd>,
    /// QEMU is to be told that the disk's size may be another.
    to_announce: bool,
    has_announced: bool,
    queues: Queues,
    /// Requests that were taken up and not reported yet.
    resumed: usize,
}

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
            queues: Queues::default(),
            resumed: 0,
        }
    }

    /// What the disk offers.
    fn offered(&self) -> Features {
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

    /// What may be mapped.
    pub(crate) fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
    }

    /// What the disk is like for its guest.
    pub(crate) fn terms(&self) -> &Terms {
        &self.config.terms
    }

    pub(crate) fn serial(&self) -> &str {
        &self.serial
    }

    /// The guest's memory.
    pub(crate) fn memory(&self) -> &Rc<Memory> {
        &self.memory
    }

    /// The disk has another size.
    pub(crate) fn resize(&mut self, size: Bytes) {
        self.config.resize(size);
    }

    /// Whether a chain may lie in a table of its own.
    pub(crate) fn may_be_indirect(&self) -> bool {
        self.features.has(Features::RING_INDIRECT_DESC)
    }

    /// Whether a message is answered that asks for an acknowledgement only.
    pub(crate) fn acknowledges(&self, header: &Header) -> bool {
        header.wants_acknowledgement && self.protocol.has(ProtocolFeatures::REPLY_ACK)
    }

    /// Where QEMU is told what it did not ask.
    pub(crate) fn channel(&self) -> Option<&OwnedFd> {
        self.channel.as_ref()
    }

    /// Whether QEMU is to be told that the disk's size may be another: once for each connection.
    pub(crate) fn take_announcement(&mut self) -> bool {
        std::mem::take(&mut self.to_announce)
    }

    /// Requests that were taken up since this was asked last.
    pub(crate) fn take_resumed(&mut self) -> usize {
        std::mem::take(&mut self.resumed)
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    pub(crate) fn queues_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }

    /// Tells QEMU of what was marked in the log since the last call.
    pub(crate) fn signal_log(&mut self, signals: &Signals) {
        if std::mem::take(&mut self.has_marked)
            && let Some(fd) = &self.log_signal
        {
            signals.signal(fd);
        }
    }

    /// Marks what was written into a buffer, while that is asked for.
    pub(crate) fn mark(&mut self, at: GuestAddress, length: u64) {
        if let Some(log) = self.data_log() {
            log.mark(at, length);
            self.has_marked = true;
        }
    }

    /// The same of several.
    pub(crate) fn mark_all(&mut self, segments: &[Segment]) {
        if let Some(log) = self.data_log() {
            log.mark_all(segments);
            self.has_marked = true;
        }
    }

    /// The log, if what is written into buffers is marked.
    fn data_log(&self) -> Option<&Rc<DirtyLog>> {
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

    fn start(&mut self, queue: usize) -> Result<(), RingError> {
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
        let vring = self.queues.vring_mut(queue);
        self.resumed += vring.start(start)?;
        if !self.features.has(Features::PROTOCOL_FEATURES) {
            vring.set_enabled(true);
        }
        self.queues.look_at(queue);
        Ok(())
    }

    /// The rings' places are found anew after the memory changed.
    fn move_rings(&mut self) -> Result<(), RingError> {
        let mut result = Ok(());
        for vring in self.queues.all_mut() {
            let moved = vring.move_to(&self.memory, self.log.as_ref());
            result = result.and(moved);
        }
        result
    }

    fn set_log(&mut self, log: Option<Rc<DirtyLog>>) {
        self.log = log;
        for vring in self.queues.all_mut() {
            vring.set_log(self.log.as_ref());
        }
    }

    /// Everything as before the first message, but for what belongs to the connection.
    pub(crate) fn reset(&mut self) {
        for queue in 0..self.queues.all().len() {
            self.queues.stop(queue);
            self.queues.vring_mut(queue).reset();
        }
        self.features = Features::NONE;
        self.set_log(None);
        self.inflight = None;
        self.config.write_back = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
