//! `cargo run --release -p e2e --bin guest-prefetch -- [TURNS]`: a Linux guest boots from a cold cache, reads all its files in
//! order and then pages of them at random, without prefetch and with `readahead`, by turns. Then a guest whose agent
//! knows the files boots again from a cold cache, and reads them one by one: without prefetch, with `readahead` in the
//! host's memory, and with the agent reading ahead what the host expects. It needs `hearth` built with the same profile,
//! or `$HEARTH_BIN`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

use anyhow::Context as _;
use e2e::{
    DiskSettings, Flash, GUEST_TOOLS, Guest, GuestKit, Hearth, HearthSettings, Lab, Origin,
    OriginSettings, Stack, StackSettings, said, scenario, with_agent,
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

/// What reads ahead in a boot whose files the agent knows.
#[derive(Clone, Copy)]
enum Ahead {
    Nobody,
    Host,
    HostAndAgent,
}

impl Ahead {
    const ALL: [(Self, &str); 3] = [
        (Self::Nobody, "nobody"),
        (Self::Host, "the host"),
        (Self::HostAndAgent, "the host, and the agent by file"),
    ];
}

fn second_boot(
    lab: &Lab,
    delay: Option<&'static str>,
    (ahead, name): (Ahead, &str),
) -> anyhow::Result<()> {
    let kit = GuestKit::build()?;
    let image = kit.disk(lab)?;
    let origin = OriginSettings {
        delay,
        ..OriginSettings::default()
    };
    let origin = Origin::start(lab, &image, origin)?;
    let flash = Flash::format(lab, "flash.img", 512)?;
    let channels = lab.path("channels");
    let settings = HearthSettings::new(&flash)
        .cache_key("write_delay = '100ms'\nflash_timeout = '60s'\n")
        .disk(&DiskSettings::on_nbd(Stack::DISK, &origin.uri()))
        .section(&format!(
            "\n[guest]\ndirectory = '{}'\n",
            channels.display()
        ));
    let hearth = Hearth::start(lab, &settings)?;
    let boot = |name: &str, steps: &str| {
        Guest::boot_with_channel(lab, &kit, &hearth, Stack::DISK, (name, steps))
    };
    // A file matters once it was used in two epochs.
    let files = "read,dir=/srv/files";
    let learn = with_agent(
        &format!("{files}+{files}+{files}"),
        "--epoch,200ms,--no-hints",
    );
    boot("first", &learn)?.finish()?;
    hearth.command(&["disk", "drop", Stack::DISK])?;
    let miners = if matches!(ahead, Ahead::Nobody) {
        "none"
    } else {
        "readahead"
    };
    hearth.command(&["cache", "set", "flash", "--prefetch", miners])?;
    let before = origin.requests()?.len();
    let options = if matches!(ahead, Ahead::HostAndAgent) {
        "--no-preload,--hint-interval,1s,--read-ahead"
    } else {
        "--no-preload,--hint-interval,1s"
    };
    let mut guest = boot("second", &with_agent(&format!("{files}+forever"), options))?;
    guest.wait_for("PROBE waiting")?;
    let seen = hearth.json(&["vm", "show", Stack::DISK])?["shares"][0]["prefetch"].clone();
    let console = guest.kill()?;
    let requests = origin.requests()?.len() - before;
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
    anyhow::ensure!(hearth.stop()?.success(), "a clean stop");
    Ok(())
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
            for ahead in Ahead::ALL {
                scenario(GUEST_TOOLS, |lab| second_boot(lab, delay, ahead));
            }
        }
    }
    Ok(())
}
