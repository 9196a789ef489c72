//! What 8 KiB made durable take, and cost in processor time: with `RWF_DSYNC`, as a write and an
//! `fdatasync` that is shared with the writes which ended meanwhile, and not durable at all. The
//! three take turns, on a file that is made in a folder or on a block device, which is OVERWRITTEN.
//!
//! `cargo run --release -p ring@0.1.0 --example durable -- FOLDER-OR-DEVICE [DEPTH [SECONDS]]`

use block_io::{BufPool, Slice, Syncs, Token};
use ring::{Op, Ring, Source};
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use units::{Duration, Instant};

const WRITE_BYTES: usize = 8192;
const FILE_BYTES: u64 = 512 << 20;
const TURNS: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Dsync,
    Shared,
    Plain,
}

struct Found {
    title: &'static str,
    form: Form,
    a_second: Vec<u64>,
    took: Vec<Duration>,
    cpu_us: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let path = words
        .next()
        .ok_or("a folder or a block device is missing")?;
    let mut number = |default: u64| -> Result<u64, Box<dyn Error>> {
        let word = words.next().and_then(|word| word.into_string().ok());
        Ok(word.map_or(Ok(default), |word| word.parse())?)
    };
    let (depth, seconds) = (number(1)?, number(2)?);
    let file = Rc::new(open(Path::new(&path))?);
    let mut all = [
        ("RWF_DSYNC", Form::Dsync),
        ("write, shared fdatasync", Form::Shared),
        ("write alone", Form::Plain),
    ]
    .map(|(title, form)| Found {
        title,
        form,
        a_second: Vec::new(),
        took: Vec::new(),
        cpu_us: 0,
    });
    for _ in 0..TURNS {
        for found in &mut all {
            measure(&file, depth, Duration::from_secs(seconds), found)?;
        }
    }
    for mut found in all {
        found.a_second.sort_unstable();
        found.took.sort_unstable();
        let (least, most) = (found.a_second[0], found.a_second[TURNS - 1]);
        let middle = |part: usize| found.took[found.took.len() * part / 100].as_nanos() / 1000;
        let cpu_us = found.cpu_us / found.took.len().max(1) as u64;
        writeln!(
            std::io::stdout(),
            "{:24} {:6} a second ({least}-{most}), p50 {} us, p99 {} us, processor {cpu_us} us",
            found.title,
            found.a_second[TURNS / 2],
            middle(50),
            middle(99),
        )?;
    }
    Ok(())
}

/// A file whose blocks have been written once, or the device.
fn open(path: &Path) -> Result<OwnedFd, Box<dyn Error>> {
    let flags = OFlags::RDWR | OFlags::DIRECT;
    if !path.is_dir() {
        return Ok(rustix::fs::open(path, flags | OFlags::EXCL, Mode::empty())?);
    }
    let file = tempfile::NamedTempFile::new_in(path)?;
    let piece = vec![0; 1 << 20];
    for at in (0..FILE_BYTES).step_by(piece.len()) {
        rustix::io::pwrite(&file, &piece, at)?;
    }
    rustix::fs::fsync(&file)?;
    Ok(rustix::fs::open(file.path(), flags, Mode::empty())?)
}

struct Writes<'a> {
    file: &'a Rc<OwnedFd>,
    source: Source,
    data: Slice,
    form: Form,
    begun: Vec<Instant>,
}

/// What names the sync.
const SYNC: u64 = u64::MAX;

impl Writes<'_> {
    fn submit(&mut self, now: Instant) {
        let number = self.begun.len() as u64;
        self.begun.push(now);
        let op = Op::Write {
            file: Rc::clone(self.file),
            offset: number * WRITE_BYTES as u64 % FILE_BYTES,
            data: self.data.clone(),
            dsync: self.form == Form::Dsync,
        };
        self.source.submit(number, op);
    }

    fn sync(&self) {
        let op = Op::Fsync {
            file: Rc::clone(self.file),
            datasync: true,
        };
        self.source.submit(SYNC, op);
    }
}

fn measure(
    file: &Rc<OwnedFd>,
    depth: u64,
    time: Duration,
    found: &mut Found,
) -> Result<(), Box<dyn Error>> {
    let ring = Ring::new(256)?;
    let mut writes = Writes {
        file,
        source: ring.source(),
        data: BufPool::new().copy_of(&[7; WRITE_BYTES]),
        form: found.form,
        begun: Vec::new(),
    };
    let mut syncs = Syncs::default();
    let (began, cpu) = (ring.now(), cpu());
    for _ in 0..depth {
        writes.submit(began);
    }
    let mut took = Vec::new();
    let mut ended = Vec::new();
    while ring.now() - began < time {
        ring.submit_and_wait(None)?;
        ring.take_ready(&mut Vec::new());
        while let Some(completion) = writes.source.pop() {
            completion.result?;
            if completion.token == SYNC {
                ended.extend(syncs.end(true));
            } else if found.form == Form::Shared {
                syncs.wait(Token(completion.token), syncs.now())?;
            } else {
                ended.push(Token(completion.token));
            }
        }
        if syncs.begin() {
            writes.sync();
        }
        let now = ring.now();
        for Token(number) in ended.drain(..) {
            took.push(now - writes.begun[usize::try_from(number)?]);
            writes.submit(now);
        }
    }
    let nanos = (ring.now() - began).as_nanos();
    found.cpu_us += (self::cpu() - cpu).as_nanos() / 1000;
    found
        .a_second
        .push(took.len() as u64 * 1_000_000_000 / nanos);
    found.took.append(&mut took);
    Ok(())
}

/// When, on the clock of this process's processor time, its kernel threads included.
fn cpu() -> Instant {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = time.tv_sec * 1_000_000_000 + time.tv_nsec;
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
