//! Copies in memory of what guests read: found there when it is read again, right after writes, and given back
//! when the operator takes the memory away.

use anyhow::ensure;
use e2e::{Hearth, SHORT, Session, Stack, StackSettings, scenario, wait_until};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 256;

/// Blocks that were read from copies, and how many copies there are.
fn hot(hearth: &Hearth) -> anyhow::Result<(u64, u64)> {
    let disks = hearth.json(&["disk", "list"])?;
    let hits = &disks["disks"][0]["counters"]["read_block_hot_hits"];
    let status = hearth.json(&["status"])?;
    let frames = &status["caches"][0]["memory_frames"]["hot"];
    Ok((hits.as_u64().unwrap_or(0), frames.as_u64().unwrap_or(0)))
}

fn set(hearth: &Hearth, frames: &str) -> anyhow::Result<()> {
    hearth.command(&["cache", "set", "flash", "--frames", frames])?;
    Ok(())
}

#[test]
fn what_is_read_again_comes_from_memory_until_it_is_taken_away() {
    scenario(&["nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let mut guest = Session::open(&stack.socket(), Stack::DISK)?;
        let mut read_all = |stack: &Stack| -> anyhow::Result<()> {
            for block in 0..BLOCKS {
                let bytes = guest.read(block * BLOCK, BLOCK)?;
                let right = stack.image.read(block * BLOCK, bytes.len())?;
                ensure!(bytes == right, "block {block}");
            }
            Ok(())
        };
        for _ in 0..2 {
            read_all(&stack)?;
        }
        ensure!(hot(stack.hearth())? == (0, 0), "there is no memory for it");
        set(stack.hearth(), "64MiB")?;
        for _ in 0..4 {
            read_all(&stack)?;
        }
        let (hits, frames) = hot(stack.hearth())?;
        ensure!(
            hits > BLOCKS && frames > BLOCKS / 2,
            "{hits} hits, {frames} copies"
        );
        let mut writer = Session::open(&stack.socket(), Stack::DISK)?;
        for block in 0..BLOCKS {
            writer.write(block * BLOCK, &[7; 4096])?;
            let bytes = writer.read(block * BLOCK, BLOCK)?;
            ensure!(
                bytes == [7; 4096],
                "block {block} as it was before it was written"
            );
        }
        writer.flush()?;
        let too_little = ["cache", "set", "flash", "--frames", "64KiB"];
        let refused = stack.hearth().refused_command(&too_little)?;
        ensure!(
            refused.stderr.contains("lower staging"),
            "{}",
            refused.stderr
        );
        set(stack.hearth(), "auto")?;
        wait_until("the copies to be given back", SHORT, || {
            Ok(hot(stack.hearth())?.1 == 0)
        })?;
        read_all(&stack)?;
        writer.close()?;
        guest.close()
    });
}
