//! `cargo run --release -p e2e --bin guest-prefetch -- [TURNS]`: a Linux guest boots from a cold cache, reads all its files in
//! order and then pages of them at random, without prefetch and with `readahead`, by turns. It needs `hearth` built with
//! the same profile, or `$HEARTH_BIN`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

use anyhow::Context as _;
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, Lab, OriginSettings, Stack, StackSettings, said, scenario,
};

/// Files in order, then 2,000 pages at random of those that the first part left out.
const STEPS: &str = "read,dir=/srv/files,from=25+random,dir=/srv/files,reads=2000,seed=7";

/// How much later the origin answers each request.
const DELAYS: [Option<&str>; 3] = [None, Some("1ms"), Some("5ms")];

fn turn(lab: &Lab, delay: Option<&'static str>, miners: &str) -> anyhow::Result<()> {
    let kit = GuestKit::build()?;
    let origin = OriginSettings {
        delay,
        ..OriginSettings::default()
    };
    let settings = StackSettings {
        origin,
        flash_mib: 512,
        cache_keys: "write_delay = '100ms'\nflash_timeout = '60s'\n",
        ..StackSettings::default()
    };
    let mut stack = Stack::start_on(lab, kit.disk(lab)?, &settings)?;
    stack
        .hearth()
        .command(&["cache", "set", "flash", "--prefetch", miners])?;
    let guest = Guest::boot(lab, &kit, &stack.socket(), Stack::DISK, "guest", STEPS)?;
    let console = guest.finish()?;
    let requests = stack.origin.requests()?.len();
    let shown = stack.hearth().json(&["vm", "show", Stack::DISK])?;
    let prefetch = &shown["shares"][0]["prefetch"];
    let count = |key: &str| prefetch[key].as_u64().unwrap_or(0);
    println!(
        "| {} | {miners} | {} ms | {} ms | {} | {} | {requests} | {} | {} | {} |",
        delay.unwrap_or("fast"),
        said(&console, "PROBE start", "uptime_ms")?,
        said(&console, "PROBE read", "ms")?,
        said(&console, "PROBE random", "iops")?,
        said(&console, "PROBE random", "p99_us").unwrap_or(0),
        count("fetched_blocks"),
        count("used_blocks"),
        count("wasted_blocks"),
    );
    stack.stop_hearth()
}

fn main() -> anyhow::Result<()> {
    let turns = std::env::args().nth(1);
    let turns: u64 = turns.map_or(Ok(3), |word| word.parse().context(word))?;
    println!(
        "| origin | prefetch | boot | files in order | random reads a second | p99 us | requests of the origin \
         | prefetched | used | wasted |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for _ in 0..turns {
        for delay in DELAYS {
            for miners in ["none", "readahead"] {
                scenario(GUEST_TOOLS, |lab| turn(lab, delay, miners));
            }
        }
    }
    Ok(())
}
