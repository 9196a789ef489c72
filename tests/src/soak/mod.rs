//! A long time of everything at once: guests' requests over both front ends, each verified, while the
//! daemon is killed, stopped and renewed, policies change, disks come and go, the origin goes away,
//! and the flash is too small for all of it.
//!
//! ```text
//!   guest ─┬─ vhost-user ─ vhost ─┐                      ┌─ nbdkit, killed now and then
//!          └─ NBD ──────── nbd ───┤ hearth, under a      ├─ file
//!   clients ─ NBD, vhost-user ─ comes ─┘ manager of sockets └─ file
//! ```
//!
//! The guest never stops: it writes and reads its two raw disks in turn and knows the version of
//! each page. One event follows another; after each the guest must have gone on on both disks.
//! Memory and descriptors of the daemon are noted after each event and judged at the end.

mod events;
mod figures;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::{
    DiskSettings, Flash, Guest, GuestKit, Hearth, HearthSettings, Image, LONG, Lab, Manager,
    Origin, OriginSettings, Versions, wait_until,
};
use events::Event;
use figures::Figures;

/// Sizes of the disks, in MiB: more than twice the flash together.
const DISK_MIB: u64 = 64;
/// What the guest uses of each of its own, in MiB.
const USED_MIB: u64 = 48;
/// Size of the flash, in MiB.
const FLASH_MIB: u64 = 96;
/// Operations of the guest between two looks at everything that it wrote.
const OPERATIONS: u64 = 400;

/// What the soak prints as it goes.
pub type Say<'a> = &'a mut dyn FnMut(&str);

/// The scene of a soak.
struct Scene<'a> {
    lab: &'a Lab,
    settings: HearthSettings,
    manager: Manager,
    /// None while it is being replaced.
    hearth: Option<Hearth>,
    origin: Origin,
    guest: Guest,
    versions: Versions<'a>,
    policy: usize,
}

/// Soaks for `time` and longer until the event that is under way has ended. Returns the report.
///
/// # Errors
///
/// When anything was wrong: an answer, an error that a guest or a client saw, a command that failed,
/// memory or descriptors that grew.
pub fn soak(lab: &Lab, time: Duration, seed: u64, say: Say<'_>) -> anyhow::Result<String> {
    let mut scene = Scene::set(lab)?;
    let mut figures = Figures::default();
    // Long lives show leaks, short ones what restarts break.
    let life = (time / 12).clamp(Duration::from_secs(5), Duration::from_mins(2));
    let (began, mut dice) = (Instant::now(), seed);
    let (mut born, mut counts) = (began, [0_u32; Event::ALL.len()]);
    let mut event = Event::first();
    let outcome = loop {
        let (at, since) = (began.elapsed(), Instant::now());
        let before = scene.rounds();
        let result = scene.happen(event).and_then(|()| scene.goes_on());
        counts[event as usize] += 1;
        if event.is_restart() {
            born = Instant::now();
        }
        if let Err(error) = result {
            break Err(error.context(format!("event {event:?} at {} s", at.as_secs())));
        }
        figures.note(began.elapsed(), event, scene.daemon()?.id())?;
        say(&format!(
            "{:6.1} s  {event:?} took {:.1} s, the guest verified {} rounds, {}",
            began.elapsed().as_secs_f64(),
            since.elapsed().as_secs_f64(),
            scene.rounds() - before,
            figures.last(),
        ));
        if began.elapsed() >= time {
            break Ok(());
        }
        event = Event::next(event, &mut dice, born.elapsed() >= life);
    };
    let mut report = String::new();
    for (event, count) in Event::ALL.iter().zip(counts) {
        let _ = writeln!(report, "{event:?}: {count}");
    }
    let (took, rounds) = (began.elapsed().as_secs(), scene.rounds());
    let operations = rounds * OPERATIONS;
    let _ = writeln!(
        report,
        "{took} s, {operations} operations of the guest in {rounds} rounds, each verified"
    );
    report += &figures.table();
    let errors = u32::from(outcome.is_err());
    let _ = writeln!(report, "errors: {errors}");
    outcome.with_context(|| report.clone())?;
    scene.end()?;
    figures.judge().with_context(|| report.clone())?;
    Ok(report)
}

impl<'a> Scene<'a> {
    fn set(lab: &'a Lab) -> anyhow::Result<Self> {
        let kit = GuestKit::build()?;
        let root = kit.disk(lab)?;
        let image = |name: &str| Image::new(lab, name, DISK_MIB);
        let (vhost, nbd) = (image("vhost.raw")?, image("nbd.raw")?);
        for comes_and_goes in ["comes.raw", "bursts.raw"] {
            image(comes_and_goes)?;
        }
        let origin = Origin::start(lab, &vhost, OriginSettings::default())?;
        let flash = Flash::format(lab, "flash.img", FLASH_MIB)?;
        let socket = lab.path("vhost.sock");
        let settings = HearthSettings::new(&flash)
            .disk(&DiskSettings::on_nbd("vhost", &origin.uri()).vhost_user(&socket, ""))
            .disk(&DiskSettings::on_file("nbd", nbd.path()));
        let manager = Manager::new(lab)?;
        let hearth = Hearth::start_under(lab, &settings, &manager)?;
        let disks = [
            format!("file={},format=raw,if=none,id=root", root.path().display()),
            format!("socket,id=vhost,path={},reconnect=1", socket.display()),
            format!(
                "driver=nbd,node-name=nbd,server.type=unix,server.path={},export=nbd,reconnect-delay=60",
                hearth.nbd_socket().display()
            ),
        ];
        let arguments = [
            "-object",
            "memory-backend-memfd,id=memory,size=256M,share=on",
            "-machine",
            "memory-backend=memory",
            "-drive",
            &disks[0],
            "-device",
            "virtio-blk-pci,drive=root",
            "-chardev",
            &disks[1],
            "-device",
            "vhost-user-blk-pci,chardev=vhost",
            "-blockdev",
            &disks[2],
            "-device",
            "virtio-blk-pci,drive=nbd",
        ];
        let step = |disk: &str| {
            format!("device,path=/dev/{disk},operations={OPERATIONS},mib={USED_MIB},sync_every=16")
        };
        let steps = format!("{}+{}+again", step("vdb"), step("vdc"));
        let guest = Guest::boot_as_told(lab, &kit, "guest", &steps, &arguments)?;
        Ok(Self {
            lab,
            settings,
            manager,
            hearth: Some(hearth),
            origin,
            guest,
            versions: Versions::new(lab),
            policy: 0,
        })
    }

    fn daemon(&self) -> anyhow::Result<&Hearth> {
        self.hearth.as_ref().context("no daemon is running")
    }

    /// How often the guest has looked at all that it wrote to a disk.
    fn rounds(&self) -> u64 {
        let said = self.guest.console();
        said.matches("PROBE device round=").count() as u64
    }

    /// The guest goes on on both disks, and has seen nothing wrong.
    fn goes_on(&mut self) -> anyhow::Result<()> {
        let before = self.rounds();
        wait_until("the guest to go on on both disks", LONG, || {
            let said = self.guest.console();
            // The kernel names a request that failed, the probe all else.
            for wrong in ["PROBE bad", "PROBE error", "I/O error", "PROBE end"] {
                ensure!(!said.contains(wrong), "the guest says '{wrong}':\n{said}");
            }
            Ok(self.rounds() >= before + 2)
        })
    }

    fn end(mut self) -> anyhow::Result<()> {
        self.goes_on()?;
        self.guest.kill()?;
        let hearth = self.hearth.take().context("no daemon is running")?;
        let log = hearth.log()?;
        hearth.stop()?;
        ensure!(!log.contains("panicked"), "the daemon panicked:\n{log}");
        Ok(())
    }
}
