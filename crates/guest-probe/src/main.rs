//! The program that a guest under test runs instead of a workload of its own.
//!
//! Usage: `guest-probe STEP+STEP+...`, a step being `name,key=value,...`. One line on stdout a step,
//! beginning with `PROBE`, is what the host's test or demo reads from the serial console:
//!
//! ```text
//! fill,dir=D,files=N,kib=K             make N files (on the host, while an image is built)
//! read,dir=D,from=A                    read every file, or those from A on, front to back, check every byte
//! random,dir=D,reads=N                 N reads of 4 KiB past the page cache, checked
//! write,dir=D,from=A,files=N,kib=K     write files, each synced before the next is begun
//! verify,dir=D,through=N               files 1..=N are there and right (0: any that are there)
//! device,path=P,operations=N,mib=M     mixed 4 KiB reads and writes of a raw disk, checked
//! commit,db=P,transactions=N,wal=W      SQLite transactions, each named when its commit was answered
//! account,db=P,through=N               the database is sound and has transactions 1..=N, each whole
//! facts,disk=D,sectors=S               what the kernel says of a disk, once it has S sectors (0: now)
//! memory,mib=M,kib_a_second=K,seconds=S  rewrite random pages of M MiB of memory, each checked before
//! listen,port=P,connections=N          take what comes over N TCP connections, one after the other
//! talk,to=A:P,kib_a_second=K,seconds=S,each_kib=E  send it there, over a new connection for each E KiB
//! trim,dir=D                           discard what the file system there does not use
//! again                                begin with the first step, for the next round, and so for ever
//! forever                              say so and wait, so that the host can cut the power
//! ```
//!
//! Everything written can be recognised later without a record of it: see [`pattern`]. A difference
//! is printed (`PROBE bad ...`) and counted, never a panic: a guest that stops is no witness.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "the serial console is this program's one output"
)]

mod database;
mod device;
mod facts;
mod files;
mod memory;
mod outcome;
mod pages;
mod pattern;
mod step;
mod talk;

use std::process::ExitCode;

use outcome::{ProbeError, Verdict, say};
use step::Step;

fn main() -> ExitCode {
    let Some(script) = std::env::args().nth(1) else {
        eprintln!("usage: guest-probe STEP+STEP+...");
        return ExitCode::FAILURE;
    };
    say(&format!("start uptime_ms={}", uptime_ms()));
    let mut verdict = Verdict::Pass;
    let (script, repeats) = match script.strip_suffix("+again") {
        Some(script) => (script, true),
        None => (script.as_str(), false),
    };
    for round in 0.. {
        for text in script.split('+') {
            match run(text, round) {
                Ok(Verdict::Pass) => {}
                Ok(Verdict::Fail) => verdict = Verdict::Fail,
                Err(error) => {
                    say(&format!("error step={text} {error}"));
                    verdict = Verdict::Fail;
                }
            }
        }
        if !repeats || verdict == Verdict::Fail {
            break;
        }
    }
    let word = if verdict == Verdict::Pass {
        "PASS"
    } else {
        "FAIL"
    };
    say(&format!("end uptime_ms={} result={word}", uptime_ms()));
    if verdict == Verdict::Pass {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run(text: &str, round: u64) -> Result<Verdict, ProbeError> {
    let step = Step::parse(text)?;
    match step.name() {
        "fill" => files::fill(&step),
        "read" => files::read(&step),
        "random" => files::random(&step),
        "write" => files::write(&step),
        "verify" => files::verify(&step),
        "device" => device::exercise(&step, round),
        "commit" => database::commit(&step),
        "account" => database::account(&step),
        "facts" => facts::tell(&step),
        "memory" => memory::rewrite(&step),
        "listen" => talk::listen(&step),
        "talk" => talk::talk(&step),
        "trim" => facts::trim(&step),
        "forever" => {
            say(&format!("waiting uptime_ms={}", uptime_ms()));
            loop {
                std::thread::park();
            }
        }
        _ => Err(ProbeError::Usage(format!(
            "no step is called {}",
            step.name()
        ))),
    }
}

/// Milliseconds since the guest's kernel started; 0 where that cannot be read.
fn uptime_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let mut parts = text.split([' ', '.']);
    let seconds: u64 = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    let hundredths: u64 = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    seconds * 1000 + hundredths * 10
}
