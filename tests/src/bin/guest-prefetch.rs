//! `cargo run --release -p e2e --bin guest-prefetch -- [TURNS]`: a Linux guest boots from a cold cache, reads all its files in
//! order and then pages of them at random, without prefetch and with `readahead`, by turns. Then a guest whose agent
//! knows the files boots again from a cold cache, and reads them one by one: without prefetch, with `readahead` in the
//! host's memory, and with the agent reading ahead what the host expects. It needs `hearth` built with the same profile,
//! or `$HEARTH_BIN`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

use anyhow::Context as _;
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, Lab, OriginSettings, Stack, StackSettings, said, scenario,
    with_agent,
};

/// Files in order, then 2,000 pages at random of those that the first part left out.
const STEPS: &str = "read,dir=/srv/files,from=25+random,dir=/srv/files,reads=2000,seed=7";

/// How much later the origin answers each request.
const DELAYS: [Option<&str>; 3] = [None, Some("1ms"), Some("5ms")];

/// An origin that answers so much later.
fn over_origin(delay: Option<&'static str>) -> StackSettings {
    let origin = OriginSettings {
        delay,
        ..OriginSettings::default()
    };
    StackSettings {
        origin,
        flash_mib: 512,
        cache_keys: "write_delay = '100ms'\nflash_timeout = '60s'\n",
        ..StackSettings::default()
    }
}

fn turn(lab: &Lab, delay: Option<&'static str>, miners: &str) -> anyhow::Result<()> {
    let kit = GuestKit::build()?;
    let mut stack = Stack::start_on(lab, kit.disk(lab)?, &over_origin(delay))?;
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

/// What reads ahead in a boot whose files the agent knows: what it is called, the host's miners, the agent's options.
const AHEAD: [(&str, &str, &str); 3] = [
    ("nobody", "none", HINTS),
    ("the host", "readahead", HINTS),
    (
        "the host, and the agent by file",
        "readahead",
        "--no-preload,--hint-interval,1s,--read-ahead",
    ),
];
const HINTS: &str = "--no-preload,--hint-interval,1s";

fn second_boot(
    lab: &Lab,
    delay: Option<&'static str>,
    (name, miners, options): (&str, &str, &str),
) -> anyhow::Result<()> {
    let kit = GuestKit::build()?;
    let settings = StackSettings {
        sections: format!(
            "\n[guest]\ndirectory = '{}'\n",
            lab.path("channels").display()
        ),
        ..over_origin(delay)
    };
    let mut stack = Stack::start_on(lab, kit.disk(lab)?, &settings)?;
    let hearth = stack.hearth();
    // A file matters once it was used in two epochs.
    let files = "read,dir=/srv/files";
    let learn = with_agent(
        &format!("{files}+{files}+{files}"),
        "--epoch,200ms,--no-hints",
    );
    Guest::boot_with_channel(lab, &kit, hearth, Stack::DISK, ("first", &learn))?.finish()?;
    hearth.command(&["disk", "drop", Stack::DISK])?;
    hearth.command(&["cache", "set", "flash", "--prefetch", miners])?;
    let before = stack.origin.requests()?.len();
    let steps = with_agent(&format!("{files}+forever"), options);
    let hearth = stack.hearth();
    let mut guest = Guest::boot_with_channel(lab, &kit, hearth, Stack::DISK, ("second", &steps))?;
    guest.wait_for("PROBE waiting")?;
    let seen = hearth.json(&["vm", "show", Stack::DISK])?["shares"][0]["prefetch"].clone();
    let console = guest.kill()?;
    let requests = stack.origin.requests()?.len() - before;
    let count = |key: &str| seen[key].as_u64().unwrap_or(0);
    println!(
        "| {} | {name} | {} ms | {} | {requests} | {} | {} | {} | {} |",
        delay.unwrap_or("fast"),
        said(&console, "PROBE read", "ms")?,
        said(&console, "PROBE read", "waits")?,
        count("fetched_blocks"),
        count("used_blocks"),
        count("told_blocks"),
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
    println!();
    println!(
        "| origin | reads ahead in a second boot | files in order | reads that wait | requests of the origin \
         | prefetched | used | of these told | wasted |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for _ in 0..turns {
        for delay in DELAYS {
            for ahead in AHEAD {
                scenario(GUEST_TOOLS, |lab| second_boot(lab, delay, ahead));
            }
        }
    }
    Ok(())
}
