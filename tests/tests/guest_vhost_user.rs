//! A Linux guest on a vhost-user disk: it boots, reads and writes, and notices nothing of a server
//! that is killed and started again in the middle of its writes.
//!
//! The server is the example of the crate `vhost-user`: the front end without a cache behind it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, Image, LONG, Lab, Process, SHORT, run, scenario, wait_until,
};

/// The example server, running.
struct RawFile {
    process: Process,
    socket: PathBuf,
}

impl RawFile {
    fn program() -> anyhow::Result<PathBuf> {
        let own = std::env::current_exe().context("the test's own path")?;
        let profile = own.ancestors().nth(2).context("target/PROFILE/deps")?;
        let built = profile.join("examples/raw_file");
        ensure!(
            built.is_file(),
            "{} is not built; run `cargo build -p vhost-user --example raw_file` first",
            built.display()
        );
        Ok(built)
    }

    fn start(lab: &Lab, image: &Image, arguments: &[&str]) -> anyhow::Result<Self> {
        let socket = lab.path("disk.sock");
        let mut command = Command::new(Self::program()?);
        command
            .env("RUST_LOG", "info")
            .env("NO_COLOR", "1")
            .arg("--socket")
            .arg(&socket)
            .arg("--image")
            .arg(image.path())
            .args(arguments);
        let said = |path: &std::path::Path| {
            let log = std::fs::read_to_string(path).unwrap_or_default();
            log.matches("listening").count()
        };
        let log = lab.path("raw-file.log");
        let before = said(&log);
        let process = Process::start(lab, "raw-file", &mut command)?;
        wait_until("the server to listen", SHORT, || Ok(said(&log) > before))?;
        Ok(Self { process, socket })
    }

    /// Requests that it took up from one that was killed, as it says in its log.
    fn resumed(&self) -> anyhow::Result<u64> {
        let log = std::fs::read_to_string(self.process.log())?;
        let numbers = log.lines().filter_map(|line| {
            let (_, number) = line.rsplit_once("taken up ")?.1.rsplit_once("resumed=")?;
            number.trim().parse::<u64>().ok()
        });
        Ok(numbers.sum())
    }
}

fn file_system_is_sound(image: &Image) -> anyhow::Result<()> {
    run(Command::new("e2fsck").args(["-f", "-y"]).arg(image.path())).map(|_| ())
}

#[test]
fn a_guest_boots_reads_and_writes() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let image = kit.disk(lab)?;
        let server = RawFile::start(lab, &image, &["--direct"])?;
        let steps = "read,dir=/srv/files+random,dir=/srv/files,reads=500\
            +write,dir=/var/probe,from=1,files=8,kib=1024+verify,dir=/var/probe,through=8";
        Guest::boot_vhost_user(lab, &kit, &server.socket, "guest", steps)?.finish()?;
        // And again, from what it wrote, through copies of ours this time.
        drop(server);
        let server = RawFile::start(lab, &image, &["--copy", "--delay-ms", "2"])?;
        let steps = "read,dir=/srv/files+verify,dir=/var/probe,through=8";
        Guest::boot_vhost_user(lab, &kit, &server.socket, "again", steps)?.finish()?;
        drop(server);
        file_system_is_sound(&image)
    });
}

#[test]
fn a_guest_notices_nothing_of_a_server_that_is_killed() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let image = kit.disk(lab)?;
        // Slow, and out of order; small files, so that the guest mostly waits for the disk.
        let slow = ["--delay-ms", "100"];
        let mut server = RawFile::start(lab, &image, &slow)?;
        let steps = "write,dir=/var/probe,from=1,files=60,kib=32+verify,dir=/var/probe,through=60";
        let guest = Guest::boot_vhost_user(lab, &kit, &server.socket, "guest", steps)?;
        for synced in [2, 8, 9, 15, 30, 45] {
            wait_until("the guest to write", LONG, || {
                Ok(guest.files_synced() >= synced)
            })?;
            // The guest has just heard that a file is synced: it needs a moment until requests of the next one are half way.
            std::thread::sleep(Duration::from_millis(150));
            server.process.kill()?;
            server = RawFile::start(lab, &image, &slow)?;
        }
        guest.finish()?;
        let resumed = server.resumed()?;
        ensure!(resumed > 0, "no server was killed with requests in flight");
        drop(server);
        file_system_is_sound(&image)
    });
}
