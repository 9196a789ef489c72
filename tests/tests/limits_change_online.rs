//! Limits of a disk hold over NBD and over vhost-user, change while the disk is served, hold after a restart, and leave other disks alone.

use anyhow::{Context, ensure};
use e2e::{DiskSettings, Flash, Hearth, HearthSettings, Image, RingGuest, nbdsh, scenario};
use serde_json::Value;

/// Requests that a client with a queue of eight is answered within three seconds. The other disk is read meanwhile, from
/// a connection of its own: 500 times.
const COUNT: &str = "
import time
def count(h, seconds):
    asked, done, pending, end = 0, 0, set(), time.monotonic() + seconds
    while time.monotonic() < end:
        while len(pending) < 8:
            pending.add(h.aio_pread(nbd.Buffer(4096), asked % 256 * 4096))
            asked += 1
        h.poll(50)
        answered = {one for one in pending if h.aio_command_completed(one)}
        pending -= answered
        done += len(answered)
    return done
";

/// What a client is answered in three seconds, with one more line of the script after that.
fn answered(hearth: &Hearth, more: &str) -> anyhow::Result<u64> {
    let script = format!("{COUNT}\nprint(count(h, 3))\n{more}");
    let output = nbdsh(Some(&hearth.uri("web")), &script)?;
    let first = output.stdout.lines().next().context("a count")?;
    Ok(first.parse()?)
}

fn limits(hearth: &Hearth, disk: &str) -> anyhow::Result<Value> {
    Ok(hearth.json(&["disk", "show", disk])?["limits"].clone())
}

#[test]
fn a_limit_holds_changes_online_and_survives_a_restart() {
    scenario(&["nbdsh"], |lab| {
        let (web, other) = (Image::new(lab, "web", 16)?, Image::new(lab, "other", 16)?);
        let flash = Flash::format(lab, "flash.img", 128)?;
        let settings = |keys: &str| {
            HearthSettings::new(&flash)
                .disk(&DiskSettings::on_file("web", web.path()))
                .disk(&DiskSettings::on_file("other", other.path()).key(keys))
        };
        let hearth = Hearth::start(lab, &settings("limits.burst = '1s'"))?;
        let free = answered(&hearth, "")?;

        hearth.command(&["disk", "set", "web", "--iops", "50", "--burst", "100ms"])?;
        // What is asked of the other disk waits for nobody: the limited one has its eight requests outstanding.
        let beside = format!(
            "other = nbd.NBD()\nother.connect_uri('{}')\n\
             print([len(other.pread(4096, 0)) for _ in range(500)][-1])",
            hearth.uri("other")
        );
        let limited = answered(&hearth, &beside)?;
        ensure!((75..=300).contains(&limited), "{limited} of 155");
        ensure!(
            free > 2 * limited,
            "{free} without a limit, {limited} with one"
        );
        let shown = limits(&hearth, "web")?;
        ensure!(
            shown["iops"] == 50 && shown["throttled_requests"].as_u64() > Some(50),
            "{shown}"
        );
        ensure!(limits(&hearth, "other")?["throttled_requests"] == 0);
        let metrics = hearth.metrics()?;
        let waited = metrics.lines().any(|line| {
            line.starts_with("hearth_disk_throttled_seconds_total{disk=\"web\"")
                && !line.ends_with(" 0")
        });
        ensure!(waited, "{metrics}");

        // 4 KiB each: as many bytes a second as 25 requests.
        hearth.command(&[
            "disk",
            "set",
            "web",
            "--iops",
            "none",
            "--bytes-per-second",
            "100KiB",
        ])?;
        let limited = answered(&hearth, "")?;
        ensure!((37..=150).contains(&limited), "{limited} of 78");

        ensure!(hearth.stop()?.success());
        let hearth = Hearth::start(lab, &settings("limits.burst = '1s'"))?;
        let shown = limits(&hearth, "web")?;
        ensure!(
            shown["iops"].is_null() && shown["bytes_per_second"] == 100 << 10,
            "{shown}"
        );

        settings("limits.iops = '70'").write(lab)?;
        hearth.command(&["reload"])?;
        ensure!(limits(&hearth, "other")?["iops"] == 70);
        hearth.command(&["disk", "set", "web", "--reset"])?;
        ensure!(limits(&hearth, "web")?["bytes_per_second"].is_null());
        ensure!(answered(&hearth, "")? > 2 * limited);
        Ok(())
    });
}

#[test]
fn a_limit_holds_over_vhost_user() {
    scenario(&[], |lab| {
        let image = Image::new(lab, "web", 16)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let socket = lab.path("web.sock");
        let disk = DiskSettings::on_file("web", image.path())
            .key("limits.iops = '20'")
            .key("limits.burst = '0s'")
            .vhost_user(&socket, "");
        let hearth = Hearth::start(lab, &HearthSettings::new(&flash).disk(&disk))?;
        let mut guest = RingGuest::connect(&socket)?;
        guest.boot()?;
        for _ in 0..10 {
            ensure!(guest.try_read(0, 4096)?.is_ok(), "a read over vhost-user");
        }
        let shown = limits(&hearth, "web")?;
        ensure!(shown["throttled_requests"].as_u64() > Some(4), "{shown}");
        guest.stop()
    });
}
