//! What miners fetch into memory ahead of a guest: fewer requests of a slow origin and shorter waits where the guest reads
//! on, and little wasted where it does not.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{Hearth, Lab, OriginSettings, Session, Stack, StackSettings, scenario};
use serde_json::Value;

const BLOCK: u64 = 4096;
const READS: u64 = 512;

/// A disk behind an origin of which each read takes a while.
fn start(lab: &Lab) -> anyhow::Result<Stack> {
    let origin = OriginSettings {
        delay: Some("3ms"),
        ..OriginSettings::default()
    };
    let settings = StackSettings {
        origin,
        ..StackSettings::default()
    };
    Stack::start(lab, &settings)
}

fn set(hearth: &Hearth, miners: &str) -> anyhow::Result<()> {
    hearth.command(&["cache", "set", "flash", "--prefetch", miners])?;
    Ok(())
}

/// What became of guesses.
fn prefetch(hearth: &Hearth) -> anyhow::Result<Value> {
    let shown = hearth.json(&["vm", "show", Stack::DISK])?;
    Ok(shown["shares"][0]["prefetch"].clone())
}

fn count(of: &Value, key: &str) -> anyhow::Result<u64> {
    of[key].as_u64().with_context(|| format!("{key} of {of}"))
}

/// Reads these blocks one after the other and compares them with the image: how many requests the origin had, and how
/// long it took.
fn read(stack: &mut Stack, blocks: impl Iterator<Item = u64>) -> anyhow::Result<(usize, Duration)> {
    let mut guest = Session::open(&stack.socket(), Stack::DISK)?;
    let (before, began) = (stack.origin.requests()?.len(), Instant::now());
    for block in blocks {
        let bytes = guest.read(block * BLOCK, BLOCK)?;
        let right = stack.image.read(block * BLOCK, bytes.len())?;
        ensure!(bytes == right, "block {block}");
    }
    let took = began.elapsed();
    guest.close()?;
    Ok((stack.origin.reads_since(before)?.len(), took))
}

#[test]
fn a_guest_that_reads_on_finds_it_in_memory() {
    scenario(&["nbdkit"], |lab| {
        let mut stack = start(lab)?;
        ensure!(
            prefetch(stack.hearth())?.is_null(),
            "nobody guesses unless told to"
        );
        let (without, waited) = read(&mut stack, 0..READS)?;
        ensure!(without == usize::try_from(READS)?, "{without} requests");
        set(stack.hearth(), "readahead")?;
        let (with, waited_less) = read(&mut stack, READS..2 * READS)?;
        println!("{without} requests in {waited:?}, {with} in {waited_less:?}");
        ensure!(with * 4 < without, "{with} requests instead of {without}");
        let of = prefetch(stack.hearth())?;
        ensure!(count(&of, "used_blocks")? > READS * 3 / 4, "{of}");
        ensure!(count(&of, "wasted_blocks")? <= 32, "{of}");
        let precision = of["precision"].as_f64();
        ensure!(precision.is_some_and(|part| part > 0.8), "{of}");
        let shown = stack.hearth().command(&["vm", "show", Stack::DISK])?.stdout;
        ensure!(shown.contains("guesses refused"), "{shown}");
        let seen = ["top", "--vms", "--once", "--interval", "100ms"];
        let seen = stack.hearth().command(&seen)?.stdout;
        ensure!(seen.contains("PRECISION"), "{seen}");
        // What was read entered the flash as without: nothing is asked of the origin again. Miners would ask for what
        // follows, which nobody has read and which has left memory.
        set(stack.hearth(), "none")?;
        let (again, _) = read(&mut stack, 0..2 * READS)?;
        ensure!(again == 0, "{again} requests");
        let refused =
            stack
                .hearth()
                .refused_command(&["cache", "set", "flash", "--prefetch", "readahed"])?;
        ensure!(refused.stderr.contains("readahead"), "{}", refused.stderr);
        Ok(())
    });
}

#[test]
fn a_guest_that_jumps_about_pays_for_few_guesses() {
    scenario(&["nbdkit"], |lab| {
        let mut stack = start(lab)?;
        set(stack.hearth(), "sequential:n=8,readahead,vip,mithril")?;
        // Each block once, far from the one before: no guess is right.
        let blocks = (0..READS).map(|number| number * 7919 % 16_381);
        read(&mut stack, blocks)?;
        let of = prefetch(stack.hearth())?;
        let wasted = count(&of, "wasted_blocks")?;
        let fetched = count(&of, "fetched_blocks")?;
        // A tenth of what was read, the bucket, and what is in memory still.
        ensure!(wasted <= READS / 10 + 256, "{of}");
        ensure!(fetched <= wasted + 64 + count(&of, "used_blocks")?, "{of}");
        Ok(())
    });
}
