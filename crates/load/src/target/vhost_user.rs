//! A vhost-user-blk device, a queue for each job: what a guest's driver does, without a guest.
//!
//! ```text
//!   SharedMemory:  job 0: slot 0 │ slot 1 │ ..   job 1: slot 0 │ ..      payloads
//!   the driver's own memory: rings, headers, status bytes
//!
//!   submit ─► avail ring;  wait ─► kick if the device asks for it
//!                                  used ring ─► done, or sleep on the interrupt (by `ring`)
//! ```
//!
//! Requests are three descriptors each (header, data, status): the driver crate has no indirect
//! ones.

#![allow(
    unsafe_code,
    reason = "the driver takes the addresses of payloads that the device reads and writes"
)]

use super::memory::SharedMemory;
use super::{Address, Done, Geometry, Needs, Prepared, Request, Target, fill_with_noise};
use crate::LoadError;
use crate::limits::{
    CONNECT_TIME_MAX, DESCRIPTORS_A_REQUEST, ERASE_BYTES_MAX, QUEUE_SIZE_MAX, SILENCE_MAX,
};
use ring::{Op, Ring, Source, SourceId};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use units::Duration;
use virtio_driver::{
    EventFd, QueueNotifier, VhostUser, VirtioBlkFeatureFlags, VirtioBlkQueue, VirtioBlkTransport,
    VirtioFeatureFlags, virtio_blk_max_queues,
};

/// Bytes of a sector, whatever the device's blocks are.
const SECTOR: u64 = 512;
/// What the bytes of slots are multiples of.
const SLOT_ALIGNMENT: usize = 4096;
/// Entries of the job's ring: the poll of the interrupt.
const ENTRIES: u32 = 8;

/// The connection, which all queues share, and what the device sees through it.
struct Link {
    transport: Mutex<Box<VirtioBlkTransport>>,
    memory: SharedMemory,
}

/// A queue that can move to its job's thread.
pub(crate) struct Attached {
    queue: VirtioBlkQueue<'static, usize>,
    notifier: Box<dyn QueueNotifier>,
    interrupt: Arc<EventFd>,
    /// Where the job's slots begin.
    base: usize,
    // Last: the memory of rings and payloads outlives what points there.
    link: Arc<Link>,
}

fn slot_bytes(needs: &Needs) -> usize {
    needs.request_bytes.next_multiple_of(SLOT_ALIGNMENT)
}

/// Connects and sets up a queue for each job.
pub(super) fn open(
    address: &Address,
    socket: &Path,
    needs: &Needs,
) -> Result<(Geometry, Vec<Prepared>), LoadError> {
    let unreachable = |error: io::Error| address.unreachable(error);
    let Some(path) = socket.to_str() else {
        return Err(address.refused("its path is not text"));
    };
    let wanted = VirtioFeatureFlags::VERSION_1 | VirtioFeatureFlags::RING_EVENT_IDX;
    let blk = VirtioBlkFeatureFlags::RO
        | VirtioBlkFeatureFlags::BLK_SIZE
        | VirtioBlkFeatureFlags::FLUSH
        | VirtioBlkFeatureFlags::CONFIG_WCE
        | VirtioBlkFeatureFlags::MQ
        | VirtioBlkFeatureFlags::DISCARD
        | VirtioBlkFeatureFlags::WRITE_ZEROES;
    let features = wanted.bits() | blk.bits();
    let mut transport = connect(path, features, CONNECT_TIME_MAX).map_err(unreachable)?;
    let geometry = geometry(transport.as_ref()).map_err(unreachable)?;
    let queues = virtio_blk_max_queues(transport.as_ref()).map_err(unreachable)?;
    if queues < needs.jobs {
        let what = format!("the device has {queues} queues, one for each job");
        return Err(LoadError::unfit(
            what,
            format!("--numjobs {queues} or less"),
        ));
    }
    let slots = (needs.depth * DESCRIPTORS_A_REQUEST).next_power_of_two();
    let size = u16::try_from(slots.clamp(8, QUEUE_SIZE_MAX)).expect("the limit fits");
    let created = VirtioBlkQueue::setup_queues(transport.as_mut(), needs.jobs, size);
    let created = created.map_err(unreachable)?;
    let job_bytes = slot_bytes(needs) * needs.depth;
    let memory = SharedMemory::new(job_bytes * needs.jobs).map_err(no_memory)?;
    let (all, fd) = (memory.at(0, memory.len()).addr(), memory.file().as_raw_fd());
    let mapped = transport.map_mem_region(all, memory.len(), fd, 0);
    mapped.map_err(unreachable)?;
    if needs.writes {
        let mut noise = vec![0; slot_bytes(needs)];
        fill_with_noise(&mut noise);
        for slot in 0..needs.depth * needs.jobs {
            memory.write(slot * noise.len(), &noise);
        }
    }
    let ends: Vec<_> = (0..needs.jobs)
        .map(|job| {
            let notifier = transport.get_submission_notifier(job);
            (notifier, transport.get_completion_fd(job))
        })
        .collect();
    let link = Arc::new(Link {
        transport: Mutex::new(transport),
        memory,
    });
    let attached = created.into_iter().zip(ends).enumerate();
    let attached = attached.map(|(job, (queue, (notifier, interrupt)))| {
        Prepared::VhostUser(Attached {
            queue,
            notifier,
            interrupt,
            base: job * job_bytes,
            link: Arc::clone(&link),
        })
    });
    Ok((geometry, attached.collect()))
}

/// Connects and negotiates. The driver crate waits for answers without a limit, so it does that on
/// a thread of its own, which is left behind if none come.
fn connect(path: &str, features: u64, time: Duration) -> io::Result<Box<VirtioBlkTransport>> {
    let (sender, receiver) = channel();
    let path = path.to_owned();
    let thread = thread::Builder::new().name("bench-connect".to_owned());
    thread.spawn(move || {
        let device = VhostUser::new(&path, features);
        // Whoever has given up waiting does not want it any more.
        let _ = sender.send(device.map(|device| Box::new(device) as Box<VirtioBlkTransport>));
    })?;
    receiver.recv_timeout(time.to_std()).unwrap_or_else(|_| {
        let why = "it does not answer; another client may have it, and it serves one at a time";
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}

fn no_memory(source: io::Error) -> LoadError {
    LoadError::Machine {
        what: "memory for the requests' buffers",
        source,
    }
}

fn geometry(transport: &VirtioBlkTransport) -> io::Result<Geometry> {
    let config = transport.get_config()?;
    let features = VirtioBlkFeatureFlags::from_bits_truncate(transport.get_features());
    let unit = if features.contains(VirtioBlkFeatureFlags::BLK_SIZE) {
        u32::from(config.blk_size)
    } else {
        512
    };
    let sectors = u64::from(config.capacity);
    let size = sectors.checked_mul(SECTOR);
    let size = size.ok_or_else(|| io::Error::other("its size makes no sense"))?;
    let trims = features.contains(VirtioBlkFeatureFlags::DISCARD);
    let zeroes = features.contains(VirtioBlkFeatureFlags::WRITE_ZEROES);
    let limits = [
        (trims, config.max_discard_sectors),
        (zeroes, config.max_write_zeroes_sectors),
    ];
    let there = limits.into_iter().filter(|(is_there, _)| *is_there);
    let sectors = there.map(|(_, sectors)| u32::from(sectors)).min();
    // In units of 512 bytes, whatever the device's blocks are.
    let erase_max = sectors.map_or(0, |sectors| sectors.saturating_mul(512));
    let erase_max = erase_max.min(ERASE_BYTES_MAX);
    Ok(Geometry {
        size,
        unit: unit.max(512),
        request_max: u32::MAX,
        erase_max,
        depth_max: QUEUE_SIZE_MAX / DESCRIPTORS_A_REQUEST,
        read_only: features.contains(VirtioBlkFeatureFlags::RO),
        can_trim: trims,
        can_zero: zeroes,
        can_flush: features.contains(VirtioBlkFeatureFlags::FLUSH),
    })
}

/// A queue on a job's thread.
pub(super) struct VhostUserTarget {
    attached: Attached,
    slot_bytes: usize,
    ring: Ring,
    source: Source,
    ready: Vec<SourceId>,
    interrupt: Rc<OwnedFd>,
    /// Requests were put into the ring since the device was last told.
    is_kick_due: bool,
    /// Completed requests were taken in, or the server was asked whether it is there.
    last_sign: Instant,
    in_flight: usize,
}

impl VhostUserTarget {
    pub(super) fn new(attached: Attached, needs: &Needs) -> io::Result<Self> {
        let ring = Ring::sleeping(ENTRIES)?;
        let interrupt = attached.interrupt.as_fd().try_clone_to_owned()?;
        // As QEMU's is. A server that writes through a ring would take a detour around one that may
        // block: three turns of the kernel's instead of one.
        let flags = rustix::fs::fcntl_getfl(&interrupt)?;
        rustix::fs::fcntl_setfl(&interrupt, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Self {
            attached,
            slot_bytes: slot_bytes(needs),
            source: ring.source(),
            ring,
            ready: Vec::new(),
            interrupt: Rc::new(interrupt),
            is_kick_due: false,
            last_sign: Instant::now(),
            in_flight: 0,
        })
    }

    fn place(&self, slot: usize) -> usize {
        self.attached.base + slot * self.slot_bytes
    }

    fn drain(&mut self, done: &mut Vec<Done>) {
        let before = done.len();
        for completion in self.attached.queue.completions() {
            let result = match completion.ret {
                0 => Ok(()),
                errno => Err(io::Error::from_raw_os_error(-errno)),
            };
            done.push(Done {
                slot: completion.context,
                result,
            });
        }
        self.in_flight -= done.len() - before;
        if done.len() > before {
            self.last_sign = Instant::now();
        }
    }

    /// Sleeps until the device interrupts or the time is up.
    fn sleep(&mut self, timeout: Duration) -> io::Result<()> {
        if self.source.in_flight() == 0 {
            let fd = Rc::clone(&self.interrupt);
            self.source.submit(0, Op::PollIn { fd });
        }
        self.ring.submit_and_wait(Some(timeout))?;
        self.ring.take_ready(&mut self.ready);
        self.ready.clear();
        while let Some(completion) = self.source.pop() {
            completion.result?;
            self.attached.interrupt.read()?;
        }
        Ok(())
    }

    /// Fails if the server is gone: its rings would stay silent for ever.
    fn check_presence(&mut self) -> io::Result<()> {
        if self.in_flight == 0 || self.last_sign.elapsed() < SILENCE_MAX.to_std() {
            return Ok(());
        }
        self.last_sign = Instant::now();
        let transport = &self.attached.link.transport;
        let transport = transport.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = |error| {
            let why = format!("the server no longer answers ({error})");
            io::Error::new(io::ErrorKind::ConnectionReset, why)
        };
        transport.get_config().map(drop).map_err(gone)
    }
}

impl Target for VhostUserTarget {
    fn submit(&mut self, slot: usize, request: Request, data: Option<&[u8]>) -> io::Result<()> {
        let place = self.place(slot);
        if let Some(bytes) = data {
            self.attached.link.memory.write(place, bytes);
        }
        let memory = &self.attached.link.memory;
        let queue = &mut self.attached.queue;
        match request {
            Request::Read { offset, length } => {
                let length = length as usize;
                let into = memory.at(place, length);
                // SAFETY: the bytes lie in the memory that `link` keeps mapped, and belong to
                // this slot, which has no other request in flight.
                unsafe { queue.read_raw(offset, into, length, slot) }?;
            }
            Request::Write { offset, length } => {
                let length = length as usize;
                let from = memory.at(place, length);
                // SAFETY: as for reads.
                unsafe { queue.write_raw(offset, from, length, slot) }?;
            }
            Request::Trim { offset, length } => queue.discard(offset, u64::from(length), slot)?,
            Request::WriteZeroes { offset, length } => {
                queue.write_zeroes(offset, u64::from(length), false, slot)?;
            }
            Request::Flush { .. } => queue.flush(slot)?,
        }
        self.in_flight += 1;
        self.is_kick_due = true;
        Ok(())
    }

    fn wait(&mut self, timeout: Duration, done: &mut Vec<Done>) -> io::Result<()> {
        if self.is_kick_due {
            self.is_kick_due = false;
            // What the device asked for is looked at behind what it was given.
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            if self.attached.queue.avail_notif_needed() {
                self.attached.notifier.notify()?;
            }
        }
        let before = done.len();
        self.drain(done);
        if done.len() > before {
            return Ok(());
        }
        self.attached.queue.set_used_notif_enabled(true);
        if !self.attached.queue.completions().has_next() {
            self.sleep(timeout)?;
        }
        self.attached.queue.set_used_notif_enabled(false);
        self.drain(done);
        self.check_presence()
    }

    fn fetch(&mut self, slot: usize, into: &mut [u8]) {
        self.attached.link.memory.read(self.place(slot), into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_server_that_does_not_answer_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("busy.sock");
        // Connections wait in its queue, as they do while QEMU's server has another client.
        let _listener = UnixListener::bind(&path).unwrap();
        let connected = connect(path.to_str().unwrap(), 0, Duration::from_millis(20));
        let error = connected.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
