//! A whole device between a QEMU and a guest that do anything at all.
//!
//! The device is set up as every QEMU does it, with one queue that runs. Then a script:
//!
//! ```text
//!  tag: bits 0-1 what, bits 4-7 descriptors beside a message
//!   0 say       │ length u8 │ bytes            a message, or what looks like one
//!   1 scribble  │ at u16 │ length u8 │ bytes   into the guest's memory
//!   2 kick
//!   3 answer    the oldest request
//! ```

use block_io::{BufPool, Payload};
use frontend::limits::ConnectionLimits;
use frontend::{Incoming, Verb};
use ring::Ring;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::MemfdFlags;
use rustix::io::IoSlice;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use smallvec::smallvec;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use units::{Bytes, Duration};
use vhost_protocol::{
    Features, ProtocolFeatures, Region, Request, RingAddresses, RingDescriptor, encode,
};
use vhost_user::{Connection, Disk};

const RAM_BYTES: u64 = 0x1_0000;
const USER: u64 = 0x7000_0000_0000;
const QUEUE_SIZE: u32 = 16;
const AVAILABLE: u64 = 0x100;
const USED: u64 = 0x200;
const DISK_BYTES: Bytes = Bytes::mib(1);

thread_local! {
    /// Making one for each run would take longer than the run.
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

struct Rig {
    ring: Ring,
    pool: BufPool,
    ram: File,
    kick: OwnedFd,
    socket: UnixStream,
    connection: Connection,
    incoming: Vec<Incoming>,
    open: VecDeque<Incoming>,
}

pub(crate) fn run(bytes: &[u8]) {
    let ring = RING.with_borrow_mut(|ring| {
        ring.get_or_insert_with(|| Ring::new(32).expect("a ring"))
            .clone()
    });
    let mut rig = Rig::new(ring);
    let mut script = bytes.iter().copied();
    while let Some(tag) = script.next() {
        match tag & 3 {
            0 => {
                let length = script.next().unwrap_or(0);
                let said: Vec<u8> = script.by_ref().take(usize::from(length)).collect();
                rig.say(&said, usize::from(tag >> 4));
            }
            1 => {
                let at = [script.next().unwrap_or(0), script.next().unwrap_or(0)];
                let length = script.next().unwrap_or(0);
                let drawn: Vec<u8> = script.by_ref().take(usize::from(length)).collect();
                rig.scribble(u64::from(u16::from_le_bytes(at)), &drawn);
            }
            2 => rig.kick(),
            _ => rig.answer(),
        }
        rig.turn();
    }
    rig.end();
}

impl Rig {
    fn new(ring: Ring) -> Self {
        let ram = rustix::fs::memfd_create("ram", MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&ram, RAM_BYTES).expect("memory");
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let kick = eventfd(0, flags).expect("an eventfd");
        let (socket, theirs) = UnixStream::pair().expect("a pair of sockets");
        socket.set_nonblocking(true).expect("a socket");
        let disk = Disk {
            name: "hostile".to_owned(),
            serial: "serial".to_owned(),
            size: DISK_BYTES,
            sector: 512,
            read_only: false,
            can_discard: true,
        };
        let pool = BufPool::new();
        let limits = ConnectionLimits::default();
        let connection = Connection::new(theirs.into(), &disk, &ring, &pool, limits);
        let mut rig = Self {
            ring,
            pool,
            ram: ram.into(),
            kick,
            socket,
            connection,
            incoming: Vec::new(),
            open: VecDeque::new(),
        };
        rig.set_up();
        rig
    }

    fn set_up(&mut self) {
        let ring = RingDescriptor {
            ring: 0,
            has_descriptor: true,
        };
        let features = Features::OFFERED.with(Features::BLK_MQ);
        let region = Region {
            guest: 0,
            size: RAM_BYTES,
            user: USER,
            offset: 0,
        };
        let addresses = RingAddresses {
            ring: 0,
            is_logged: true,
            descriptors: USER,
            used: USER + USED,
            available: USER + AVAILABLE,
            log: USED,
        };
        let log = Request::SetLogBase {
            size: 2,
            offset: 0x8000,
        };
        let size = Request::SetRingSize {
            ring: 0,
            size: QUEUE_SIZE,
        };
        let enable = Request::EnableRing {
            ring: 0,
            enabled: true,
        };
        for (request, files) in [
            (Request::SetFeatures(features), 0),
            (Request::SetProtocolFeatures(ProtocolFeatures::OFFERED), 0),
            (Request::SetMemoryTable(vec![region]), 1),
            (log, 1),
            (size, 0),
            (Request::SetRingAddresses(addresses), 0),
            (Request::SetRingCall(ring), 2),
            (Request::SetRingKick(ring), 2),
            (enable, 0),
        ] {
            let bytes = encode(&request, false);
            let memory = self.ram.as_fd().try_clone_to_owned().expect("a descriptor");
            let event = self
                .kick
                .as_fd()
                .try_clone_to_owned()
                .expect("a descriptor");
            match files {
                0 => self.send(&bytes, &[]),
                1 => self.send(&bytes, &[memory.as_fd()]),
                _ => self.send(&bytes, &[event.as_fd()]),
            }
        }
        self.turn();
        assert!(!self.connection.is_finished(), "this is what QEMU says");
    }

    fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // A device that has hung up hears nothing more.
        let _gone = sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut ancillary, flags);
    }

    fn say(&self, bytes: &[u8], files: usize) {
        let memory = self.ram.as_fd();
        let event = self.kick.as_fd();
        let files: Vec<BorrowedFd<'_>> = (0..files)
            .map(|at| if at % 2 == 0 { memory } else { event })
            .collect();
        self.send(bytes, &files);
    }

    fn scribble(&self, at: u64, bytes: &[u8]) {
        let room = usize::try_from(RAM_BYTES - at).expect("memory is small");
        let bytes = &bytes[..bytes.len().min(room)];
        self.ram.write_all_at(bytes, at).expect("memory");
    }

    fn kick(&self) {
        // Full if nobody listens any more.
        let _full = rustix::io::write(&self.kick, &1_u64.to_le_bytes());
    }

    fn turn(&mut self) {
        let mut ready = Vec::new();
        for _ in 0..2 {
            self.connection.poll(&mut self.incoming);
            let waited = self.ring.submit_and_wait(Some(Duration::ZERO));
            waited.expect("a sound ring");
            self.ring.take_ready(&mut ready);
            ready.clear();
        }
        for one in self.incoming.drain(..) {
            judge(&one.verb);
            self.open.push_back(one);
        }
        // Nobody reads what the device says; it is not to be taken for deaf.
        let mut said = [0; 4096];
        let _nothing = self.socket.read(&mut said);
    }

    fn answer(&mut self) {
        let Some(one) = self.open.pop_front() else {
            return;
        };
        let result = match one.verb {
            Verb::Read { length, .. } => {
                let data = self.pool.take_zeroed(length.to_usize()).freeze();
                Ok(smallvec![data.slice(0..length.to_usize())])
            }
            _ => Ok(Payload::new()),
        };
        if let Some(more) = self.connection.reply(one.key, result) {
            self.open.push_back(more);
        }
    }

    /// Everything that was asked can be answered, and then nothing is left.
    fn end(mut self) {
        self.connection.close();
        while !self.open.is_empty() {
            self.answer();
            self.turn();
        }
        assert_eq!(self.connection.in_flight(), 0);
        drop(self.connection);
        drop(self.socket);
        for _ in 0..100 {
            if self.ring.in_flight() == 0 {
                return;
            }
            let waited = self.ring.submit_and_wait(Some(Duration::from_millis(10)));
            waited.expect("a sound ring");
        }
        panic!("a device that is gone still has something in flight");
    }
}

fn judge(verb: &Verb) {
    let (offset, length) = match verb {
        Verb::Read { offset, length }
        | Verb::Discard { offset, length }
        | Verb::WriteZeroes { offset, length, .. }
        | Verb::Prefetch { offset, length } => (*offset, *length),
        Verb::Write { offset, data, .. } => (*offset, Bytes::new(data.len() as u64)),
        Verb::Flush => return,
    };
    assert!(!length.is_zero());
    assert!(
        offset
            .checked_add(length)
            .is_some_and(|end| end.from_start() <= DISK_BYTES)
    );
}
