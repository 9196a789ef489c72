//! A server that goes on with a write after its connection has ended, or after the time of the request
//! was up: the write lands late, and never over what was written after it. The server holds the first
//! write; the daemon ends in one way or another and comes back; the block is written again.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, HeldOrigin, HeldServer, Lab, Manager, block,
    hearth, nbdsh, scenario, writes,
};

const DISK: &str = "disk";
const OTHER_NAME: &str = "other-name";
/// Neither the first block nor the last.
const BLOCK: u64 = 7;
/// How long a newer write may go on alone, if it is let, before the older one lands.
const HEAD_START: Duration = Duration::from_secs(2);

/// How the daemon ends, or lets go of the disk, while the origin has a write in hand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    Stop,
    Renew,
    Detach,
}

struct Case<'a> {
    lab: &'a Lab,
    origin: HeldOrigin,
    flash: Flash,
    settings: HearthSettings,
    manager: Option<Manager>,
    policy: &'a str,
}

impl<'a> Case<'a> {
    fn new(
        lab: &'a Lab,
        server: HeldServer,
        policy: &'a str,
        is_managed: bool,
        origin_keys: &str,
    ) -> anyhow::Result<Self> {
        let origin = HeldOrigin::start(lab, 16, server)?;
        let flash = Flash::format(lab, "flash.img", 128)?;
        let disk = DiskSettings::on_nbd_with(DISK, &origin.uri(), origin_keys);
        let disk = disk.key(&format!("write_policy = '{policy}'"));
        let disk = if policy == "back" {
            disk.key("write_back = { dirty_max = '32MiB', age_max = '100ms', idle_after = '5ms' }")
        } else {
            disk
        };
        Ok(Self {
            lab,
            origin,
            settings: HearthSettings::new(&flash).disk(&disk),
            flash,
            manager: is_managed.then(|| Manager::new(lab)).transpose()?,
            policy,
        })
    }

    fn start(&self) -> anyhow::Result<Hearth> {
        match &self.manager {
            Some(manager) => Hearth::start_under(self.lab, &self.settings, manager),
            None => Hearth::start(self.lab, &self.settings),
        }
    }

    /// Writes the block in the first round until the origin holds that write, and ends as told.
    fn leave_a_write(&self, hearth: Hearth, end: End) -> anyhow::Result<Hearth> {
        self.origin.hold_next_write()?;
        let uri = hearth.uri(DISK);
        thread::scope(|scope| {
            // Its connection ends, or its write fails.
            let first = scope.spawn(move || nbdsh(Some(&uri), &writes(BLOCK, 1, 1)).is_ok());
            self.origin.wait_until_held()?;
            if end != End::Kill && self.policy != "back" {
                // The time of the request is up.
                ensure!(!first.join().expect("the client ends"), "it was answered");
            }
            self.end(hearth, end)
        })
    }

    fn end(&self, mut hearth: Hearth, end: End) -> anyhow::Result<Hearth> {
        match end {
            End::Kill => hearth.kill()?,
            End::Stop => drop(hearth.stop()?),
            End::Renew => {
                hearth.renew()?;
                return Ok(hearth);
            }
            End::Detach => {
                hearth.command(&["disk", "detach", DISK, "--force"])?;
                self.attach(&hearth)?;
                return Ok(hearth);
            }
        }
        self.start()
    }

    /// Attaches it under another name, with a time that no option of the command line has.
    fn attach(&self, hearth: &Hearth) -> anyhow::Result<()> {
        let disk = serde_json::json!({
            "name": OTHER_NAME,
            "write_policy": self.policy,
            "origin": { "nbd": self.origin.uri(), "settle_time": "6s" },
        });
        let body = disk.to_string();
        let mut socket = UnixStream::connect(self.lab.path("admin.sock"))?;
        write!(
            socket,
            "POST /v1/disks HTTP/1.1\r\nHost: hearth\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 2"), "{answer}");
        let shown = hearth.json(&["disk", "show", OTHER_NAME])?;
        ensure!(shown["late_write_bytes"] == 4096, "{shown}");
        Ok(())
    }

    /// Writes the block in the second round by `second`, and looks at what is there.
    fn write_again(
        &self,
        hearth: &Hearth,
        disk: &str,
        second: impl FnOnce() -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<()> {
        self.release_amid(second)?;
        nbdsh(Some(&hearth.uri(disk)), &e2e::reads(BLOCK, 1, 2)).map(drop)
    }

    /// Carries out `second`, which brings the second round to the origin, and lands the held write in
    /// the middle or at the end of it.
    fn release_amid(
        &self,
        second: impl FnOnce() -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<()> {
        thread::scope(|scope| {
            let second = scope.spawn(second);
            let began = Instant::now();
            while !second.is_finished() && began.elapsed() < HEAD_START {
                thread::sleep(Duration::from_millis(10));
            }
            self.origin.release()?;
            join(second)
        })?;
        let found = self.origin.image().read(BLOCK * 4096, 4096)?;
        ensure!(found != block(BLOCK, 1), "the older write is at the origin");
        ensure!(found == block(BLOCK, 2), "something else is at the origin");
        Ok(())
    }
}

fn join(handle: ScopedJoinHandle<'_, anyhow::Result<()>>) -> anyhow::Result<()> {
    handle
        .join()
        .expect("a thread ends")
        .context("the second write")
}

fn through(server: HeldServer, end: End, is_managed: bool, origin_keys: &'static str) {
    scenario(HeldOrigin::TOOLS, |lab| {
        let case = Case::new(lab, server, "through", is_managed, origin_keys)?;
        let hearth = case.leave_a_write(case.start()?, end)?;
        let disk = if end == End::Detach { OTHER_NAME } else { DISK };
        let uri = hearth.uri(disk);
        case.write_again(&hearth, disk, || {
            nbdsh(Some(&uri), &writes(BLOCK, 1, 2)).map(drop)
        })?;
        hearth.stop().map(drop)
    });
}

/// Nobody has the old connection: the write is waited for as long as the settings say.
const SETTLES: &str = "settle_time = '6s', request_timeout = '60s'";
/// The old connection tells when it is over.
const KEPT: &str = "settle_time = '0s', request_timeout = '60s'";
/// The time of a request is up before its write lands.
const SHORT_REQUESTS: &str = "settle_time = '6s', request_timeout = '1s'";

#[test]
fn after_a_kill() {
    through(HeldServer::Nbdkit, End::Kill, false, SETTLES);
}

#[test]
fn after_a_kill_of_a_client_of_qemu() {
    through(HeldServer::Qemu, End::Kill, false, SETTLES);
}

#[test]
fn after_a_kill_under_a_service_manager() {
    through(HeldServer::Nbdkit, End::Kill, true, KEPT);
}

#[test]
fn after_a_kill_of_a_client_of_qemu_under_a_service_manager() {
    through(HeldServer::Qemu, End::Kill, true, SETTLES);
}

#[test]
fn after_a_stop_with_a_write_that_timed_out() {
    through(HeldServer::Nbdkit, End::Stop, false, SHORT_REQUESTS);
}

#[test]
fn after_a_renewal_with_a_write_that_timed_out() {
    through(HeldServer::Nbdkit, End::Renew, false, SHORT_REQUESTS);
}

#[test]
fn after_a_detach_with_a_write_that_timed_out() {
    through(HeldServer::Nbdkit, End::Detach, false, SHORT_REQUESTS);
}

/// The second round is on flash at once; `bring` brings it to the origin.
fn back(end: End, origin_keys: &'static str, bring: &'static [&'static str]) {
    scenario(HeldOrigin::TOOLS, |lab| {
        let case = Case::new(lab, HeldServer::Nbdkit, "back", false, origin_keys)?;
        let hearth = case.leave_a_write(case.start()?, end)?;
        nbdsh(Some(&hearth.uri(DISK)), &writes(BLOCK, 1, 2))?;
        case.write_again(&hearth, DISK, || hearth.command(bring).map(drop))?;
        hearth.stop().map(drop)
    });
}

#[test]
fn under_back_a_flush_waits_for_it() {
    back(End::Kill, SETTLES, &["disk", "flush", DISK, "--wait"]);
}

#[test]
fn under_back_a_barrier_waits_for_it() {
    back(End::Kill, SETTLES, &["disk", "barrier", DISK]);
}

#[test]
fn under_back_after_a_stop() {
    back(
        End::Stop,
        SHORT_REQUESTS,
        &["disk", "flush", DISK, "--wait"],
    );
}

#[test]
fn a_destage_without_the_daemon_waits_for_it() {
    scenario(HeldOrigin::TOOLS, |lab| {
        let case = Case::new(lab, HeldServer::Nbdkit, "back", false, SETTLES)?;
        let daemon = case.leave_a_write(case.start()?, End::Kill)?;
        nbdsh(Some(&daemon.uri(DISK)), &writes(BLOCK, 1, 2))?;
        daemon.kill()?;
        case.release_amid(|| {
            let flash = case.flash.path().display().to_string();
            let config = lab.path("hearth.toml").display().to_string();
            let words = [
                "recover", "destage", &flash, "--disk", DISK, "--config", &config,
            ];
            let answer = hearth(&words)?;
            ensure!(answer.code == 0, "{}", answer.stderr);
            Ok(())
        })
    });
}
