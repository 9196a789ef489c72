//! `cargo run --release -p e2e --bin pause -- [MIB] [DELAY-MS] [SECONDS]`: a disk under write-back moves while its origin takes
//! so long for each request. Its guest writes at random for so many seconds while a VM waits at the other host, then stops.
//! How long the VM waits for its disk, when what the origin lacks is drained and when it is shipped. It needs `hearth` built
//! with the same profile, or `$HEARTH_BIN`, and root for the origin's mount.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::{
    Image, Lab, MOUNT_TOOLS, RoamingPair, RoamingSettings, SlowOrigin, Words, block, can_mount,
    scenario,
};

const BLOCK: u64 = 4096;

/// What is measured.
#[derive(Clone, Copy)]
struct Plan {
    mib: u64,
    delay_ms: u64,
    seconds: u64,
}

fn moved(lab: &Lab, dirty: &'static str, plan: Plan) -> anyhow::Result<()> {
    let image = Image::new(lab, "image.raw", plan.mib)?;
    let slow = SlowOrigin::mount(lab, &image, &format!("{}ms", plan.delay_ms))?;
    let settings = RoamingSettings {
        dirty,
        dirty_max: ["256MiB"; 2],
        flash_mib: plan.mib * 2 + 1024,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start_over(lab, Image::existing(slow.file())?, settings)?;
    let mut source = pair.client(0)?;
    let mut guest = pair.client(1)?;
    let (began, mut state, mut written) = (Instant::now(), 7_u64, 0_u64);
    while began.elapsed() < Duration::from_secs(plan.seconds) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let number = (state >> 33) % (plan.mib << 20 >> 12);
        source.write(number * BLOCK, &block(number, 1))?;
        written += 1;
        if written.is_multiple_of(16) {
            source.flush()?;
            // 2 MiB a second at most.
            std::thread::sleep(Duration::from_millis(30));
        }
    }
    source.flush()?;
    let shown = pair.shown(0)?;
    let left = shown["write_back"]["dirty_bytes"].as_u64().unwrap_or(0);
    let stopped = Instant::now();
    let mut tries = 0_u32;
    let waited = loop {
        tries += 1;
        if guest.try_write(0, &block(0, 2))?.is_ok() {
            break stopped.elapsed();
        }
        if stopped.elapsed() > Duration::from_mins(10) {
            anyhow::bail!("the disk does not come");
        }
    };
    let shown = pair.host(0).json(&["migrate", "show", RoamingPair::DISK])?;
    let held = shown["last_hand_over"]["held_seconds"].as_f64();
    println!(
        "| {dirty} | {} ms | {:.1} MiB | {:.1} MiB | {:.3} s | {:.3} s | {} |",
        plan.delay_ms,
        mib(written * BLOCK),
        mib(left),
        waited.as_secs_f64(),
        held.context("how long requests were held")?,
        tries - 1,
    );
    pair.kill(1)?;
    pair.kill(0)
}

#[allow(clippy::cast_precision_loss, reason = "it is shown with one place")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn main() -> anyhow::Result<()> {
    let words = Words::of_process();
    let plan = Plan {
        mib: words.number(0, 64)?,
        delay_ms: words.number(1, 10)?,
        seconds: words.number(2, 5)?,
    };
    if !can_mount("a slow origin") {
        return Ok(());
    }
    let tools = [RoamingPair::TOOLS, MOUNT_TOOLS].concat();
    println!("| dirty | origin | written | left | the VM waited | requests held | failed |");
    println!("|---|---|---|---|---|---|---|");
    for dirty in ["drain", "ship"] {
        scenario(&tools, |lab| moved(lab, dirty, plan));
    }
    Ok(())
}
