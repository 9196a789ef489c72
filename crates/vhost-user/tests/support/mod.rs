//! A device, its guest and its QEMU in one thread: every step is the test's own.
//!
//! ```text
//!  test ── Front ── socket ──┐
//!   │ └─── Queue ── Ram ─────┴─► Connection ─► taken: what the disk is asked
//!   └─────────── reply() ──────────►┘
//! ```

#![allow(dead_code, reason = "each test file uses what it needs")]

pub(crate) mod driver;
pub(crate) mod front;
pub(crate) mod ram;

use block_io::{BufPool, IoError, Payload};
use driver::{Queue, Style};
use front::{Front, Reply, start_messages, whole};
use frontend::limits::ConnectionLimits;
use frontend::{Incoming, RequestKey};
use ram::Ram;
use ring::Ring;
use smallvec::smallvec;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use units::{Bytes, Duration};
use vhost_protocol::{Features, ProtocolFeatures, Request};
use vhost_user::{Connection, Disk};

/// Memory of a test's guest, in bytes.
pub(crate) const RAM_BYTES: usize = 4 << 20;
/// Where a test's data may lie: beyond the rings.
pub(crate) const DATA: u64 = 1 << 20;
/// Turns until something that must happen has happened.
const TURNS: usize = 200;

pub(crate) fn disk() -> Disk {
    Disk {
        name: "test".to_owned(),
        serial: "serial-17".to_owned(),
        size: Bytes::mib(16),
        sector: 512,
        read_only: false,
        can_discard: true,
    }
}

pub(crate) struct Rig {
    pub(crate) ring: Ring,
    pub(crate) pool: BufPool,
    pub(crate) ram: Arc<Ram>,
    pub(crate) front: Front,
    pub(crate) connection: Option<Connection>,
    pub(crate) taken: Vec<Incoming>,
    disk: Disk,
    limits: ConnectionLimits,
}

impl Rig {
    pub(crate) fn new(disk: &Disk) -> Self {
        Self::with_limits(disk, ConnectionLimits::default())
    }

    pub(crate) fn with_limits(disk: &Disk, limits: ConnectionLimits) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ring = Ring::new(64).unwrap();
        let pool = BufPool::new();
        let connection = Connection::new(theirs.into(), disk, &ring, &pool, limits);
        Self {
            ring,
            pool,
            ram: Arc::new(Ram::new(RAM_BYTES)),
            front: Front { socket: ours },
            connection: Some(connection),
            taken: Vec::new(),
            disk: disk.clone(),
            limits,
        }
    }

    /// Features and memory, as every QEMU sets them, with these features left out.
    pub(crate) fn negotiated(disk: &Disk, without: Features) -> Self {
        let mut rig = Self::new(disk);
        rig.negotiate(without);
        rig.give_memory();
        rig
    }

    /// One queue that runs.
    pub(crate) fn started(disk: &Disk, style: Style) -> (Self, Queue) {
        let event = Features::RING_EVENT_IDX;
        let without = if style.by_index {
            Features::NONE
        } else {
            event
        };
        let mut rig = Self::negotiated(disk, without.with(Features::LOG_ALL));
        let queue = rig.start_queue(0, style);
        (rig, queue)
    }

    pub(crate) fn negotiate(&mut self, without: Features) {
        let offered = self.ask(&Request::GetFeatures, &[]).number();
        let features = Features::from_bits(offered).without(without);
        self.tell(&Request::SetFeatures(features), &[]);
        let offered = self.ask(&Request::GetProtocolFeatures, &[]).number();
        let features = ProtocolFeatures::from_bits(offered);
        self.tell(&Request::SetProtocolFeatures(features), &[]);
    }

    pub(crate) fn give_memory(&mut self) {
        let file = self.ram.file();
        let table = Request::SetMemoryTable(vec![whole(self.ram.len())]);
        assert_eq!(self.acknowledged(&table, &[file.as_fd()]), 0);
    }

    pub(crate) fn start_queue(&mut self, ring: u32, style: Style) -> Queue {
        let queue = Queue::new(&self.ram, u64::from(ring) * 0x1_0000, 64, style);
        self.start(&queue, ring, 0, false);
        queue
    }

    pub(crate) fn start(&mut self, queue: &Queue, ring: u32, base: u16, logged: bool) {
        for (request, file) in start_messages(queue, ring, base, logged) {
            let files: Vec<BorrowedFd<'_>> = file.iter().map(AsFd::as_fd).collect();
            assert_eq!(self.acknowledged(&request, &files), 0, "{request:?}");
        }
    }

    /// Another process serves the disk from now on; what this one had in flight is not answered.
    pub(crate) fn reconnect(&mut self) {
        drop(self.connection.take());
        self.taken.clear();
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.front = Front { socket: ours };
        let connection = Connection::new(
            theirs.into(),
            &self.disk,
            &self.ring,
            &self.pool,
            self.limits,
        );
        self.connection = Some(connection);
    }

    /// Whoever drives it looks at its rings from now on.
    pub(crate) fn watch(&mut self) {
        self.connection = self.connection.take().map(Connection::watched);
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("it is connected")
    }

    /// Lets the device do what it can do now, and what completes of that at once.
    pub(crate) fn turn(&mut self) {
        let mut ready = Vec::new();
        for _ in 0..3 {
            if let Some(connection) = &mut self.connection {
                connection.poll(&mut self.taken);
            }
            self.ring.submit_and_wait(Some(Duration::ZERO)).unwrap();
            self.ring.take_ready(&mut ready);
            ready.clear();
        }
    }

    /// Turns until `is_so`.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        for turn in 0..TURNS {
            if is_so(self) {
                return;
            }
            if turn > 10 {
                let wait = Duration::from_millis(5);
                self.ring.submit_and_wait(Some(wait)).unwrap();
            }
            self.turn();
        }
        panic!("{what} did not happen");
    }

    pub(crate) fn tell(&mut self, request: &Request, files: &[BorrowedFd<'_>]) {
        self.front.say(request, false, files);
        self.turn();
    }

    pub(crate) fn ask(&mut self, request: &Request, files: &[BorrowedFd<'_>]) -> Reply {
        self.front.say(request, false, files);
        self.reply()
    }

    pub(crate) fn reply(&mut self) -> Reply {
        let mut reply = None;
        self.until("a reply", |rig| {
            reply = rig.front.reply();
            reply.is_some()
        });
        reply.unwrap()
    }

    /// What a message is acknowledged with: 0 for done.
    pub(crate) fn acknowledged(&mut self, request: &Request, files: &[BorrowedFd<'_>]) -> u64 {
        self.front.say(request, true, files);
        self.reply().number()
    }

    /// What the disk was asked since the last time.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Incoming> {
        self.until("a request", |rig| rig.taken.len() >= count);
        assert_eq!(self.taken.len(), count);
        std::mem::take(&mut self.taken)
    }

    pub(crate) fn succeed(&mut self, key: RequestKey) -> Option<Incoming> {
        self.connection().reply(key, Ok(Payload::new()))
    }

    pub(crate) fn fail(&mut self, key: RequestKey) {
        let more = self.connection().reply(key, Err(IoError::Failed));
        assert!(more.is_none());
    }

    pub(crate) fn give(&mut self, key: RequestKey, bytes: &[u8]) {
        let data = self.pool.copy_of(bytes);
        let more = self.connection().reply(key, Ok(smallvec![data]));
        assert!(more.is_none());
    }

    /// The next answer in the guest's ring.
    pub(crate) fn answer(&mut self, queue: &mut Queue) -> (u16, u32) {
        let mut answer = None;
        self.until("an answer", |_| {
            answer = queue.answer();
            answer.is_some()
        });
        answer.unwrap()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.connection.as_ref().unwrap().is_finished()
    }
}

/// Descriptors that this process has open.
pub(crate) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

pub(crate) fn files(list: &[&OwnedFd]) -> Vec<OwnedFd> {
    list.iter()
        .map(|file| file.as_fd().try_clone_to_owned().unwrap())
        .collect()
}
