//! Loads a vhost-user-blk server as a guest would, without a guest: random 4 KiB reads at a depth.
//!
//! ```text
//! raw_file --socket disk.sock --image disk.raw --direct &
//! load --socket disk.sock --depth 32 --seconds 5 --server $!
//! load --file disk.raw --depth 32 --seconds 5        the same from a file, by io_uring
//! ```
//!
//! Prints operations a second, processor time an operation of this side and of the server, and
//! how many kicks and interrupts it took. It kicks when the device asks for it, and sleeps on its
//! interrupt when nothing has come.

#![allow(clippy::print_stdout, reason = "the figures are what it is for")]
#![allow(clippy::unwrap_used, reason = "a tool of ours that may stop anywhere")]
#![allow(unsafe_code, reason = "shares the tests' memory of a guest")]
#![allow(
    clippy::cast_precision_loss,
    reason = "figures that are printed with three digits"
)]

#[path = "../tests/support/driver.rs"]
mod driver;
#[path = "../tests/support/front.rs"]
mod front;
#[path = "../tests/support/ram.rs"]
mod ram;

use block_io::{Buf, BufPool};
use clap::Parser;
use driver::{Queue, READ, Style};
use front::{Front, start_messages, whole};
use ram::Ram;
use ring::{Op, Ring};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::Prng;
use vhost_protocol::{Features, ProtocolFeatures, Request};

const BLOCK: u64 = 4096;
const DATA: u64 = 1 << 20;

#[derive(Parser)]
struct Arguments {
    /// The server's socket.
    #[arg(long, required_unless_present = "file")]
    socket: Option<PathBuf>,
    /// Read this file instead, past the page cache.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Requests in flight.
    #[arg(long, default_value_t = 32)]
    depth: u16,
    /// How long.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Bytes of the disk that are read, in MiB.
    #[arg(long, default_value_t = 64)]
    mib: u64,
    /// The server's process, for its processor time.
    #[arg(long)]
    server: Option<u32>,
}

struct Count {
    operations: u64,
    elapsed: Duration,
    kicks: u64,
    sleeps: u64,
}

fn main() {
    let arguments = Arguments::parse();
    let before = (own_time(), arguments.server.map(time_of));
    let count = match &arguments.file {
        Some(file) => read_file(&arguments, file),
        None => load(&arguments),
    };
    let own = own_time().saturating_sub(before.0);
    let per = |time: Duration| time.as_secs_f64() * 1e6 / count.operations as f64;
    let rate = count.operations as f64 / count.elapsed.as_secs_f64();
    print!("iops={rate:.0} own_us={:.2}", per(own));
    if let (Some(server), Some(before)) = (arguments.server, before.1) {
        print!(
            " server_us={:.2}",
            per(time_of(server).saturating_sub(before))
        );
    }
    let share = |number: u64| number as f64 / count.operations as f64;
    println!(
        " kicks={:.3} sleeps={:.3}",
        share(count.kicks),
        share(count.sleeps)
    );
}

fn load(arguments: &Arguments) -> Count {
    let socket = UnixStream::connect(arguments.socket.as_ref().unwrap()).unwrap();
    let front = Front { socket };
    let ram = Arc::new(Ram::new(16 << 20));
    let style = Style {
        indirect: true,
        by_index: true,
    };
    let mut queue = Queue::new(&ram, 0, 256, style);
    set_up(&front, &ram, &queue);
    let mut dice = Prng::new(1);
    let mut count = Count {
        operations: 0,
        elapsed: Duration::ZERO,
        kicks: 0,
        sleeps: 0,
    };
    let blocks = arguments.mib * (1 << 20) / BLOCK;
    let mut ask = |queue: &mut Queue, place: u64| {
        let sector = dice.below(blocks) * BLOCK / 512;
        queue.request(READ, sector, &[(DATA + place * BLOCK, 4096)]);
    };
    for place in 0..u64::from(arguments.depth) {
        ask(&mut queue, place);
    }
    count.kicks += u64::from(queue.kick());
    let began = Instant::now();
    let end = Duration::from_secs(arguments.seconds);
    while count.elapsed < end {
        let mut answers = 0;
        while let Some((head, written)) = queue.answer() {
            assert_eq!((queue.status(head), written), (0, 4097));
            answers += 1;
        }
        if answers == 0 {
            queue.want_interrupt(0);
            if !queue.has_answer() {
                count.sleeps += 1;
                sleep(&queue);
            }
            continue;
        }
        for place in 0..answers {
            ask(&mut queue, place);
        }
        count.kicks += u64::from(queue.kick());
        count.operations += answers;
        if count.operations % 64 < answers {
            count.elapsed = began.elapsed();
        }
    }
    count
}

fn sleep(queue: &Queue) {
    let mut watched = [PollFd::new(&queue.call, PollFlags::IN)];
    poll(&mut watched, None).unwrap();
    queue.interrupts();
}

fn set_up(front: &Front, ram: &Ram, queue: &Queue) {
    let features = Features::OFFERED.without(Features::LOG_ALL);
    let memory = ram.file();
    let table = Request::SetMemoryTable(vec![whole(ram.len())]);
    front.say(&Request::SetFeatures(features), false, &[]);
    let protocol = ProtocolFeatures::OFFERED;
    front.say(&Request::SetProtocolFeatures(protocol), false, &[]);
    front.say(&table, false, &[memory.as_fd()]);
    for (request, file) in start_messages(queue, 0, 0, false) {
        let files: Vec<BorrowedFd<'_>> = file.iter().map(AsFd::as_fd).collect();
        front.say(&request, false, &files);
    }
}

/// The same reads without anything in between.
fn read_file(arguments: &Arguments, path: &PathBuf) -> Count {
    let mut options = File::options();
    let file = options.read(true).custom_flags(libc::O_DIRECT);
    let file = Rc::new(OwnedFd::from(file.open(path).unwrap()));
    let ring = Ring::new(256).unwrap();
    let pool = BufPool::new();
    let source = ring.source();
    let mut dice = Prng::new(1);
    let blocks = arguments.mib * (1 << 20) / BLOCK;
    let mut ask = |buf: Buf| {
        let op = Op::Read {
            file: Rc::clone(&file),
            offset: dice.below(blocks) * BLOCK,
            buf,
            length: 4096,
        };
        source.submit(0, op);
    };
    for _ in 0..arguments.depth {
        ask(pool.take(4096));
    }
    let mut count = Count {
        operations: 0,
        elapsed: Duration::ZERO,
        kicks: 0,
        sleeps: 0,
    };
    let began = Instant::now();
    let mut ready = Vec::new();
    while count.elapsed < Duration::from_secs(arguments.seconds) {
        ring.submit_and_wait(None).unwrap();
        ring.take_ready(&mut ready);
        ready.clear();
        count.sleeps += 1;
        while let Some(done) = source.pop() {
            assert_eq!(done.result.unwrap(), 4096);
            count.operations += 1;
            ask(done.buf.unwrap());
        }
        count.elapsed = began.elapsed();
    }
    count
}

fn own_time() -> Duration {
    time_of(std::process::id())
}

/// Processor time of a process so far, user and system.
fn time_of(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = text.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|field| field.parse::<u64>().unwrap()).sum();
    // Fixed by the kernel's interface: a hundred ticks a second.
    Duration::from_millis(ticks * 10)
}
