//! A raw file as a vhost-user-blk disk: the front end without a cache behind it.
//!
//! ```text
//! raw_file --socket disk.sock --image disk.raw &
//! qemu-system-x86_64 ... \
//!   -object memory-backend-memfd,id=mem,size=256M,share=on -machine q35,memory-backend=mem \
//!   -chardev socket,id=disk,path=disk.sock,reconnect=1 -device vhost-user-blk-pci,chardev=disk
//! ```
//!
//! One VM at a time. It is what a shard does, on one page: a ring, a loop, and no threads.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example tells what it counted")]

use anyhow::Context as _;
use block_io::{BufPool, IoError, Payload};
use clap::Parser;
use frontend::limits::ConnectionLimits;
use frontend::{Incoming, RequestKey, Verb};
use ring::{Completion, Op, Ring, Source};
use slab::Slab;
use smallvec::smallvec;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::rc::Rc;
use units::{Bytes, Duration, Instant, Offset, Prng};
use vhost_user::{Connection, Disk};

#[derive(Parser)]
struct Arguments {
    /// Where to listen.
    #[arg(long)]
    socket: PathBuf,
    /// The disk's bytes.
    #[arg(long)]
    image: PathBuf,
    /// The serial number that the guest sees.
    #[arg(long, default_value = "hearth-raw-file")]
    serial: String,
    /// Size of a sector: 512 or 4096.
    #[arg(long, default_value_t = 512)]
    sector: u32,
    /// Refuse writes.
    #[arg(long)]
    read_only: bool,
    /// Past the page cache.
    #[arg(long)]
    direct: bool,
    /// Copy what is read instead of reading into the guest's memory.
    #[arg(long)]
    copy: bool,
    /// Answer each request after a random time of up to so many milliseconds, so in any order.
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
}

/// A request at the file.
struct Work {
    key: RequestKey,
    kind: Kind,
    length: usize,
}

enum Kind {
    /// Read into the guest's memory.
    InPlace,
    /// Read into a buffer of ours.
    Copied,
    /// Anything that ends with a word; then a sync, if that is what makes it durable.
    Word { then_sync: bool },
}

/// The outcome of a request, on its way to the guest.
enum Outcome {
    InPlace(Result<(), IoError>),
    Reply(Result<Payload, IoError>),
}

struct Server {
    arguments: Arguments,
    ring: Ring,
    pool: BufPool,
    file: Rc<OwnedFd>,
    at_file: Source,
    disk: Disk,
    connection: Option<Connection>,
    /// Accepted while another is being served.
    next: VecDeque<OwnedFd>,
    works: Slab<Work>,
    late: Vec<(Instant, RequestKey, Outcome)>,
    dice: Prng,
}

fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let mut options = File::options();
    options.read(true).write(!arguments.read_only);
    if arguments.direct {
        options.custom_flags(libc::O_DIRECT);
    }
    let file = options.open(&arguments.image).context("the image")?;
    let size = file.metadata()?.len();
    let _stale = std::fs::remove_file(&arguments.socket);
    let listener = UnixListener::bind(&arguments.socket).context("the socket")?;
    listener.set_nonblocking(true)?;
    let ring = Ring::new(256)?;
    let server = Server {
        disk: Disk {
            name: "raw-file".to_owned(),
            serial: arguments.serial.clone(),
            size: Bytes::new(size - size % u64::from(arguments.sector)),
            sector: arguments.sector,
            read_only: arguments.read_only,
            can_discard: true,
        },
        pool: BufPool::new(),
        file: Rc::new(file.into()),
        at_file: ring.source(),
        ring,
        arguments,
        connection: None,
        next: VecDeque::new(),
        works: Slab::new(),
        late: Vec::new(),
        dice: Prng::new(1),
    };
    println!("listening");
    server.serve(&listener)
}

impl Server {
    fn serve(mut self, listener: &UnixListener) -> anyhow::Result<()> {
        let accepting = self.ring.source();
        let listening = Rc::new(OwnedFd::from(listener.try_clone()?));
        let mut incoming = Vec::new();
        let mut ready = Vec::new();
        loop {
            if accepting.in_flight() == 0 {
                while let Ok((socket, _)) = listener.accept() {
                    self.next.push_back(socket.into());
                }
                let fd = Rc::clone(&listening);
                accepting.submit(0, Op::PollIn { fd });
            }
            while accepting.pop().is_some() {}
            while let Some(done) = self.at_file.pop() {
                self.file_done(done, &mut incoming);
            }
            self.answer_late();
            self.poll(&mut incoming);
            let now = self.ring.now();
            let first = self.late.iter().map(|(at, ..)| *at).min();
            let wait = first.map(|at| at.since(now));
            self.ring.submit_and_wait(wait)?;
            ready.clear();
            self.ring.take_ready(&mut ready);
        }
    }

    /// Lets the connection go on until it has nothing more to say.
    fn poll(&mut self, incoming: &mut Vec<Incoming>) {
        if self.connection.is_none()
            && let Some(socket) = self.next.pop_front()
        {
            let limits = ConnectionLimits::default();
            let (ring, pool) = (&self.ring, &self.pool);
            self.connection = Some(Connection::new(socket, &self.disk, ring, pool, limits));
        }
        let Some(connection) = &mut self.connection else {
            return;
        };
        connection.poll(incoming);
        if connection.is_finished() {
            println!("{:?}", connection.counters());
            self.connection = None;
        }
        for one in incoming.drain(..) {
            self.ask(one);
        }
    }

    fn ask(&mut self, Incoming { key, verb }: Incoming) {
        let file = Rc::clone(&self.file);
        let fallocate = |mode, offset: Offset, length: Bytes| Op::Fallocate {
            file: Rc::clone(&self.file),
            mode: mode | libc::FALLOC_FL_KEEP_SIZE,
            offset: offset.get(),
            length: length.get(),
        };
        let mut then_sync = false;
        let (op, kind, length) = match verb {
            Verb::Read { offset, length } => {
                let (op, kind) = self.read(key, offset.get(), length.to_usize());
                (op, kind, length.to_usize())
            }
            Verb::Write { offset, data, fua } => {
                let (offset, length) = (offset.get(), data.len());
                let op = Op::Write {
                    file,
                    offset,
                    data,
                    dsync: fua,
                };
                (op, Kind::Word { then_sync }, length)
            }
            Verb::Flush => {
                let datasync = true;
                (Op::Fsync { file, datasync }, Kind::Word { then_sync }, 0)
            }
            Verb::Discard { offset, length } => {
                let op = fallocate(libc::FALLOC_FL_PUNCH_HOLE, offset, length);
                (op, Kind::Word { then_sync }, 0)
            }
            Verb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => {
                then_sync = fua;
                let mode = if may_unmap {
                    libc::FALLOC_FL_PUNCH_HOLE
                } else {
                    libc::FALLOC_FL_ZERO_RANGE
                };
                let op = fallocate(mode, offset, length);
                (op, Kind::Word { then_sync }, 0)
            }
            Verb::Prefetch { .. } => unreachable!("virtio has no such request"),
        };
        let token = self.works.insert(Work { key, kind, length });
        self.at_file.submit(token as u64, op);
    }

    fn read(&self, key: RequestKey, offset: u64, length: usize) -> (Op, Kind) {
        let file = Rc::clone(&self.file);
        let unit = if self.arguments.direct { 512 } else { 1 };
        let in_place = (self.connection.as_ref())
            .filter(|_| !self.arguments.copy)
            .and_then(|connection| connection.buffers(key))
            .filter(|into| into.is_aligned_to(unit));
        if let Some(into) = in_place {
            return (Op::ReadInto { file, offset, into }, Kind::InPlace);
        }
        let buf = self.pool.take(length);
        let op = Op::Read {
            file,
            offset,
            buf,
            length,
        };
        (op, Kind::Copied)
    }

    fn file_done(&mut self, done: Completion, incoming: &mut Vec<Incoming>) {
        let token = usize::try_from(done.token).expect("a slab's key");
        let Work { key, kind, length } = self.works.remove(token);
        let result = match done.result {
            Ok(moved) if moved == length => Ok(()),
            Ok(_) => Err(IoError::Failed),
            Err(error) => Err(IoError::of(&error)),
        };
        let outcome = match kind {
            Kind::InPlace => Outcome::InPlace(result),
            Kind::Copied => Outcome::Reply(result.map(|()| {
                let buf = done.buf.expect("a read returns its buffer");
                smallvec![buf.freeze().slice(0..length)]
            })),
            Kind::Word { then_sync: true } if result.is_ok() => {
                let verb = Verb::Flush;
                return incoming.push(Incoming { key, verb });
            }
            Kind::Word { .. } => Outcome::Reply(result.map(|()| Payload::new())),
        };
        if self.arguments.delay_ms == 0 {
            return self.tell(key, outcome);
        }
        let wait = Duration::from_micros(self.dice.below(self.arguments.delay_ms * 1000));
        self.late.push((self.ring.now() + wait, key, outcome));
    }

    fn answer_late(&mut self) {
        let now = self.ring.now();
        for (_, key, outcome) in self
            .late
            .extract_if(.., |(at, ..)| *at <= now)
            .collect::<Vec<_>>()
        {
            self.tell(key, outcome);
        }
    }

    fn tell(&mut self, key: RequestKey, outcome: Outcome) {
        let connection = self.connection.as_mut();
        let connection = connection.expect("a connection stays until all is answered");
        match outcome {
            Outcome::InPlace(result) => connection.reply_in_place(key, result),
            Outcome::Reply(result) => {
                if let Some(more) = connection.reply(key, result) {
                    self.ask(more);
                }
            }
        }
    }
}
