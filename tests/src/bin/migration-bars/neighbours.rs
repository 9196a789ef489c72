//! What other disks of both hosts notice of a cache that is copied from one to the other.

use std::time::Duration;

use anyhow::Context as _;
use e2e::{Fio, Image, Lab, RoamingPair, RoamingSettings, scenario, wait_until};
use serde_json::Value;

/// How much is copied: enough that it takes longer than a turn.
const COPIED_MIB: u64 = 2048;
/// How much the neighbours read.
const NEIGHBOUR_MIB: u64 = 128;
const TURN_SECONDS: u32 = 5;
const NEIGHBOUR: &str = "neighbour";

/// Reads of one host's neighbour: how many in a second, and the slowest of a hundred in microseconds.
struct Reads {
    iops: f64,
    slowest_of_hundred: f64,
}

/// Loads a disk of each host to half of what it can do, in turn while nothing is copied and while a cache is.
pub(crate) fn measure(turns: u32) {
    println!("| turn | host | reads a second | p99 | p99 while a cache is copied | ratio |");
    println!("|---|---|---|---|---|---|");
    for turn in 1..=turns {
        scenario(&["openssl", "fio"], |lab| measured(lab, turn));
    }
}

fn measured(lab: &Lab, turn: u32) -> anyhow::Result<()> {
    let image = Image::new(lab, "origin.raw", COPIED_MIB)?;
    let settings = RoamingSettings {
        write_policy: "through",
        flash_mib: COPIED_MIB * 2 + 1024,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start_over(lab, image, settings)?;
    let mut uris = Vec::new();
    for at in 0..2 {
        let other = Image::new(pair.lab(at), "neighbour.raw", NEIGHBOUR_MIB)?;
        let origin = other.path().display().to_string();
        pair.host(at)
            .command(&["disk", "attach", NEIGHBOUR, "--origin", &origin])?;
        uris.push(pair.host(at).uri(NEIGHBOUR));
    }
    let mut source = pair.client(0)?;
    for _ in 0..2 {
        for piece in 0..COPIED_MIB {
            source.read(piece << 20, 1 << 20)?;
        }
    }
    // Warm, and at full speed.
    let mut half = Vec::new();
    for uri in &uris {
        let warm = Fio::new(lab, "warm", uri)
            .with("rw=read")
            .with("bs=1m")
            .with("loops=2");
        warm.run()?;
        half.push(reads(lab, uri, None)?.iops / 2.0);
    }
    let before = both(lab, &uris, &half)?;
    let guest = pair.client(1)?;
    wait_until("the cache to be copied", Duration::from_secs(10), || {
        let shown = pair.host(1).json(&["migrate", "show", RoamingPair::DISK])?;
        Ok(shown["cache_move"]["came_bytes"].as_u64() > Some(0))
    })?;
    let meanwhile = both(lab, &uris, &half)?;
    anyhow::ensure!(
        !pair.log(1)?.contains("cache is copied ahead"),
        "the cache was copied before its neighbours had read for {TURN_SECONDS} s"
    );
    for (at, (before, meanwhile)) in before.iter().zip(&meanwhile).enumerate() {
        println!(
            "| {turn} | {} | {:.0} | {:.0} us | {:.0} us | {:.2} |",
            RoamingPair::NAMES[at],
            half[at],
            before.slowest_of_hundred,
            meanwhile.slowest_of_hundred,
            meanwhile.slowest_of_hundred / before.slowest_of_hundred
        );
    }
    guest.close()?;
    source.close()?;
    pair.kill(0)?;
    pair.kill(1)
}

/// Both neighbours at once, each at its rate.
fn both(lab: &Lab, uris: &[String], rates: &[f64]) -> anyhow::Result<Vec<Reads>> {
    std::thread::scope(|scope| {
        let jobs: Vec<_> = uris
            .iter()
            .zip(rates)
            .map(|(uri, rate)| scope.spawn(move || reads(lab, uri, Some(*rate))))
            .collect();
        let ended = jobs
            .into_iter()
            .map(|job| job.join().expect("fio's thread does not panic"));
        ended.collect()
    })
}

/// Random reads of a disk, at full speed or begun at this rate whether or not earlier ones have ended.
fn reads(lab: &Lab, uri: &str, rate: Option<f64>) -> anyhow::Result<Reads> {
    let mut fio = Fio::new(lab, "neighbour", uri)
        .with("rw=randread")
        .with("bs=4k")
        .with("iodepth=8")
        .with("time_based")
        .with(&format!("runtime={TURN_SECONDS}"))
        .with("output-format=json");
    if let Some(rate) = rate {
        fio = fio
            .with(&format!("rate_iops={rate:.0}"))
            .with("rate_process=poisson");
    }
    let said = fio.run()?.stdout;
    let from = said.find('{').context("fio says JSON")?;
    let report: Value = serde_json::from_str(&said[from..]).with_context(|| said.clone())?;
    let read = &report["jobs"][0]["read"];
    let number = |value: &Value| value.as_f64().with_context(|| format!("{read:#}"));
    Ok(Reads {
        iops: number(&read["iops"])?,
        slowest_of_hundred: number(&read["clat_ns"]["percentile"]["99.000000"])? / 1000.0,
    })
}
