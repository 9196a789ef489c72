//! Every write and flush that reaches flash and origin of a disk under write-back is recorded; then
//! the power is cut at moments all over the record, each time with other parts of what was not
//! durable lost. The origin alone is a disk that its client could have left behind; the cache that
//! recovers from flash and origin of the same moment has everything that was promised by then, and
//! brings it to the origin. Once with numbered versions, once with a guest's ext4 and database.
//!
//! `HEARTH_CUTS=1000 cargo nextest run -p e2e --profile long back_recorded::` is the long
//! form.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use e2e::{
    Back, CrashedExt4, DiskSettings, Flash, GUEST_TOOLS, Guest, GuestKit, Hearth, HearthSettings,
    Image, LONG, Lab, Origin, OriginSettings, Point, RECORDER_TOOLS, Recorder, Recording, Versions,
    monotonic, run, scenario, wait_until,
};

/// Cuts after which the origin is looked at alone, unless the environment says otherwise.
const CUTS: usize = 16;
/// One in so many is also recovered with its flash.
const RECOVERED: usize = 4;
const FLASH_MIB: u64 = 96;

fn cuts() -> anyhow::Result<usize> {
    match std::env::var("HEARTH_CUTS") {
        Ok(text) => text.parse().context("HEARTH_CUTS"),
        Err(_) => Ok(CUTS),
    }
}

/// A daemon on recorded flash and a recorded origin.
struct Recorded<'a> {
    lab: &'a Lab,
    recorder: Recorder<'a>,
    hearth: Hearth,
    /// Operations before the disk was served: its owner's record is the same from then on.
    from: usize,
}

fn settings(lab: &Lab, flash: &Flash) -> HearthSettings {
    let uri = format!(
        "nbd+unix:///disk?socket={}",
        lab.path("origin.sock").display()
    );
    let disk = DiskSettings::on_nbd(Back::DISK, &uri)
        .key("write_policy = 'back'")
        .key("[disk.write_back]")
        .key("dirty_max = '32MiB'")
        .key("age_max = '300ms'")
        .key("idle_after = '5ms'");
    HearthSettings::new(flash).disk(&disk)
}

impl<'a> Recorded<'a> {
    fn start(lab: &'a Lab, image: &Image) -> anyhow::Result<Self> {
        let flash = Flash::format(lab, "new-flash.img", FLASH_MIB)?;
        let recorder = Recorder::start(lab, &flash, image)?;
        let hearth = Hearth::start(lab, &settings(lab, &recorder.flash))?;
        let from = recorder.operations()?;
        copy_folder(&lab.path("state"), &lab.path("state-then"))?;
        Ok(Self {
            lab,
            recorder,
            hearth,
            from,
        })
    }

    fn finish(self) -> anyhow::Result<(Recording<'a>, usize)> {
        self.hearth.kill()?;
        let lost = self.lab.path("flash.lasting");
        std::fs::remove_file(lost).context("a killed daemon's memory")?;
        Ok((self.recorder.finish()?, self.from))
    }
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    let _ = std::fs::remove_dir_all(to);
    run(Command::new("cp").arg("-a").arg(from).arg(to)).map(drop)
}

/// Recovers from a power cut, gives the disk to `check`, and then what its origin has become.
fn recover(
    lab: &Lab,
    recording: &Recording<'_>,
    point: Point,
    seed: u64,
    check: impl Fn(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let flash = recording.flash_at(point, seed, "cut-flash.img")?;
    let image = recording.origin_at(point, seed, "cut-origin.raw")?;
    copy_folder(&lab.path("state-then"), &lab.path("state"))?;
    let _ = std::fs::remove_file(lab.path("flash.lasting"));
    let mut origin = Origin::start(lab, &image, OriginSettings::default())?;
    let hearth = Hearth::start(lab, &settings(lab, &flash))?;
    let copy = lab.path("cut-disk.raw");
    let _ = std::fs::remove_file(&copy);
    run(Command::new("nbdcopy")
        .arg(hearth.uri(Back::DISK))
        .arg(&copy))?;
    check(&copy).context("the disk that was recovered")?;
    hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
    image.check_equals_export(lab, &hearth.uri(Back::DISK))?;
    hearth.stop()?;
    origin.kill()
}

/// Cuts all over the record: `alone` is given each origin, `recovered` some disks.
fn cut_everywhere(
    lab: &Lab,
    (recording, from): (Recording<'_>, usize),
    alone: impl Fn(&Path, Point) -> anyhow::Result<()>,
    recovered: impl Fn(&Path, Point) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let cuts = cuts()?;
    // What an order that is wrong shows: right after one of the origin's writes, or within its flush.
    let of_origin = recording.points(from, cuts / 2, |point| point.is_origin);
    let any = recording.points(from, cuts - cuts / 2, |_| true);
    ensure!(!of_origin.is_empty(), "nothing reached the origin");
    let all = of_origin.into_iter().zip(any).flat_map(|(a, b)| [a, b]);
    let mut tried = 0;
    for (number, point) in (0_u64..).zip(all) {
        let what = || format!("a power cut at {point:?}, seed {number}");
        let image = recording.origin_at(point, number, "cut-alone.raw")?;
        alone(image.path(), point)
            .context("the origin alone")
            .with_context(what)?;
        if tried % RECOVERED == 0 {
            recover(lab, &recording, point, number, |disk| {
                recovered(disk, point)
            })
            .with_context(what)?;
        }
        tried += 1;
    }
    ensure!(tried == cuts, "{tried} power cuts of {cuts}");
    Ok(())
}

fn tools<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [RECORDER_TOOLS, &["nbdkit", "nbdsh"], more].concat()
}

#[test]
fn every_cut_leaves_versions_that_were_promised() {
    if !Recorder::is_possible() {
        return;
    }
    scenario(&tools(&[]), |lab| {
        let image = Image::new(lab, "new-origin.raw", 16)?;
        let mut recorded = Recorded::start(lab, &image)?;
        let mut versions = Versions::new(lab);
        versions.record(&recorded.hearth.uri(Back::DISK), 3)?;
        // Some more of it reaches the origin while nobody writes.
        recorded
            .hearth
            .command(&["disk", "flush", Back::DISK, "--wait"])?;
        ensure!(recorded.hearth.is_running());
        let judge = |what: &'static str| {
            let versions = &versions;
            move |disk: &Path, point: Point| versions.judge(what, disk, point.at)
        };
        cut_everywhere(lab, recorded.finish()?, judge("origin"), judge("disk"))
    });
}

const DATABASE: &str = "/srv/ledger.db";

#[test]
fn every_cut_leaves_a_file_system_and_a_database_that_are_sound() {
    if !Recorder::is_possible() {
        return;
    }
    scenario(&tools(&[GUEST_TOOLS, &["debugfs"]].concat()), |lab| {
        let kit = GuestKit::build()?;
        let image = kit.disk(lab)?;
        let recorded = Recorded::start(lab, &image)?;
        let socket = recorded.hearth.nbd_socket();
        let steps = format!(
            "commit,db={DATABASE},transactions=40+commit,db={DATABASE},transactions=40,wal=1"
        );
        let guest = Guest::boot(lab, &kit, socket, Back::DISK, "guest", &steps)?;
        // When the console had named how many transactions.
        let mut seen = vec![(0.0, 0)];
        wait_until("the guest to end", LONG, || {
            let committed = guest.committed();
            if committed > seen[seen.len() - 1].1 {
                seen.push((monotonic(), committed));
            }
            Ok(guest.console().contains("PROBE end"))
        })?;
        guest.finish()?;
        let promised = |point: Point| {
            let by_then = seen.iter().take_while(|(at, _)| *at <= point.at);
            by_then.map(|(_, committed)| *committed).max().unwrap_or(0)
        };
        let alone = |disk: &Path, _: Point| {
            let disk = CrashedExt4::at(disk);
            disk.check()?;
            disk.account_if_any(lab, &kit, DATABASE)
        };
        let recovered = |disk: &Path, point: Point| {
            let disk = CrashedExt4::at(disk);
            disk.check()?;
            match promised(point) {
                0 => disk.account_if_any(lab, &kit, DATABASE),
                through => disk.account(lab, &kit, DATABASE, through).map(drop),
            }
        };
        cut_everywhere(lab, recorded.finish()?, alone, recovered)
    });
}
