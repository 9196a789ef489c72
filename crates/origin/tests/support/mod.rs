//! Every form of origin behind one handle that makes time pass.

#![allow(dead_code, reason = "each test file uses what it needs")]

pub(crate) mod bodies;
pub(crate) mod ceph;
pub(crate) mod nbdkit;
pub(crate) mod tgt;

use block_io::{BufPool, IoError, OriginDone, OriginOp, OriginVerb, Token};
use medium::{Faults, Medium, MediumOptions};
use nbdkit::Nbdkit;
use origin::faulty::Faulty;
use origin::memory::MemoryOrigin;
use origin::{FileSpec, NbdSpec, Opened, Origin, OriginSpec};
use ring::Ring;
use std::collections::BTreeMap;
use units::{Bytes, DiskSlot, Duration, Instant, Offset};

pub(crate) const SIZE: Bytes = Bytes::new((4 << 20) + 512);

/// Which form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Memory,
    Faulty,
    Direct,
    Buffered,
    Nbd,
}

impl Form {
    /// Those that can be had here.
    pub(crate) fn all() -> Vec<Self> {
        let mut forms = vec![Self::Memory, Self::Faulty, Self::Direct, Self::Buffered];
        if Nbdkit::is_here() {
            forms.push(Self::Nbd);
        }
        forms
    }
}

/// An origin, and what makes time pass for it.
pub(crate) struct Rig {
    pub(crate) origin: Box<dyn Origin>,
    pub(crate) pool: BufPool,
    ring: Option<Ring>,
    now: Instant,
    tokens: u64,
    /// Ended while nobody was looking.
    early: BTreeMap<Token, OriginDone>,
    _folder: Option<tempfile::TempDir>,
    server: Option<Nbdkit>,
}

pub(crate) fn on_every_form(body: fn(&mut Rig)) {
    for form in Form::all() {
        body(&mut Rig::new(form, false));
    }
}

pub(crate) fn memory_rig(origin: impl Origin + 'static) -> Rig {
    Rig {
        origin: Box::new(origin),
        pool: BufPool::new(),
        ring: None,
        now: Instant::ZERO,
        tokens: 0,
        early: BTreeMap::new(),
        _folder: None,
        server: None,
    }
}

fn medium(read_only: bool) -> Medium {
    Medium::new(MediumOptions {
        latency_least: Duration::from_micros(20),
        latency_most: Duration::from_micros(200),
        read_only,
        ..MediumOptions::new(SIZE, 11)
    })
}

impl Rig {
    pub(crate) fn read_only(form: Form) -> Self {
        Self::new(form, true)
    }

    fn new(form: Form, read_only: bool) -> Self {
        match form {
            Form::Memory => memory_rig(MemoryOrigin::open(&medium(read_only))),
            Form::Faulty => memory_rig(Faulty::new(
                MemoryOrigin::open(&medium(read_only)),
                Faults::new(1),
            )),
            Form::Direct => Self::file(true, read_only),
            Form::Buffered => Self::file(false, read_only),
            Form::Nbd => {
                let server = Nbdkit::start(&["memory", &SIZE.get().to_string()]);
                let mut rig = Self::nbd_as(server.spec(), read_only);
                rig.server = Some(server);
                rig
            }
        }
    }

    pub(crate) fn nbd(spec: NbdSpec) -> Self {
        Self::nbd_as(spec, false)
    }

    fn nbd_as(spec: NbdSpec, read_only: bool) -> Self {
        Self::of(origin::open(&OriginSpec::Nbd(spec), read_only).unwrap())
    }

    /// Of what was opened.
    pub(crate) fn of(opened: Opened) -> Self {
        let (ring, pool) = (Ring::new(64).unwrap(), BufPool::new());
        Self {
            origin: opened.start(&ring, &pool),
            now: ring.now(),
            ring: Some(ring),
            _folder: None,
            server: None,
            pool,
            tokens: 0,
            early: BTreeMap::new(),
        }
    }

    fn file(direct: bool, read_only: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("origin");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(SIZE.get())
            .unwrap();
        let spec = OriginSpec::File(FileSpec {
            direct,
            ..FileSpec::new(path)
        });
        let (ring, pool) = (Ring::new(64).unwrap(), BufPool::new());
        Self {
            origin: origin::open(&spec, read_only).unwrap().start(&ring, &pool),
            now: ring.now(),
            ring: Some(ring),
            _folder: Some(folder),
            server: None,
            pool,
            tokens: 0,
            early: BTreeMap::new(),
        }
    }

    pub(crate) fn submit(&mut self, verb: OriginVerb) -> Token {
        self.tokens += 1;
        let token = Token(self.tokens);
        let disk = DiskSlot::new(3);
        self.origin.submit(OriginOp { token, disk, verb }, self.now);
        token
    }

    pub(crate) fn write(&mut self, at: u64, byte: u8, length: usize, fua: bool) -> Token {
        let data = self.pool.copy_of(&vec![byte; length]);
        self.submit(OriginVerb::Write {
            offset: Offset::new(at),
            data,
            fua,
        })
    }

    pub(crate) fn read(&mut self, at: u64, length: u64) -> Token {
        let buf = self.pool.take(usize::try_from(length).unwrap());
        self.submit(OriginVerb::Read {
            offset: Offset::new(at),
            length: Bytes::new(length),
            buf,
        })
    }

    /// Runs until at least `count` operations have ended.
    pub(crate) fn finish_some(&mut self, count: usize) -> BTreeMap<Token, OriginDone> {
        let mut all = std::mem::take(&mut self.early);
        let mut done = Vec::new();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while all.len() < count {
            assert!(std::time::Instant::now() < deadline, "operations got lost");
            self.origin.poll(self.now, &mut done);
            for one in done.drain(..) {
                let again = all.insert(one.token, one);
                assert!(again.is_none(), "an operation was handed back twice");
            }
            if all.len() < count {
                self.wait();
            }
        }
        all
    }

    /// Waits a little; returns what has ended so far.
    pub(crate) fn take_ended(&mut self) -> BTreeMap<Token, OriginDone> {
        let mut done = Vec::new();
        self.wait();
        self.origin.poll(self.now, &mut done);
        let ended = done.into_iter().map(|one| (one.token, one));
        ended.chain(std::mem::take(&mut self.early)).collect()
    }

    /// Runs, nothing being asked, until a condition holds.
    pub(crate) fn run_until(&mut self, condition: impl Fn(&Self) -> bool) {
        let mut done = Vec::new();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !condition(self) {
            assert!(std::time::Instant::now() < deadline, "it never comes");
            self.wait();
            self.origin.poll(self.now, &mut done);
            self.early
                .extend(done.drain(..).map(|one| (one.token, one)));
        }
    }

    /// Tries until it works.
    pub(crate) fn until_ok(&mut self, mut body: impl FnMut(&mut Self) -> Result<(), IoError>) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while body(self).is_err() {
            assert!(std::time::Instant::now() < deadline, "it never works");
        }
    }

    /// Runs until `count` operations have ended, and no more than that.
    pub(crate) fn finish(&mut self, count: usize) -> BTreeMap<Token, OriginDone> {
        let all = self.finish_some(count);
        assert_eq!(all.len(), count, "nothing ends that was not asked for");
        all
    }

    fn wait(&mut self) {
        if let Some(ring) = &self.ring {
            ring.submit_and_wait(Some(Duration::from_millis(100)))
                .unwrap();
            ring.take_ready(&mut Vec::new());
            self.now = ring.now();
        } else {
            let next = self.origin.next_deadline();
            self.now = self.now.max(next.expect("something is due"));
        }
    }

    pub(crate) fn one(&mut self) -> OriginDone {
        self.finish(1).into_values().next().unwrap()
    }

    /// Reads a range and checks that every byte is `byte`.
    pub(crate) fn expect(&mut self, at: u64, length: u64, byte: u8) {
        self.read(at, length);
        let done = self.one();
        assert_eq!(done.result, Ok(()));
        let buf = done.buf.expect("a read's buffer comes back");
        let length = usize::try_from(length).unwrap();
        let wrong = buf[..length].iter().position(|b| *b != byte);
        assert_eq!(wrong, None, "at {at}, where {byte} is expected");
    }
}
