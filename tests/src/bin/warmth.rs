//! `cargo run --release -p e2e --bin warmth -- [SECONDS] [WORKING-SET-MIB]`: a disk moves, and its guest reads its working set at
//! random, one read after the other: how many of them hit in each second before and after, under each strategy. It needs
//! `hearth` built with the same profile, or `$HEARTH_BIN`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::{Image, Lab, RoamingPair, RoamingSettings, Session, Words, scenario};

const BLOCK: u64 = 4096;
const SECONDS: u64 = 15;
const WORKING_SET_MIB: u64 = 256;

/// Reads of a second.
struct Second {
    reads: u64,
    hit_percent: f64,
    median: Duration,
    slowest_of_hundred: Duration,
}

/// Random places of a working set.
struct Dice {
    state: u64,
    blocks: u64,
}

impl Dice {
    fn block(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) % self.blocks
    }
}

/// Blocks that guests read of the disk at a host: from the cache, and in all.
fn counted(pair: &mut RoamingPair, at: usize) -> anyhow::Result<(u64, u64)> {
    let shown = pair.shown(at)?;
    let counter = |name: &str| {
        let value = &shown["counters"][name];
        value
            .as_u64()
            .with_context(|| format!("{name} in {shown:#}"))
    };
    let hits = counter("read_block_hits")?;
    Ok((hits, hits + counter("read_block_misses")?))
}

fn second(
    pair: &mut RoamingPair,
    at: usize,
    guest: &mut Session,
    dice: &mut Dice,
) -> anyhow::Result<Second> {
    let before = counted(pair, at)?;
    let began = Instant::now();
    let mut times = Vec::new();
    while began.elapsed() < Duration::from_secs(1) {
        let block = dice.block();
        let asked = Instant::now();
        guest.read(block * BLOCK, BLOCK)?;
        times.push(asked.elapsed());
    }
    let after = counted(pair, at)?;
    times.sort_unstable();
    let of_hundred = |rank: usize| times[(times.len() * rank / 100).min(times.len() - 1)];
    let (hits, all) = (after.0 - before.0, after.1 - before.1);
    #[allow(clippy::cast_precision_loss, reason = "a share is shown")]
    let hit_percent = 100.0 * hits as f64 / all.max(1) as f64;
    Ok(Second {
        reads: times.len() as u64,
        hit_percent,
        median: of_hundred(50),
        slowest_of_hundred: of_hundred(99),
    })
}

fn show(when: &str, second: &Second) {
    let micros = |time: Duration| time.as_micros();
    println!(
        "  {when:>6}  {:>7} reads  {:>6.2} % hit  median {:>6} us  p99 {:>7} us",
        second.reads,
        second.hit_percent,
        micros(second.median),
        micros(second.slowest_of_hundred)
    );
}

fn moved(lab: &Lab, strategy: &'static str, seconds: u64, set_mib: u64) -> anyhow::Result<()> {
    println!("{strategy}:");
    let image = Image::new(lab, "origin.raw", set_mib)?;
    let settings = RoamingSettings {
        write_policy: "through",
        strategy,
        flash_mib: set_mib * 2 + 256,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start_over(lab, image, settings)?;
    let blocks = set_mib << 20 >> 12;
    let mut dice = Dice { state: 7, blocks };
    let mut source = pair.client(0)?;
    for _ in 0..2 {
        for piece in 0..set_mib {
            source.read(piece << 20, 1 << 20)?;
        }
    }
    for _ in 0..3 {
        show("before", &second(&mut pair, 0, &mut source, &mut dice)?);
    }
    let mut guest = pair.client(1)?;
    if strategy == "live" {
        let began = Instant::now();
        while !pair.log(1)?.contains("cache is copied ahead") {
            show("ahead", &second(&mut pair, 0, &mut source, &mut dice)?);
        }
        println!("  copied ahead within {} ms", began.elapsed().as_millis());
    }
    source.flush()?;
    source.close()?;
    let moving = Instant::now();
    guest.write(0, &vec![1; 4096])?;
    println!("  its first write took {} ms", moving.elapsed().as_millis());
    for at in 1..=seconds {
        show(
            &format!("{at} s"),
            &second(&mut pair, 1, &mut guest, &mut dice)?,
        );
    }
    let log = pair.log(1)?;
    for line in log.lines().filter(|line| line.contains("cache has come")) {
        println!("  {line}");
    }
    guest.close()?;
    pair.stop_both()
}

fn main() -> anyhow::Result<()> {
    let words = Words::of_process();
    let (seconds, set_mib) = (words.number(0, SECONDS)?, words.number(1, WORKING_SET_MIB)?);
    println!("a working set of {set_mib} MiB, {seconds} s after the move");
    for strategy in ["none", "hotlist", "on-demand", "live"] {
        scenario(RoamingPair::TOOLS, |lab| {
            moved(lab, strategy, seconds, set_mib)
        });
    }
    Ok(())
}
