//! Two hosts, each with a daemon and flash of its own, and one origin: at a time one of them has it,
//! and when they take turns neither serves what it had before the other's turn. A file tells by itself;
//! of an NBD export hosts know by a folder that they share.

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use e2e::{
    Back, DiskSettings, Flash, Hearth, HearthSettings, Image, LONG, Lab, Origin, OriginSettings,
    RequestKind, nbdsh, scenario, wait_until, writes,
};

/// A host with flash of its own for this disk.
struct Host {
    lab: Lab,
    settings: HearthSettings,
}

impl Host {
    fn new(lab: &Lab, name: &str, disk: &DiskSettings) -> anyhow::Result<Self> {
        let own = lab.host(name)?;
        let flash = Flash::format(&own, "flash.img", 128)?;
        let shared = lab.path("shared");
        std::fs::create_dir_all(&shared)?;
        let settings = HearthSettings::new(&flash)
            .daemon_key(&format!("owners_dir = '{}'", shared.display()))
            .disk(disk);
        Ok(Self { lab: own, settings })
    }

    fn start(&self) -> anyhow::Result<Hearth> {
        Hearth::start(&self.lab, &self.settings)
    }

    /// Starts while the other one has the disk: it waits, and says why.
    fn start_too(&self, why: &str) -> anyhow::Result<Hearth> {
        let settings = self.settings.clone().in_trouble(Back::DISK);
        let hearth = Hearth::start(&self.lab, &settings)?;
        wait_until("the disk to be refused", LONG, || {
            let shown = hearth.json(&["disk", "show", Back::DISK])?;
            let reason = shown["reason"].as_str().unwrap_or_default();
            ensure!(shown["state"] != "attached", "{shown}");
            Ok(shown["state"] == "waiting" && reason.contains(why))
        })?;
        ensure!(nbdsh(Some(&hearth.uri(Back::DISK)), "pass").is_err());
        Ok(hearth)
    }
}

fn reads(hearth: &Hearth, round: u8) -> anyhow::Result<()> {
    let script = format!(
        "for b in range(20):\n    assert h.pread(4096, b * 4096) == bytes([b % 251, {round}]) * 2048, b"
    );
    nbdsh(Some(&hearth.uri(Back::DISK)), &script).map(drop)
}

fn puts(hearth: &Hearth, round: u8) -> anyhow::Result<()> {
    nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 20, round))?;
    reads(hearth, round)?;
    // Once more, from flash.
    reads(hearth, round)
}

/// One after the other, and both at once, with what the second says then.
fn take_turns(lab: &Lab, disk: &DiskSettings, in_use: &str) -> anyhow::Result<()> {
    let (one, two) = (Host::new(lab, "one", disk)?, Host::new(lab, "two", disk)?);
    let first = one.start()?;
    puts(&first, 1)?;
    let second = two.start_too(in_use)?;
    // Whoever has it goes on.
    puts(&first, 2)?;
    first.command(&["disk", "detach", Back::DISK, "--flush"])?;
    first.stop()?;
    // It is tried again by itself.
    wait_until("the second host to get the disk", LONG, || {
        Ok(second.json(&["disk", "show", Back::DISK])?["state"] == "attached")
    })?;
    reads(&second, 2)?;
    puts(&second, 3)?;
    second.command(&["disk", "detach", Back::DISK, "--flush"])?;
    second.stop()?;
    // Its flash has the second round.
    let first = one.start()?;
    let shown = first.json(&["disk", "show", Back::DISK])?;
    let why = shown["dropped"].as_str().unwrap_or_default();
    // A file also tells by its time of change.
    let knows = why.contains("another cache") || why.contains("was changed");
    ensure!(knows, "{shown}");
    reads(&first, 3)?;
    first.stop().map(drop)
}

const TOOLS: &[&str] = &["nbdkit", "nbdsh"];

fn on_export(origin: &Origin, policy: &str) -> DiskSettings {
    DiskSettings::on_nbd(Back::DISK, &origin.uri()).key(&format!("write_policy = '{policy}'"))
}

#[test]
fn two_hosts_take_turns_on_a_file() {
    scenario(TOOLS, |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let disk = DiskSettings::on_file(Back::DISK, image.path()).key("write_policy = 'back'");
        take_turns(lab, &disk, "in use")
    });
}

fn take_turns_on_an_export(policy: &str) {
    scenario(TOOLS, |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        take_turns(lab, &on_export(&origin, policy), "in use")
    });
}

#[test]
fn two_hosts_take_turns_on_an_export() {
    take_turns_on_an_export("back");
}

#[test]
fn two_hosts_take_turns_on_an_export_under_through() {
    take_turns_on_an_export("through");
}

#[test]
fn what_one_host_has_not_brought_to_the_export_keeps_the_other_away() {
    scenario(TOOLS, |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let disk = on_export(&origin, "back")
            .key("write_back = { age_max = '1000s', idle_after = '1000s' }");
        let (one, two) = (Host::new(lab, "one", &disk)?, Host::new(lab, "two", &disk)?);
        let first = one.start()?;
        puts(&first, 1)?;
        first.kill()?;
        // The lock has gone with the process, and the record has not.
        two.start_too("may have bytes")?.stop()?;
        ensure!(image.read(0, 4)? != [0, 1, 0, 1], "the origin was written");
        let first = one.start()?;
        reads(&first, 1)?;
        first.command(&["disk", "detach", Back::DISK, "--flush"])?;
        first.stop()?;
        let second = two.start()?;
        reads(&second, 1)?;
        second.stop().map(drop)
    });
}

#[test]
fn a_host_that_lost_its_lock_lets_go_of_the_disk() {
    scenario(TOOLS, |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let one = Host::new(lab, "one", &on_export(&origin, "through"))?;
        let first = one.start()?;
        puts(&first, 1)?;
        let other = lock_as_another_host(lab)?;
        wait_until_let_go(&first)?;
        ensure!(nbdsh(Some(&first.uri(Back::DISK)), "pass").is_err());

        drop(other);
        wait_until_attached(&first)?;
        reads(&first, 1)?;
        first.stop().map(drop)
    });
}

/// Another host has the lock, as after the lease of a network file system has run out, or after somebody has tidied up the
/// folder.
fn lock_as_another_host(lab: &Lab) -> anyhow::Result<File> {
    let theirs = lab.path("theirs.lock");
    let other = File::create(&theirs)?;
    other.lock()?;
    let entries = std::fs::read_dir(lab.path("shared"))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let paths: Vec<_> = paths.collect::<anyhow::Result<_>>()?;
    let is_lock = |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "lock");
    let lock = paths.iter().find(is_lock).context("a lock")?;
    std::fs::rename(theirs, lock)?;
    Ok(other)
}

fn wait_until_let_go(host: &Hearth) -> anyhow::Result<()> {
    wait_until("the host to let go", LONG, || {
        let shown = host.json(&["disk", "show", Back::DISK])?;
        let reason = shown["reason"].as_str().unwrap_or_default();
        Ok(shown["state"] == "waiting" && reason.contains("in use"))
    })?;
    ensure!(host.log()?.contains("was lost"), "the log says why");
    Ok(())
}

fn wait_until_attached(host: &Hearth) -> anyhow::Result<()> {
    wait_until("the host to have it again", LONG, || {
        Ok(host.json(&["disk", "show", Back::DISK])?["state"] == "attached")
    })
}

#[test]
fn a_lock_that_is_lost_while_a_detach_is_refused_is_lost_all_the_same() {
    scenario(TOOLS, |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        let origin = Origin::start(lab, &image, OriginSettings::default())?;
        let one = Host::new(lab, "one", &on_export(&origin, "through"))?;
        let first = one.start()?;
        puts(&first, 1)?;
        let uri = first.uri(Back::DISK);
        let (connected, until) = (lab.path("connected"), lab.path("until"));
        let script = format!(
            "import os, time\nopen('{}', 'w')\nwhile not os.path.exists('{}'): time.sleep(0.05)",
            connected.display(),
            until.display()
        );
        let client = std::thread::spawn(move || nbdsh(Some(&uri), &script));
        wait_until("a client to be connected", LONG, || Ok(connected.exists()))?;
        let other = lock_as_another_host(lab)?;
        // The detach waits for clients to leave, for as long as looks at the lock are apart.
        let refused = first.refused_command(&["disk", "detach", Back::DISK])?;
        ensure!(
            refused.stderr.contains("clients are connected"),
            "{}",
            refused.stderr
        );
        wait_until_let_go(&first)?;
        std::fs::write(until, "")?;
        // The client was cut off.
        let _ = client.join();
        drop(other);
        wait_until_attached(&first)?;
        reads(&first, 1)?;
        first.stop().map(drop)
    });
}

#[test]
fn a_lock_that_is_lost_while_a_detach_flushes_ends_the_flush() {
    scenario(TOOLS, |lab| {
        let image = Image::new(lab, "origin.raw", 16)?;
        // Twenty writes far from each other take a while.
        let slow = OriginSettings {
            delay: Some("500ms"),
            ..OriginSettings::default()
        };
        let origin = Origin::start(lab, &image, slow)?;
        let disk = on_export(&origin, "back")
            .key("write_back = { age_max = '1000s', idle_after = '1000s', order = 'ordered' }");
        let one = Host::new(lab, "one", &disk)?;
        let first = one.start()?;
        let uri = first.uri(Back::DISK);
        // Each flush ends an interval, and the intervals reach the origin one after the other.
        let flushed =
            "for b in range(20):\n    h.pwrite(bytes([b, 1]) * 2048, b * 40960)\n    h.flush()";
        nbdsh(Some(&uri), flushed)?;
        let (socket, words) = (
            first.admin_socket().to_owned(),
            ["disk", "detach", Back::DISK, "--flush"],
        );
        let began = origin.requests()?.len();
        let detach = std::thread::spawn(move || {
            let mut command = std::process::Command::new(e2e::hearth_program()?);
            command.arg("--socket").arg(socket).args(words);
            e2e::run_expecting_failure(&mut command)
        });
        wait_until("the flush to have begun", LONG, || {
            Ok(!origin.since(began, RequestKind::Write)?.is_empty())
        })?;
        let other = lock_as_another_host(lab)?;
        wait_until_let_go(&first)?;
        let said = detach
            .join()
            .map_err(|_| anyhow::anyhow!("the command's thread"))??;
        ensure!(said.stderr.contains("its lock was lost"), "{}", said.stderr);
        let written = origin.since(began, RequestKind::Write)?.len();
        ensure!(written < 20, "all of it went to another host's disk");
        let shown = first.json(&["disk", "show", Back::DISK])?;
        ensure!(shown["kept"]["dirty_bytes"].as_u64() > Some(0), "{shown}");

        drop(other);
        wait_until_attached(&first)?;
        first.command(&["disk", "detach", Back::DISK, "--flush"])?;
        first.stop()?;
        for block in 0..20 {
            let found = image.read(u64::from(block) * 40960, 2)?;
            ensure!(found == [block, 1], "block {block} is lost");
        }
        Ok(())
    });
}
