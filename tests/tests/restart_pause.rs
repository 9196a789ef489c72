//! The daemon is killed, stopped and renewed in place, as for an upgrade, under a guest that writes
//! and syncs: the guest sees no error and every file that it synced is there. How long the guest
//! stood still is printed (`--no-capture`); it is not judged here, since this machine may be busy.

#![allow(
    clippy::print_stdout,
    reason = "how long the guest stood still is printed"
)]

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::{
    DiskSettings, Flash, GUEST_TOOLS, Guest, GuestKit, Hearth, HearthSettings, LONG, Lab, Manager,
    Origin, OriginSettings, Psk, run, scenario, wait_until,
};

const DISK: &str = "disk";
const FILES: u64 = 400;

/// How the guest reaches its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Nbd,
    /// NBD over TCP, with TLS and a pre-shared key.
    NbdTls,
    VhostUser,
}

/// A guest on a disk that asks for the key.
fn boot_with_key(lab: &Lab, kit: &GuestKit, psk: &Psk, steps: &str) -> anyhow::Result<Guest> {
    let credentials = format!(
        "tls-creds-psk,id=tls,dir={},endpoint=client,username={}",
        psk.folder().display(),
        Psk::USER
    );
    let disk = format!(
        "driver=nbd,node-name=disk,server.type=inet,server.host=127.0.0.1,server.port={},\
         export={DISK},tls-creds=tls,reconnect-delay=30",
        psk.port()
    );
    let device = "virtio-blk-pci,drive=disk";
    let words = [
        "-object",
        &credentials,
        "-blockdev",
        &disk,
        "-device",
        device,
    ];
    Guest::boot_as_told(lab, kit, "guest", steps, &words)
}

/// The longest time between two files that the guest synced while `what` is done and for some files
/// afterwards.
fn longest_pause(
    guest: &Guest,
    what: impl FnOnce() -> anyhow::Result<Hearth>,
) -> anyhow::Result<(Hearth, Duration)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            let mut synced = guest.files_synced();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
                let now = guest.files_synced();
                if now > synced {
                    longest = longest.max(last.elapsed());
                    (synced, last) = (now, Instant::now());
                }
            }
            longest
        });
        let outcome = what().and_then(|hearth| {
            let before = guest.files_synced();
            wait_until("the guest to go on", LONG, || {
                Ok(guest.files_synced() >= (before + 4).min(FILES))
            })?;
            Ok(hearth)
        });
        done.store(true, Ordering::Relaxed);
        let longest = watcher.join().expect("the watcher ends");
        Ok((outcome?, longest))
    })
}

/// What is done to the daemon, and when: after how many files.
const RESTARTS: [(&str, u64); 4] = [
    ("kill -9", 20),
    ("stop", 90),
    ("renewal", 160),
    ("kill -9", 230),
];

fn restarts(lab: &Lab, over: Over, is_managed: bool) -> anyhow::Result<()> {
    let kit = GuestKit::build()?;
    let image = kit.disk(lab)?;
    let origin = Origin::start(lab, &image, OriginSettings::default())?;
    let flash = Flash::format(lab, "flash.img", 512)?;
    let socket = lab.path("vda.sock");
    let mut disk = DiskSettings::on_nbd(DISK, &origin.uri());
    if over == Over::VhostUser {
        disk = disk.vhost_user(&socket, "");
    }
    let psk = Psk::new(lab)?;
    let mut settings = HearthSettings::new(&flash).disk(&disk);
    if over == Over::NbdTls {
        settings = settings.nbd_key(&psk.settings());
    }
    let manager = if is_managed {
        Some(Manager::new(lab)?)
    } else {
        None
    };
    let start = || match &manager {
        Some(manager) => Hearth::start_under(lab, &settings, manager),
        None => Hearth::start(lab, &settings),
    };
    let mut hearth = start()?;
    let steps = format!(
        "write,dir=/var/probe,from=1,files={FILES},kib=16+verify,dir=/var/probe,through={FILES}"
    );
    let guest = match over {
        Over::Nbd => Guest::boot(lab, &kit, hearth.nbd_socket(), DISK, "guest", &steps)?,
        Over::NbdTls => boot_with_key(lab, &kit, &psk, &steps)?,
        Over::VhostUser => Guest::boot_vhost_user(lab, &kit, &socket, "guest", &steps)?,
    };
    for (how, synced) in RESTARTS {
        wait_until("the guest to write", LONG, || {
            Ok(guest.files_synced() >= synced)
        })?;
        ensure!(
            guest.files_synced() < FILES,
            "the guest was done before the restart"
        );
        let began = Instant::now();
        let mut took = Duration::ZERO;
        let (again, pause) = longest_pause(&guest, || {
            let mut hearth = hearth;
            let again = match how {
                "kill -9" => hearth.kill().and_then(|()| start()),
                "stop" => hearth.stop().and_then(|_| start()),
                _ => hearth.renew().map(|()| hearth),
            };
            took = began.elapsed();
            again
        })?;
        println!(
            "{over:?}, sockets kept: {is_managed}, {how}: serving again after {took:.2?}, \
             the guest stood still for {pause:.2?}"
        );
        hearth = again;
    }
    guest.finish()?;
    hearth.stop()?;
    run(Command::new("e2fsck").args(["-f", "-y"]).arg(image.path())).map(|_| ())
}

#[test]
fn a_guest_over_vhost_user_goes_on_after_restarts() {
    scenario(GUEST_TOOLS, |lab| restarts(lab, Over::VhostUser, true));
}

#[test]
fn a_guest_over_nbd_goes_on_after_restarts() {
    scenario(GUEST_TOOLS, |lab| restarts(lab, Over::Nbd, true));
}

#[test]
fn a_guest_over_nbd_with_tls_goes_on_after_restarts() {
    scenario(GUEST_TOOLS, |lab| restarts(lab, Over::NbdTls, true));
}

#[test]
fn a_guest_goes_on_after_restarts_of_a_daemon_whose_sockets_nobody_keeps() {
    scenario(GUEST_TOOLS, |lab| restarts(lab, Over::Nbd, false));
}
