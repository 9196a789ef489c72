//! What an operation costs beyond the kernel's own work: reads of 512 bytes from a file in the
//! page cache, so many at a time, in user and system CPU time each.
//!
//! `cargo run --release -p ring@0.1.0 --example cost`

use block_io::{Buf, BufPool};
use ring::{Op, Ring};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::fs::{File, read_to_string};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;

const OPERATIONS: u64 = 2_000_000;
const FILE_BYTES: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    for depth in [1, 8, 32, 128] {
        measure(depth)?;
    }
    Ok(())
}

fn measure(depth: u64) -> Result<(), Box<dyn Error>> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![7; usize::try_from(FILE_BYTES)?])?;
    let file: Rc<OwnedFd> = Rc::new(File::into(file));
    let ring = Ring::new(256)?;
    let source = ring.source();
    let pool = BufPool::new();
    let read = |buf: Buf, number: u64| Op::Read {
        file: Rc::clone(&file),
        offset: number * 512 % FILE_BYTES,
        buf,
        length: 512,
    };
    for number in 0..depth {
        source.submit(number, read(pool.take(512), number));
    }
    let (user, total, enters) = (user_ticks()?, cpu_nanos(), ring.enters());
    let mut ready = Vec::new();
    let mut done = 0;
    while done < OPERATIONS {
        ring.submit_and_wait(None)?;
        ready.clear();
        ring.take_ready(&mut ready);
        while let Some(completion) = source.pop() {
            done += 1;
            if let Some(buf) = completion.buf {
                source.submit(completion.token, read(buf, done));
            }
        }
    }
    let total = (cpu_nanos() - total) / done;
    let user = (user_ticks()? - user) * 10_000_000 / done;
    let batch = done / (ring.enters() - enters);
    writeln!(
        std::io::stdout(),
        "depth {depth}: {total} ns an operation, {user} ns of it ours; {batch} a turn"
    )?;
    Ok(())
}

fn cpu_nanos() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// User time in hundredths of a second.
fn user_ticks() -> Result<u64, Box<dyn Error>> {
    let stat = read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(") ").next().ok_or("no fields")?;
    Ok(fields.split(' ').nth(11).ok_or("no user time")?.parse()?)
}
