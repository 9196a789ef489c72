//! Linux guests on Hearth disks over vhost-user: they boot cold and warm, see their disks as they
//! are configured, and notice nothing of a daemon that is killed, of a disk that grows, or of their
//! own move to another QEMU.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, GUEST_TOOLS, Guest, GuestKit, Hearth, HearthSettings, Image, LONG, Lab,
    Origin, OriginSettings, Request, RequestKind, VhostUserSettings, run, scenario,
    wait_for_listener, wait_until,
};
use serde_json::Value;

/// A daemon with the disk that guests boot from.
struct Host {
    origin: Origin,
    image: Image,
    settings: HearthSettings,
}

const DISK: &str = "disk";

impl Host {
    fn new(lab: &Lab, kit: &GuestKit, delay: &'static str) -> anyhow::Result<Self> {
        let image = kit.disk(lab)?;
        let origin = OriginSettings {
            delay: Some(delay),
            ..OriginSettings::default()
        };
        let origin = Origin::start(lab, &image, origin)?;
        let flash = Flash::format(lab, "flash.img", 512)?;
        let disk = DiskSettings::on_nbd(DISK, &origin.uri()).vhost_user(&lab.path("vda.sock"), "");
        let settings = HearthSettings::new(&flash)
            .cache_key("write_delay = '100ms'")
            // A disk that others keep busy is no slow flash here.
            .cache_key("flash_timeout = '60s'")
            .disk(&disk);
        Ok(Self {
            origin,
            image,
            settings,
        })
    }

    fn disk(mut self, disk: &DiskSettings) -> Self {
        self.settings = self.settings.disk(disk);
        self
    }

    fn start(&self, lab: &Lab) -> anyhow::Result<Hearth> {
        Hearth::start(lab, &self.settings)
    }

    fn file_system_is_sound(&self) -> anyhow::Result<()> {
        let path = self.image.path();
        run(Command::new("e2fsck").args(["-f", "-y"]).arg(path)).map(|_| ())
    }
}

fn disk_shown(hearth: &Hearth, disk: &str) -> anyhow::Result<Value> {
    hearth.json(&["disk", "show", disk])
}

fn resumed(hearth: &Hearth) -> anyhow::Result<u64> {
    let disk = disk_shown(hearth, DISK)?;
    disk["vhost_user"]["requests_resumed"]
        .as_u64()
        .context("a count")
}

#[test]
#[allow(
    clippy::too_many_lines,
    reason = "booting guests is slow: one scenario for all"
)]
fn guests_boot_cold_and_warm_and_see_their_disks_as_configured() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let data = Image::new(lab, "data.raw", 16)?;
        let data = DiskSettings::on_file("data", data.path())
            .vhost_user(
                &lab.path("vdb.sock"),
                ", sector_size = '4KiB', serial = 'of-the-data'",
            )
            .key("read_only = true");
        let host = Host::new(lab, &kit, "1ms")?.disk(&data);
        let hearth = host.start(lab)?;
        let (first, second) = (lab.path("vda.sock"), lab.path("vdb.sock"));
        let disks: [&Path; 2] = [&first, &second];
        let settings = VhostUserSettings {
            disks: &disks,
            queues: 2,
            ..VhostUserSettings::default()
        };
        let steps = "facts,disk=vda+facts,disk=vdb+read,dir=/srv/files\
            +write,dir=/var/probe,from=1,files=8,kib=256+trim,dir=/";
        let said = Guest::boot_with(lab, &kit, "cold", steps, &settings)?.finish()?;
        for facts in [
            "sector=512 serial=disk read_only=0 queues=2 cache=write-back",
            "size=32768 sector=4096 serial=of-the-data read_only=1 queues=2",
        ] {
            ensure!(said.contains(facts), "no '{facts}' in:\n{said}");
        }
        let shown = disk_shown(&hearth, DISK)?;
        let counters = &shown["counters"];
        for counted in [
            "read_requests",
            "write_requests",
            "flush_requests",
            "erase_requests",
        ] {
            ensure!(
                counters[counted].as_u64() > Some(0),
                "no {counted}: {shown}"
            );
        }
        let read = Request::blocks(&host.origin.reads_since(0)?);
        let written = Request::blocks(&host.origin.since(0, RequestKind::Write)?);
        hearth.stop()?;

        let before = host.origin.requests()?.len();
        let hearth = host.start(lab)?;
        let steps = "read,dir=/srv/files+verify,dir=/var/probe,through=8";
        Guest::boot_with(lab, &kit, "warm", steps, &settings)?.finish()?;
        let warm = Request::blocks(&host.origin.reads_since(before)?);
        let again = warm.intersection(&(&read - &written)).count();
        ensure!(
            read.len() > 40 << 8,
            "the guest read {} blocks only",
            read.len()
        );
        // Where the flash is slower than the guest, the buffer of what is to be kept is full now and then.
        ensure!(
            again * 100 <= read.len(),
            "{again} of {} blocks were read from the origin again",
            read.len()
        );
        // And once over NBD, both times as Hearth itself says how.
        for front_end in ["vhost-user", "nbd"] {
            let words = [
                "xml",
                "--disk",
                DISK,
                "--memory",
                "256MiB",
                "--front-end",
                front_end,
            ];
            let told = hearth.json(&words)?;
            let told = told["ways"][0]["qemu"].as_array().context("arguments")?;
            let told: Vec<&str> = told.iter().filter_map(Value::as_str).collect();
            let steps = "facts,disk=vda+verify,dir=/var/probe,through=8";
            let said = Guest::boot_as_told(lab, &kit, front_end, steps, &told)?.finish()?;
            ensure!(
                said.contains("sector=512 serial=disk read_only=0"),
                "{said}"
            );
        }
        hearth.stop()?;
        host.file_system_is_sound()
    });
}

#[test]
fn a_guest_notices_nothing_of_a_daemon_that_is_killed() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        // Slow, so that whenever the daemon is killed a request is half way.
        let host = Host::new(lab, &kit, "20ms")?;
        let mut hearth = host.start(lab)?;
        let steps = "write,dir=/var/probe,from=1,files=50,kib=32+verify,dir=/var/probe,through=50";
        let guest = Guest::boot_vhost_user(lab, &kit, &lab.path("vda.sock"), "guest", steps)?;
        let mut taken_up = 0;
        for synced in [2, 9, 16, 30] {
            wait_until("the guest to write", LONG, || {
                Ok(guest.files_synced() >= synced)
            })?;
            taken_up += resumed(&hearth)?;
            hearth.kill()?;
            hearth = host.start(lab)?;
        }
        // A stop in good order is noticed as little.
        wait_until(
            "the guest to write",
            LONG,
            || Ok(guest.files_synced() >= 38),
        )?;
        taken_up += resumed(&hearth)?;
        hearth.stop()?;
        hearth = host.start(lab)?;
        guest.finish()?;
        taken_up += resumed(&hearth)?;
        ensure!(taken_up > 0, "no daemon was killed with requests in flight");
        hearth.stop()?;
        host.file_system_is_sound()
    });
}

#[test]
fn a_guest_sees_that_its_disk_has_grown() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let data = Image::new(lab, "data.raw", 16)?;
        let socket = lab.path("vdb.sock");
        let waits = "write_back = { age_max = '1000s', idle_after = '1000s' }";
        let disk = DiskSettings::on_file("data", data.path())
            .vhost_user(&socket, "")
            .key("write_policy = 'back'")
            .key(waits);
        let host = Host::new(lab, &kit, "0")?.disk(&disk);
        let hearth = host.start(lab)?;
        let first = lab.path("vda.sock");
        let disks: [&Path; 2] = [&first, &socket];
        let settings = VhostUserSettings {
            disks: &disks,
            ..VhostUserSettings::default()
        };
        let steps = "facts,disk=vdb,sectors=32768+device,path=/dev/vdb,operations=200,mib=16\
            +facts,disk=vdb,sectors=65536+device,path=/dev/vdb,operations=200,mib=32";
        let mut guest = Guest::boot_with(lab, &kit, "guest", steps, &settings)?;
        guest.wait_for("PROBE device")?;
        let before = disk_shown(&hearth, "data")?;
        let file = std::fs::File::options().write(true).open(data.path())?;
        file.set_len(32 << 20)?;
        hearth.command(&["disk", "resize", "data"])?;
        guest.finish()?;
        // Nothing was brought to the origin for it, and nothing dropped.
        let logged = |shown: &Value| shown["write_back"]["log_bytes"].as_u64();
        let after = disk_shown(&hearth, "data")?;
        ensure!(
            logged(&after) > logged(&before) && logged(&before) > Some(0),
            "{before} and {after}"
        );
        hearth.command(&["disk", "flush", "data", "--wait"])?;
        hearth.stop().map(|_| ())
    });
}

#[test]
fn a_guest_moves_to_another_qemu_while_it_writes() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let host = Host::new(lab, &kit, "1ms")?;
        let hearth = host.start(lab)?;
        let socket = lab.path("vda.sock");
        let disks: [&Path; 1] = [&socket];
        let here = VhostUserSettings {
            disks: &disks,
            ..VhostUserSettings::default()
        };
        let link = lab.path("migration.sock");
        let there = VhostUserSettings {
            incoming: Some(&link),
            ..VhostUserSettings {
                disks: &disks,
                ..VhostUserSettings::default()
            }
        };
        // The versions of all pages are kept in the guest's memory, so that a page of memory which
        // did not come along shows, and so does a write of either daemon's that was lost.
        let files = 1000;
        let steps = format!(
            "write,dir=/var/probe,from=1,files={files},kib=16+read,dir=/srv/files\
            +verify,dir=/var/probe,through={files}"
        );
        let target = Guest::boot_with(lab, &kit, "target", &steps, &there)?;
        let source = Guest::boot_with(lab, &kit, "source", &steps, &here)?;
        wait_for_listener(&link)?;
        wait_until(
            "the guest to write",
            LONG,
            || Ok(source.files_synced() >= 5),
        )?;
        let mut monitor = source.monitor()?;
        let connections = disk_shown(&hearth, DISK)?["vhost_user"]["connections"].as_u64();
        ensure!(connections == Some(2), "{connections:?} connections");
        monitor.begin_move(&link)?;
        monitor.wait_for_move("completed")?;
        let moved_at = source.files_synced();
        drop(monitor);
        source.kill()?;
        ensure!(
            moved_at < files,
            "the guest had written everything before it moved"
        );
        target.finish()?;
        hearth.stop()?;
        host.file_system_is_sound()
    });
}
