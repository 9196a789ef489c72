//! A guest of a vhost-user disk without a hypervisor: it says what QEMU says, in QEMU's order, and asks one thing at a
//! time. What it sees of its disk, waiting and the end of a daemon included, is what a guest sees.
//!
//! ```text
//!   memory   0 descriptors │ 4096 available │ 8192 used │ 12288 header, status │ 64 KiB data
//!
//!   connect ──► boot or goes_on_from ──► requests ──► begin_move ──► stop ──► resume
//! ```
//!
//! The memory is a file that the device maps. This side reads and writes it by system calls, so it needs no mapping.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::MemfdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use vhost_protocol::{
    Features, ProtocolFeatures, Region, Request, RingAddresses, RingDescriptor, encode,
};

use crate::session::{Outcome, Refused};
use crate::{limits, wait_until};

/// QEMU's own addresses begin here, so that nothing is taken for the guest's.
const USER: u64 = 0x7f00_0000_0000;
const AVAILABLE: u64 = 4096;
const USED: u64 = 8192;
const HEADER: u64 = 12288;
const STATUS: u64 = HEADER + 16;
const DATA: u64 = 64 << 10;
/// The longest request.
const DATA_MAX: u64 = 256 << 10;
const MEMORY: u64 = DATA + DATA_MAX;
/// Descriptors of the ring, three a request.
const SIZE: u16 = 8;
const QUEUES: u16 = 1;
/// A log of this many bytes has a bit for each page of the memory.
const LOG: u64 = 4096;
const SECTOR: u64 = 512;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;

/// What flags a descriptor has.
const NEXT: u16 = 1;
const WRITABLE: u16 = 2;

/// The memory of what is in flight, which outlives a connection.
struct Inflight {
    file: OwnedFd,
    bytes: u64,
}

/// A guest and its QEMU.
pub struct RingGuest {
    path: PathBuf,
    socket: UnixStream,
    /// The device's channel, which nobody listens to.
    channel: Option<UnixStream>,
    memory: File,
    kick: OwnedFd,
    call: OwnedFd,
    inflight: Option<Inflight>,
    /// How many requests the guest has made, and has seen answered.
    made: u16,
    seen: u16,
    do_rings_run: bool,
    is_logged: bool,
    patience: Duration,
}

/// What a message is answered with.
struct Reply {
    payload: Vec<u8>,
    file: Option<OwnedFd>,
}

impl Reply {
    fn number(&self, at: usize) -> anyhow::Result<u64> {
        let bytes = self.payload.get(at..at + 8).context("a number")?;
        Ok(u64::from_le_bytes(bytes.try_into()?))
    }
}

fn memory() -> anyhow::Result<File> {
    let file = rustix::fs::memfd_create("memory", MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, MEMORY)?;
    Ok(File::from(file))
}

fn bell() -> anyhow::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

impl RingGuest {
    /// A QEMU that has connected to the disk, and runs nothing: as one does that waits for a guest from elsewhere.
    ///
    /// # Errors
    ///
    /// When the daemon does not let it in.
    pub fn connect(path: &Path) -> anyhow::Result<Self> {
        let mut guest = Self {
            path: path.to_owned(),
            socket: UnixStream::connect(path).context("a vhost-user server")?,
            channel: None,
            memory: memory()?,
            kick: bell()?,
            call: bell()?,
            inflight: None,
            made: 0,
            seen: 0,
            do_rings_run: false,
            is_logged: false,
            patience: limits::SHORT,
        };
        guest.greet()?;
        Ok(guest)
    }

    /// How long it waits for an answer.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn greet(&mut self) -> anyhow::Result<()> {
        self.socket.set_read_timeout(Some(limits::SHORT))?;
        self.ask(&Request::GetFeatures, &[])?;
        self.ask(&Request::GetProtocolFeatures, &[])?;
        let protocol = Request::SetProtocolFeatures(ProtocolFeatures::OFFERED);
        self.say(&protocol, &[])?;
        self.ask(&Request::GetQueueCount, &[])?;
        self.ask(&Request::GetMemorySlots, &[])?;
        let (ours, theirs) = UnixStream::pair()?;
        self.say(&Request::SetBackendChannel, &[theirs.as_fd()])?;
        self.channel = Some(ours);
        self.say(&Request::SetOwner, &[])?;
        let config = Request::GetConfig {
            offset: 0,
            size: 60,
            flags: 0,
        };
        self.ask(&config, &[]).map(drop)
    }

    fn features(&self) -> Request {
        let offered = Features::OFFERED.without(Features::RING_EVENT_IDX);
        let features = offered.without(Features::LOG_ALL);
        Request::SetFeatures(features.with_if(self.is_logged, Features::LOG_ALL))
    }

    fn addresses(&self) -> Request {
        Request::SetRingAddresses(RingAddresses {
            ring: 0,
            is_logged: self.is_logged,
            descriptors: USER,
            used: USER + USED,
            available: USER + AVAILABLE,
            log: USED,
        })
    }

    fn log(&self) -> anyhow::Result<()> {
        let log = rustix::fs::memfd_create("log", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&log, LOG)?;
        let (size, offset) = (LOG, 0);
        let base = Request::SetLogBase { size, offset };
        self.ask(&base, &[log.as_fd()]).map(drop)
    }

    /// Starts the ring from request number `base` on. Whether it is served is seen by what becomes of its requests.
    fn start(&mut self, base: u16) -> anyhow::Result<()> {
        self.say(&self.features(), &[])?;
        let whole = Region {
            guest: 0,
            size: MEMORY,
            user: USER,
            offset: 0,
        };
        self.say(
            &Request::SetMemoryTable(vec![whole]),
            &[self.memory.as_fd()],
        )?;
        if self.inflight.is_none() {
            let ask = Request::GetInflight {
                queues: QUEUES,
                size: SIZE,
            };
            let reply = self.ask(&ask, &[])?;
            let bytes = reply.number(0)?;
            let file = reply.file.context("memory for what is in flight")?;
            self.inflight = Some(Inflight { file, bytes });
        }
        if let Some(Inflight { file, bytes }) = &self.inflight {
            let set = Request::SetInflight {
                bytes: *bytes,
                offset: 0,
                queues: QUEUES,
                size: SIZE,
            };
            self.say(&set, &[file.as_fd()])?;
        }
        let (ring, size, base) = (0, u32::from(SIZE), u32::from(base));
        self.say(&Request::SetRingSize { ring, size }, &[])?;
        self.say(&Request::SetRingBase { ring, base }, &[])?;
        self.say(&self.addresses(), &[])?;
        let ring = RingDescriptor {
            ring: 0,
            has_descriptor: true,
        };
        self.say(&Request::SetRingKick(ring), &[self.kick.as_fd()])?;
        self.say(&Request::SetRingCall(ring), &[self.call.as_fd()])?;
        self.enable(true)?;
        self.do_rings_run = true;
        Ok(())
    }

    fn enable(&self, enabled: bool) -> anyhow::Result<()> {
        self.say(&Request::EnableRing { ring: 0, enabled }, &[])
    }

    /// Boots: an empty ring is started.
    ///
    /// # Errors
    ///
    /// When the daemon has gone.
    pub fn boot(&mut self) -> anyhow::Result<()> {
        (self.made, self.seen) = (0, 0);
        self.memory.write_all_at(&vec![0; DATA.try_into()?], 0)?;
        self.start(0)
    }

    /// QEMU begins to send the guest elsewhere: the device notes what it writes to the guest's memory.
    ///
    /// # Errors
    ///
    /// When the daemon has gone.
    pub fn begin_move(&mut self) -> anyhow::Result<()> {
        self.is_logged = true;
        self.log()?;
        self.say(&self.features(), &[])?;
        self.say(&self.addresses(), &[])
    }

    /// The guest stops: its ring is stopped, and nothing of it is in flight.
    ///
    /// # Errors
    ///
    /// When the daemon does not say so.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.enable(false)?;
        let reply = self.ask(&Request::GetRingBase { ring: 0 }, &[])?;
        let base = reply
            .payload
            .get(4..6)
            .context("how far the ring was read")?;
        let base = u16::from_le_bytes(base.try_into()?);
        ensure!(
            base == self.seen,
            "the ring was read to {base}, and {} requests were answered",
            self.seen
        );
        self.do_rings_run = false;
        Ok(())
    }

    /// The guest goes on after it was stopped, as when its move is cancelled.
    ///
    /// # Errors
    ///
    /// When the daemon has gone.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.start(self.seen)?;
        if self.is_logged {
            self.log()?;
            self.is_logged = false;
            self.say(&self.features(), &[])?;
            self.say(&self.addresses(), &[])?;
        }
        Ok(())
    }

    /// A guest that was stopped elsewhere goes on here, with its memory.
    ///
    /// # Errors
    ///
    /// When the daemon has gone.
    pub fn goes_on_from(&mut self, source: &Self) -> anyhow::Result<()> {
        let mut bytes = vec![0; MEMORY.try_into()?];
        source.memory.read_exact_at(&mut bytes, 0)?;
        self.memory.write_all_at(&bytes, 0)?;
        (self.made, self.seen) = (source.made, source.seen);
        self.start(self.seen)
    }

    /// The daemon has gone: connects again when it is back, and goes on where the guest was, as QEMU does. A daemon that
    /// is about to start may hang up once more.
    fn connect_again(&mut self) -> anyhow::Result<()> {
        let path = self.path.clone();
        wait_until("the daemon to be back", limits::SHORT, || {
            let Ok(socket) = UnixStream::connect(&path) else {
                return Ok(false);
            };
            self.socket = socket;
            Ok(self.greet_again().is_ok())
        })
    }

    fn greet_again(&mut self) -> anyhow::Result<()> {
        self.greet()?;
        if self.do_rings_run {
            let used = self.used()?;
            self.start(used)?;
            // What is in the ring and not in flight.
            self.ring()?;
        }
        Ok(())
    }

    fn used(&self) -> anyhow::Result<u16> {
        let mut number = [0; 2];
        self.memory.read_exact_at(&mut number, USED + 2)?;
        Ok(u16::from_le_bytes(number))
    }

    fn ring(&self) -> anyhow::Result<()> {
        Ok(rustix::io::write(&self.kick, &1_u64.to_le_bytes()).map(drop)?)
    }

    /// Puts a request into the ring, and waits for its answer.
    fn request(&mut self, kind: u32, offset: u64, length: u64) -> anyhow::Result<Outcome<()>> {
        let mut header = [kind.to_le_bytes(), [0; 4]].concat();
        header.extend((offset / SECTOR).to_le_bytes());
        header.push(0xaa);
        self.memory.write_all_at(&header, HEADER)?;
        let data = if kind == READ { NEXT | WRITABLE } else { NEXT };
        let mut pieces = vec![(HEADER, 16, NEXT)];
        if length > 0 {
            pieces.push((DATA, u32::try_from(length)?, data));
        }
        pieces.push((STATUS, 1, WRITABLE));
        for (at, (address, bytes, flags)) in (0_u16..).zip(pieces) {
            let mut descriptor = Vec::with_capacity(16);
            descriptor.extend(address.to_le_bytes());
            descriptor.extend(bytes.to_le_bytes());
            descriptor.extend(flags.to_le_bytes());
            descriptor.extend((at + 1).to_le_bytes());
            self.memory.write_all_at(&descriptor, 16 * u64::from(at))?;
        }
        let place = AVAILABLE + 4 + 2 * u64::from(self.made % SIZE);
        self.memory.write_all_at(&[0; 2], place)?;
        self.made = self.made.wrapping_add(1);
        self.memory
            .write_all_at(&self.made.to_le_bytes(), AVAILABLE + 2)?;
        // A guest that was stopped, or whose connection has ended, has nobody to ring for: the answer does not come.
        self.ring()?;
        let began = Instant::now();
        while self.used()? != self.made {
            ensure!(
                began.elapsed() < self.patience,
                "no answer in {} s",
                self.patience.as_secs()
            );
            if self.wait_for_bell()? {
                self.connect_again()?;
            }
        }
        self.seen = self.made;
        let mut status = [0];
        self.memory.read_exact_at(&mut status, STATUS)?;
        Ok(match status[0] {
            0 => Ok(()),
            status => Err(Refused(u32::from(status))),
        })
    }

    /// Waits for a moment, or until the device interrupts. True: it has hung up.
    fn wait_for_bell(&self) -> anyhow::Result<bool> {
        let moment = rustix::time::Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        let mut watched = [
            PollFd::new(&self.call, PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::RDHUP),
        ];
        match poll(&mut watched, Some(&moment)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the device"),
        }
        let has_hung_up = watched[1]
            .revents()
            .intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR);
        // The bell may not have rung.
        let _ = rustix::io::read(&self.call, &mut [0; 8]);
        Ok(has_hung_up)
    }

    /// Reads.
    ///
    /// # Errors
    ///
    /// When no answer comes.
    pub fn try_read(&mut self, offset: u64, length: u64) -> anyhow::Result<Outcome<Vec<u8>>> {
        let mut bytes = vec![0; usize::try_from(length)?];
        let pieces = bytes.chunks_mut(usize::try_from(DATA_MAX)?);
        for (at, piece) in (0..).zip(pieces) {
            let from = offset + at * DATA_MAX;
            if let Err(refused) = self.request(READ, from, piece.len() as u64)? {
                return Ok(Err(refused));
            }
            self.memory.read_exact_at(piece, DATA)?;
        }
        Ok(Ok(bytes))
    }

    /// Writes.
    ///
    /// # Errors
    ///
    /// When no answer comes.
    pub fn try_write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<Outcome<()>> {
        let pieces = data.chunks(usize::try_from(DATA_MAX)?);
        for (at, piece) in (0..).zip(pieces) {
            self.memory.write_all_at(piece, DATA)?;
            let to = offset + at * DATA_MAX;
            if let Err(refused) = self.request(WRITE, to, piece.len() as u64)? {
                return Ok(Err(refused));
            }
        }
        Ok(Ok(()))
    }

    /// Flushes.
    ///
    /// # Errors
    ///
    /// When no answer comes.
    pub fn try_flush(&mut self) -> anyhow::Result<Outcome<()>> {
        self.request(FLUSH, 0, 0)
    }

    fn ask(&self, request: &Request, files: &[BorrowedFd<'_>]) -> anyhow::Result<Reply> {
        self.say(request, files)?;
        let mut header = [0; 12];
        let file = self.receive(&mut header)?;
        let word = |at: usize| -> anyhow::Result<u32> {
            Ok(u32::from_le_bytes(header[at..at + 4].try_into()?))
        };
        ensure!(word(4)? & 0b111 == 0b101, "version 1, a reply");
        let mut payload = vec![0; word(8)? as usize];
        let later = self.receive(&mut payload)?;
        let file = file.or(later);
        Ok(Reply { payload, file })
    }

    fn say(&self, request: &Request, files: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            ensure!(ancillary.push(SendAncillaryMessage::ScmRights(files)));
        }
        let bytes = encode(request, false);
        let pieces = [IoSlice::new(&bytes)];
        let sent = sendmsg(&self.socket, &pieces, &mut ancillary, SendFlags::NOSIGNAL);
        ensure!(sent.context("a message")? == bytes.len(), "a short message");
        Ok(())
    }

    fn receive(&self, into: &mut [u8]) -> anyhow::Result<Option<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let (mut got, mut file) = (0, None);
        while got < into.len() {
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut rest = [IoSliceMut::new(&mut into[got..])];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = recvmsg(&self.socket, &mut rest, &mut ancillary, flags);
            let count = received.context("a reply")?.bytes;
            ensure!(count > 0, "the daemon has hung up");
            got += count;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(mut files) = message {
                    file = file.or(files.next());
                }
            }
        }
        Ok(file)
    }
}
