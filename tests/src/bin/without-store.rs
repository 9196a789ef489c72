//! `cargo run --release -p e2e --bin without-store -- [MINUTES] [BASE]`: two daemons of two clusters are loaded at the same time,
//! each on an export of its own under write-back. After BASE minutes etcd of the first stands still, for MINUTES. What each
//! minute's requests took, as ratios of the first to the second. It needs `hearth`, or `$HEARTH_BIN`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a report for who runs it")]

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Etcd, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, Words,
    hearth, scenario,
};
use serde_json::Value;

const MINUTES: u64 = 10;
const BASE: u64 = 5;
const DISK: &str = "disk";

/// A daemon that is in a cluster of its own.
struct Host {
    etcd: Etcd,
    hearth: Hearth,
    target: String,
    _origin: Origin,
}

impl Host {
    fn start(lab: &Lab, name: &str) -> anyhow::Result<Self> {
        let own = lab.host(name)?;
        let etcd = Etcd::start(&own, 1)?;
        let image = Image::new(&own, "origin.raw", 256)?;
        let origin = Origin::start(&own, &image, OriginSettings::default())?;
        let flash = Flash::format(&own, "flash.img", 512)?;
        let disk = DiskSettings::on_nbd(DISK, &origin.uri()).key("write_policy = 'back'");
        let store = etcd.as_section(&format!("host = '{name}'"));
        let settings = HearthSettings::new(&flash).section(&store).disk(&disk);
        let hearth = Hearth::start(&own, &settings)?;
        let socket = hearth.nbd_socket().display().to_string();
        Ok(Self {
            etcd,
            hearth,
            target: format!("nbd+unix:///{DISK}?socket={socket}"),
            _origin: origin,
        })
    }

    /// A minute of load. What its reads, writes and flushes took at the 99th percentile, in microseconds.
    fn minute(&self) -> anyhow::Result<[f64; 3]> {
        let load = "--rw randrw --rwmixread 70 --bs 4k --iodepth 4 --rate_iops 400 --fsync 32 --runtime 60 --time_based --json";
        let words = ["bench", &self.target].into_iter().chain(load.split(' '));
        let ran = hearth(&words.collect::<Vec<_>>())?;
        ensure!(ran.code == 0, "{}", ran.stderr);
        let said: Value = serde_json::from_str(&ran.stdout).context(ran.stderr)?;
        let job = &said["jobs"][0];
        ensure!(job["error"] == 0, "{said}");
        let p99 = |of: &Value| -> anyhow::Result<f64> {
            let nanoseconds = of["percentile"]["99.000000"].as_f64();
            Ok(nanoseconds.with_context(|| said.to_string())? / 1000.0)
        };
        let of = [
            &job["read"]["clat_ns"],
            &job["write"]["clat_ns"],
            &job["sync"]["lat_ns"],
        ];
        let [read, write, sync] = of.map(p99);
        Ok([read?, write?, sync?])
    }
}

/// The median of some ratios, the least and the most.
fn spread(ratios: &mut [f64]) -> String {
    ratios.sort_by(f64::total_cmp);
    let median = ratios.get(ratios.len() / 2).copied().unwrap_or_default();
    match ratios {
        [least, .., most] => format!("{median:.2} ({least:.2} to {most:.2})"),
        _ => "-".to_owned(),
    }
}

fn main() -> anyhow::Result<()> {
    let words = Words::of_process();
    let (minutes, base) = (words.number(0, MINUTES)?, words.number(1, BASE)?);
    let tools = [Etcd::TOOLS, &["nbdkit"]].concat();
    scenario(&tools, |lab| {
        let [one, other] = [Host::start(lab, "node-a")?, Host::start(lab, "node-b")?];
        println!("| minute | etcd | read, us | other | write, us | other | flush, us | other |");
        println!("|---|---|---|---|---|---|---|---|");
        let mut ratios = [[const { Vec::new() }; 3], [const { Vec::new() }; 3]];
        for minute in 0..base + minutes {
            let is_away = minute >= base;
            if minute == base {
                one.etcd.pause()?;
            }
            let (ours, theirs) = std::thread::scope(|scope| {
                let theirs = scope.spawn(|| other.minute());
                let ours = one.minute();
                (ours, theirs.join())
            });
            let ours = ours?;
            let theirs = theirs.map_err(|_| anyhow::anyhow!("the load panicked"))??;
            let cells: Vec<String> = ours
                .iter()
                .zip(&theirs)
                .map(|(ours, theirs)| format!("{ours:.0} | {theirs:.0}"))
                .collect();
            let etcd = if is_away { "stands still" } else { "answers" };
            println!("| {minute} | {etcd} | {} |", cells.join(" | "));
            for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                ratios[usize::from(is_away)][at].push(ours / theirs);
            }
        }
        for (at, etcd) in ["answers", "stands still"].into_iter().enumerate() {
            let [read, write, sync] = &mut ratios[at];
            println!(
                "etcd {etcd}: p99 beside the other daemon's: reads {}, writes {}, flushes {}",
                spread(read),
                spread(write),
                spread(sync)
            );
        }
        one.etcd.go_on()?;
        one.hearth.stop()?;
        other.hearth.stop()?;
        Ok(())
    });
    Ok(())
}
