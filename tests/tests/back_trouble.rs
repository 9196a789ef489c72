//! What goes wrong around a disk under write-back, as its guest and its operator see it: the table
//! *Write-back* in `book/src/trouble.md`, row by row. (Kills, a start without the flash, `recover`
//! and moves between caches have files of their own.)

use anyhow::ensure;
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Lab, MOUNT_TOOLS, Origin,
    OriginSettings, Pace, WeakFlash, block, can_mount, nbdsh, reads, scenario, wait_until, writes,
};
use serde_json::Value;

const OTHER: &str = "other";

/// A disk that has nothing to do with the trouble.
fn bystander(lab: &Lab) -> anyhow::Result<DiskSettings> {
    let image = Image::new(lab, "other.raw", 16)?;
    Ok(DiskSettings::on_file(OTHER, image.path()))
}

/// It reads and writes.
fn goes_on(hearth: &Hearth) -> anyhow::Result<()> {
    nbdsh(Some(&hearth.uri(OTHER)), &writes(0, 8, 3))?;
    let script = "assert h.pread(4096, 4096) == bytes([1, 3]) * 2048";
    nbdsh(Some(&hearth.uri(OTHER)), script).map(drop)
}

/// A daemon has ended with twenty blocks that the origin lacks.
fn stopped_with_dirty_blocks(lab: &Lab) -> anyhow::Result<(Image, Flash, HearthSettings)> {
    let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
    let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
    let settings = HearthSettings::new(&flash)
        .disk(&Back::disk(&image, Pace::Held))
        .disk(&bystander(lab)?);
    let hearth = Hearth::start(lab, &settings)?;
    nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 20, 8))?;
    hearth.stop()?;
    Ok((image, flash, settings))
}

fn shown(hearth: &Hearth) -> anyhow::Result<Value> {
    hearth.json(&["disk", "show", Back::DISK])
}

/// The disk waits for its origin, and says why.
fn waits(hearth: &Hearth, why: &str) -> anyhow::Result<()> {
    let shown = shown(hearth)?;
    let reason = shown["reason"].as_str().unwrap_or_default();
    ensure!(
        shown["state"] == "waiting" && reason.contains(why),
        "{shown}"
    );
    ensure!(nbdsh(Some(&hearth.uri(Back::DISK)), "pass").is_err());
    goes_on(hearth)
}

#[test]
fn flash_that_is_gone_locks_the_disk_and_no_other() {
    if !can_mount("flash that is pulled out") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &["nbdsh"]].concat(), |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let mut weak = WeakFlash::format(lab, Back::FLASH_MIB)?;
        let settings = HearthSettings::new(&weak.flash)
            .disk(&Back::disk(&image, Pace::Held))
            .disk(&bystander(lab)?);
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        // More than waits in memory for its chunk.
        nbdsh(Some(&uri), &writes(0, 3000, 5))?;
        weak.pull();
        // The first to touch the flash finds out.
        let lost = nbdsh(Some(&uri), &reads(0, 1, 5));
        ensure!(lost.is_err(), "a lost block was answered");
        // Errors of reads alone are not the end of a flash; one of a write is.
        let taken = nbdsh(Some(&uri), &writes(2000, 1, 6));
        ensure!(taken.is_err(), "a write that nothing keeps was flushed");
        wait_until("the disk to be locked", LONG, || {
            Ok(shown(&hearth)?["write_back"]["state"] == "locked")
        })?;
        // What the origin has is read from there; nothing is written on top of what is lost.
        let word = Image::word(10_000 * 4096).to_le_bytes();
        let intact = format!(
            "assert h.pread(4096, {})[:8] == bytes({word:?})",
            10_000 * 4096
        );
        nbdsh(Some(&uri), &intact)?;
        ensure!(nbdsh(Some(&uri), &writes(2000, 1, 6)).is_err());
        ensure!(nbdsh(Some(&uri), &reads(1, 1, 5)).is_err());
        goes_on(&hearth)?;
        let caches = hearth.json(&["status"])?["caches"].clone();
        ensure!(caches[0]["state"] == "bypassed", "{caches}");
        hearth.kill()?;

        // The origin is as it was, and served again only when somebody says that it is meant.
        let hearth = Hearth::start(lab, &settings.clone().in_trouble(Back::DISK))?;
        waits(&hearth, "hearth recover drop --disk disk")?;
        hearth.stop()?;
        let config = lab.path("hearth.toml").display().to_string();
        let words = ["recover", "drop", "--disk", Back::DISK, "--yes-lose-data"];
        let dropped = e2e::hearth(&[&words[..], &["--config", &config]].concat())?;
        ensure!(dropped.code == 0, "{}", dropped.stderr);
        let hearth = Hearth::start(lab, &settings)?;
        image.check_equals_export(lab, &hearth.uri(Back::DISK))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn a_dirty_log_that_is_full_makes_writes_wait_and_then_fail() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let failing = lab.path("origin-fails");
        let settings = OriginSettings {
            failing_while: Some(failing.clone()),
            ..OriginSettings::default()
        };
        let origin = Origin::start(lab, &image, settings)?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_nbd(Back::DISK, &origin.uri())
            .key("write_policy = 'back'")
            .key("[disk.write_back]")
            .key("dirty_max = '16MiB'")
            .key("age_max = '100ms'")
            .key("stall_max = '2s'");
        let settings = HearthSettings::new(&flash)
            .disk(&disk)
            .disk(&bystander(lab)?);
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        std::fs::write(&failing, "")?;
        let full = "import nbd\ntaken = 0\ntry:\n    for b in range(8192):\n        \
                    h.pwrite(bytes([b % 251, 7]) * 2048, b * 4096)\n        taken += 1\n\
                    except nbd.Error as error:\n    assert error.errno in ('EIO', 'ENOSPC'), error\n\
                    assert 1000 < taken < 5000, taken\n\
                    for b in range(0, taken, 100):\n    \
                    assert h.pread(4096, b * 4096) == bytes([b % 251, 7]) * 2048, b\nprint(taken)";
        let taken: u64 = nbdsh(Some(&uri), full)?.stdout.trim().parse()?;
        let now = shown(&hearth)?;
        ensure!(now["write_back"]["state"] == "failing", "{now}");
        ensure!(
            now["write_back"]["stalled_writes"].as_u64() > Some(0),
            "{now}"
        );
        goes_on(&hearth)?;
        // Nothing that was taken is lost when the origin is back.
        std::fs::remove_file(&failing)?;
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        ensure!(image.read((taken - 1) * 4096, 4096)? == block(taken - 1, 7));
        image.check_equals_export(lab, &uri)?;
        hearth.stop().map(drop)
    });
}

#[test]
fn an_origin_that_is_gone_and_comes_back_gets_everything() {
    scenario(&["nbdkit", "nbdsh"], |lab| {
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let mut origin = Origin::start(lab, &image, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", Back::FLASH_MIB)?;
        let disk = DiskSettings::on_nbd(Back::DISK, &origin.uri())
            .key("write_policy = 'back'")
            .key("write_back = { age_max = '100ms', dirty_max = '64MiB' }");
        let settings = HearthSettings::new(&flash)
            .disk(&disk)
            .disk(&bystander(lab)?);
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(Some(&uri), &writes(0, 100, 1))?;
        origin.kill()?;
        // Whole blocks need nothing of the origin.
        nbdsh(Some(&uri), &(writes(50, 300, 2) + &reads(50, 300, 2)))?;
        goes_on(&hearth)?;
        ensure!(
            shown(&hearth)?["write_back"]["dirty_bytes"].as_u64() > Some(0),
            "{}",
            shown(&hearth)?
        );
        origin.restart(lab)?;
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        image.check_equals_export(lab, &uri)?;
        ensure!(image.read(349 * 4096, 4096)? == block(349, 2));
        hearth.stop().map(drop)
    });
}

#[test]
fn an_origin_of_another_size_gets_nothing_until_it_has_its_own_again() {
    scenario(&["nbdsh"], |lab| {
        let (image, flash, settings) = stopped_with_dirty_blocks(lab)?;
        let about = std::fs::metadata(image.path())?.modified()?;
        let file = std::fs::File::options().write(true).open(image.path())?;
        // Of a longer one it is known that somebody wrote it since the daemon was stopped.
        for (mib, why) in [
            (Back::IMAGE_MIB - 1, "shorter"),
            (Back::IMAGE_MIB + 1, "changed"),
        ] {
            file.set_len(mib << 20)?;
            let hearth = Hearth::start(lab, &settings.clone().in_trouble(Back::DISK))?;
            waits(&hearth, why)?;
            hearth.stop()?;
            ensure!(
                image.read(0, 4096)? != block(0, 8),
                "the origin was written"
            );
        }
        file.set_len(Back::IMAGE_MIB << 20)?;
        file.set_modified(about)?;
        // A file that was written meanwhile is not believed either: the next test.
        drop(file);
        let config = lab.path("hearth.toml").display().to_string();
        let flash = flash.path().display().to_string();
        let words = ["recover", "destage", &flash, "--disk", Back::DISK];
        let done = e2e::hearth(&[&words[..], &["--config", &config]].concat())?;
        ensure!(done.code == 0, "{}", done.stderr);
        ensure!(image.read(19 * 4096, 4096)? == block(19, 8));
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &reads(0, 20, 8))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn an_origin_that_somebody_else_has_written_is_left_alone() {
    scenario(&["nbdsh"], |lab| {
        let (image, flash, settings) = stopped_with_dirty_blocks(lab)?;
        {
            use std::os::unix::fs::FileExt as _;
            let file = std::fs::File::options().write(true).open(image.path())?;
            file.write_all_at(b"somebody else", 4096)?;
        }
        let hearth = Hearth::start(lab, &settings.clone().in_trouble(Back::DISK))?;
        waits(&hearth, "changed")?;
        hearth.stop()?;
        ensure!(image.read(4096, 13)? == b"somebody else");
        // The operator looks at a copy, and decides.
        let config = lab.path("hearth.toml").display().to_string();
        let flash = flash.path().display().to_string();
        let copy = lab.path("copy.raw").display().to_string();
        std::fs::copy(image.path(), &copy)?;
        let first = |verb| {
            [
                "recover",
                verb,
                &flash,
                "--disk",
                Back::DISK,
                "--config",
                &config,
            ]
        };
        let answer = e2e::hearth(&[&first("export")[..], &["--onto", &copy]].concat())?;
        ensure!(answer.code == 0, "{}", answer.stderr);
        ensure!(std::fs::read(&copy)?[4096..8192] == block(1, 8));
        let answer = e2e::hearth(&[&first("drop")[..], &["--yes-lose-data"]].concat())?;
        ensure!(answer.code == 0, "{}", answer.stderr);
        let hearth = Hearth::start(lab, &settings)?;
        let script = "assert h.pread(4096, 4096).startswith(b'somebody else')";
        nbdsh(Some(&hearth.uri(Back::DISK)), script)?;
        hearth.stop().map(drop)
    });
}

#[test]
fn flash_and_origin_have_one_daemon_and_one_disk() {
    scenario(&["nbdsh"], |lab| {
        let mut back = Back::start(lab, Pace::Held)?;
        let twice = back.image.path().display().to_string();
        let words = ["disk", "attach", "twice", "--origin", &twice];
        back.hearth().refused_command(&words).or_else(|_| {
            // It is taken, and waits: the reason is in its status.
            let shown = back.hearth().json(&["disk", "show", "twice"])?;
            let reason = shown["reason"].as_str().unwrap_or_default();
            ensure!(
                shown["state"] == "waiting" && reason.contains("another"),
                "{shown}"
            );
            back.hearth().command(&["disk", "detach", "twice"])
        })?;
        // A second daemon has neither the flash nor, on flash of its own, the origin.
        let own = std::fs::read_to_string(lab.path("hearth.toml"))?;
        let there = lab.path("second");
        std::fs::create_dir_all(there.join("state"))?;
        let moved = |from: &str, to: &str| {
            let (from, to) = (lab.path(from), there.join(to));
            (from.display().to_string(), to.display().to_string())
        };
        let mut second = own.clone();
        for name in ["admin.sock", "nbd.sock", "state"] {
            let (from, to) = moved(name, name);
            second = second.replace(&from, &to);
        }
        let config = there.join("hearth.toml");
        std::fs::write(&config, &second)?;
        let config = config.display().to_string();
        let refused = e2e::hearth(&["serve", "--config", &config])?;
        ensure!(
            refused.code != 0 && refused.stderr.contains("in use"),
            "{}: {}",
            refused.code,
            refused.stderr
        );
        nbdsh(Some(&back.uri()), &(writes(0, 5, 2) + &reads(0, 5, 2)))?;
        Ok(())
    });
}

#[test]
fn flash_that_takes_no_more_writes_gives_its_bytes_to_the_origin() {
    if !can_mount("flash that is full") {
        return;
    }
    scenario(&[MOUNT_TOOLS, &["nbdsh"]].concat(), |lab| {
        let weak = WeakFlash::format(lab, 128)?;
        let image = Image::new(lab, "origin.raw", Back::IMAGE_MIB)?;
        let disk = DiskSettings::on_file(Back::DISK, image.path()).keeping_dirty(48);
        let settings = HearthSettings::new(&weak.flash)
            .disk(&disk)
            .disk(&bystander(lab)?);
        let hearth = Hearth::start(lab, &settings)?;
        let uri = hearth.uri(Back::DISK);
        nbdsh(Some(&uri), &writes(0, 1000, 5))?;
        weak.fail()?;
        // Somewhere in here the flash refuses; the guest does not notice.
        nbdsh(Some(&uri), &writes(500, 6000, 6))?;
        wait_until("the flash to be given up", LONG, || {
            let caches = hearth.json(&["status"])?["caches"].clone();
            Ok(caches[0]["state"] == "bypassed")
        })?;
        wait_until("the origin to have everything", LONG, || {
            let now = shown(&hearth)?;
            let dirty = now["write_back"]["dirty_bytes"].as_u64();
            Ok(dirty.unwrap_or(0) == 0)
        })?;
        nbdsh(Some(&uri), &(reads(0, 500, 5) + &reads(500, 6000, 6)))?;
        image.check_equals_export(lab, &uri)?;
        goes_on(&hearth)?;
        hearth.stop()?;
        // The flash is not believed when it is back.
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &reads(500, 6000, 6))?;
        hearth.stop().map(drop)
    });
}
