//! What QEMU's messages do to its device.

use super::{Device, InflightFile};
use crate::answer::{Answer, Wait};
use crate::bell::{self, NotAnEventfd};
use crate::dirty::DirtyLog;
use crate::mapping::{MapError, map};
use crate::memory::{Memory, RegionError};
use crate::vring::RingError;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use vhost_protocol::limits::{QUEUE_SIZE_MAX, QUEUES_MAX, REGIONS_MAX};
use vhost_protocol::{Features, Header, ProtocolFeatures, Region, Request, RingDescriptor, reply};

/// Why a message was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("there is no queue {0}")]
    NoQueue(u32),
    #[error("features {0:?} were not offered")]
    Features(Features),
    #[error("protocol features {0:?} were not offered")]
    ProtocolFeatures(ProtocolFeatures),
    #[error("a message came with {0} descriptors")]
    Descriptors(usize),
    #[error("queue {queue}")]
    Ring {
        queue: usize,
        #[source]
        error: RingError,
    },
    #[error("polling instead of kicks is not offered")]
    NoKick,
    #[error(transparent)]
    NotAnEventfd(#[from] NotAnEventfd),
    #[error("a region of guest memory")]
    Region(#[from] RegionError),
    #[error("a place of a ring after the memory changed")]
    Moved(#[source] RingError),
    #[error("shared memory")]
    Map(#[from] MapError),
    #[error("memory for requests in flight: {queues} queues of {size}")]
    Inflight { queues: u16, size: u16 },
    #[error("requests are in flight, or can be")]
    Busy,
    #[error("memory for requests in flight cannot be made")]
    NoMemory(#[source] io::Error),
}

impl Device {
    /// Does what a message says.
    pub(crate) fn handle(
        &mut self,
        to: &Header,
        request: Request,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Answer, Refusal> {
        if !request.descriptors().allow(descriptors.len()) {
            return Err(Refusal::Descriptors(descriptors.len()));
        }
        match request {
            Request::GetFeatures => Ok(Answer::Number(self.offered().bits())),
            Request::GetProtocolFeatures => Ok(Answer::Number(ProtocolFeatures::OFFERED.bits())),
            Request::GetQueueCount => Ok(Answer::Number(u64::from(QUEUES_MAX))),
            Request::GetMemorySlots => Ok(Answer::Number(REGIONS_MAX as u64)),
            Request::GetConfig {
                offset,
                size,
                flags,
            } => {
                let bytes = self.config.read(offset, size);
                let reply = reply::config(to, offset, flags, &bytes);
                Ok(Answer::Bytes(reply, None))
            }
            Request::GetInflight { queues, size } => make_inflight(to, queues, size),
            Request::GetRingBase { ring } => {
                let queue = self.queue(ring)?;
                self.queues.vring_mut(queue).stop_taking();
                Ok(Answer::Later(Wait::Queue(queue)))
            }
            Request::ResetDevice => {
                for vring in self.queues.all_mut() {
                    vring.stop_taking();
                }
                Ok(Answer::Later(Wait::Reset))
            }
            other => self.set(other, descriptors),
        }
    }

    /// Messages that change something and are answered, if at all, with an acknowledgement.
    fn set(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> Result<Answer, Refusal> {
        let mut descriptors = descriptors.into_iter();
        match request {
            Request::SetFeatures(features) => self.set_features(features)?,
            Request::SetProtocolFeatures(features) => {
                let unknown = features.without(ProtocolFeatures::OFFERED);
                if unknown != ProtocolFeatures::NONE {
                    return Err(Refusal::ProtocolFeatures(unknown));
                }
                self.protocol = features;
            }
            Request::SetConfig { offset, bytes } => self.config.write(offset, &bytes),
            Request::SetBackendChannel => self.channel = descriptors.next(),
            Request::SetMemoryTable(regions) => {
                let mut memory = Memory::default();
                for (region, file) in regions.into_iter().zip(descriptors) {
                    memory.add(region, &file, &self.quota)?;
                }
                self.change_memory(memory)?;
            }
            Request::AddRegion(region) => {
                let mut memory = Memory::clone(&self.memory);
                let file = descriptors.next().ok_or(Refusal::Descriptors(0))?;
                memory.add(region, &file, &self.quota)?;
                self.change_memory(memory)?;
            }
            Request::RemoveRegion(region) => self.remove_region(&region)?,
            Request::SetLogBase { size, offset } => {
                let file = descriptors.next().ok_or(Refusal::Descriptors(0))?;
                let log = DirtyLog::new(&file, offset, size, &self.quota)?;
                self.set_log(Some(Rc::new(log)));
                // This one message is answered whatever was asked.
                return Ok(Answer::Number(0));
            }
            Request::SetLogDescriptor => {
                let fd = descriptors.next().ok_or(Refusal::Descriptors(0))?;
                self.log_signal = Some(bell::eventfd(fd)?);
            }
            Request::SetInflight {
                bytes,
                offset,
                queues,
                size,
            } => {
                let file = descriptors.next().ok_or(Refusal::Descriptors(0))?;
                self.set_inflight(&file, bytes, offset, queues, size)?;
            }
            // A session has no state of its own; the old way to end one is not to be relied on.
            Request::SetOwner | Request::ResetOwner => {}
            ring => self.set_ring(ring, descriptors.next())?,
        }
        Ok(Answer::Done)
    }

    fn set_features(&mut self, features: Features) -> Result<(), Refusal> {
        let unknown = features.without(self.offered());
        if unknown != Features::NONE {
            return Err(Refusal::Features(unknown));
        }
        let logged = self.features.has(Features::LOG_ALL);
        self.features = features;
        if logged && !features.has(Features::LOG_ALL) {
            self.set_log(None);
        }
        Ok(())
    }

    fn change_memory(&mut self, memory: Memory) -> Result<(), Refusal> {
        self.memory = Rc::new(memory);
        self.move_rings().map_err(Refusal::Moved)
    }

    fn remove_region(&mut self, region: &Region) -> Result<(), Refusal> {
        let mut memory = Memory::clone(&self.memory);
        memory.remove(region)?;
        self.change_memory(memory)
    }

    fn set_inflight(
        &mut self,
        file: &OwnedFd,
        bytes: u64,
        offset: u64,
        queues: u16,
        size: u16,
    ) -> Result<(), Refusal> {
        if self.queues.running() > 0 {
            return Err(Refusal::Busy);
        }
        check_inflight(queues, size)?;
        let needed = InflightFile::bytes(queues, size) as u64;
        if bytes < needed {
            return Err(Refusal::Inflight { queues, size });
        }
        let mapping = map(file, offset, needed, &self.quota)?;
        self.inflight = Some(InflightFile {
            mapping,
            queues,
            size,
        });
        Ok(())
    }

    /// What concerns one queue.
    fn set_ring(&mut self, request: Request, descriptor: Option<OwnedFd>) -> Result<(), Refusal> {
        let in_queue = |queue| move |error| Refusal::Ring { queue, error };
        match request {
            Request::SetRingSize { ring, size } => {
                let queue = self.queue(ring)?;
                self.queues
                    .vring_mut(queue)
                    .set_size(size)
                    .map_err(in_queue(queue))
            }
            Request::SetRingBase { ring, base } => {
                let queue = self.queue(ring)?;
                self.queues
                    .vring_mut(queue)
                    .set_base(base)
                    .map_err(in_queue(queue))
            }
            Request::SetRingAddresses(addresses) => {
                let queue = self.queue(addresses.ring)?;
                let log = self.log.as_ref();
                self.queues
                    .vring_mut(queue)
                    .set_addresses(addresses, log)
                    .map_err(in_queue(queue))
            }
            Request::EnableRing { ring, enabled } => {
                let queue = self.queue(ring)?;
                self.queues.vring_mut(queue).set_enabled(enabled);
                if enabled {
                    self.to_announce |= !std::mem::replace(&mut self.has_announced, true);
                    self.queues.look_at(queue);
                    self.queues.wake(queue);
                }
                Ok(())
            }
            Request::SetRingKick(RingDescriptor { ring, .. }) => {
                let queue = self.queue(u32::from(ring))?;
                let fd = bell::eventfd(descriptor.ok_or(Refusal::NoKick)?)?;
                self.queues.forget_kick(queue);
                if !self.queues.vring(queue).is_running() {
                    self.start(queue).map_err(in_queue(queue))?;
                }
                self.queues.vring_mut(queue).kick_mut().set(fd);
                self.queues.look_at(queue);
                Ok(())
            }
            Request::SetRingCall(RingDescriptor { ring, .. }) => {
                let queue = self.queue(u32::from(ring))?;
                let fd = descriptor.map(bell::eventfd).transpose()?;
                self.queues.vring_mut(queue).set_interrupt(fd);
                self.queues.wake(queue);
                Ok(())
            }
            Request::SetRingError(RingDescriptor { ring, .. }) => {
                let queue = self.queue(u32::from(ring))?;
                let fd = descriptor.map(bell::eventfd).transpose()?;
                self.queues.vring_mut(queue).set_error(fd);
                Ok(())
            }
            other => unreachable!("{other:?} concerns no queue and was handled before"),
        }
    }

    fn queue(&self, ring: u32) -> Result<usize, Refusal> {
        usize::try_from(ring)
            .ok()
            .filter(|queue| *queue < self.queues.all().len())
            .ok_or(Refusal::NoQueue(ring))
    }
}

fn check_inflight(queues: u16, size: u16) -> Result<(), Refusal> {
    let fits = (1..=QUEUES_MAX).contains(&queues) && (1..=QUEUE_SIZE_MAX).contains(&size);
    if fits {
        Ok(())
    } else {
        Err(Refusal::Inflight { queues, size })
    }
}

fn make_inflight(to: &Header, queues: u16, size: u16) -> Result<Answer, Refusal> {
    check_inflight(queues, size)?;
    let file = InflightFile::create(queues, size).map_err(Refusal::NoMemory)?;
    let bytes = InflightFile::bytes(queues, size) as u64;
    let reply = reply::inflight(to, bytes, queues, size);
    Ok(Answer::Bytes(reply, Some(file)))
}
