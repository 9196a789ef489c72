//! Ten guests with the agent boot at once on one daemon and a slow origin. Each would read ahead more than its memory is
//! for: it stops at its budget, or, where a task waits for memory, before that; and no guest's own read fails or waits long.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use e2e::{
    DiskSettings, Flash, GUEST_TOOLS, Guest, GuestKit, Hearth, HearthSettings, Lab, Process, SHORT,
    run, said, scenario, wait_until, with_agent,
};

const GUESTS: usize = 10;
/// Memory of a guest, in MiB: the kernel needs half of it.
const MEMORY_MIB: u64 = 128;
/// What a guest has read again and again before: 36 files at least, of a MiB each.
const HISTORY_BYTES: u64 = 36 << 20;
/// What a guest's own read may take on a busy machine.
const READ_US_MAX: u64 = 30_000_000;
const EPOCH: &str = "--epoch,200ms";
/// The guest's own reads, past its page cache: they go on while the agent reads ahead.
const READS: &str = "random,dir=/srv/files,reads=40";

fn disk(number: usize) -> String {
    format!("disk-{number}")
}

/// A guest whose disk has few requests under way, so that what is read ahead takes a while.
fn boot(
    lab: &Lab,
    kit: &GuestKit,
    name: &str,
    steps: &str,
    backend: &str,
) -> anyhow::Result<Guest> {
    let backend = format!("{backend},node-name=disk");
    let memory = MEMORY_MIB.to_string();
    let arguments = [
        "-m",
        &memory,
        "-blockdev",
        &backend,
        "-device",
        "virtio-blk-pci,drive=disk,queue-size=16",
    ];
    Guest::boot_as_told(lab, kit, name, steps, &arguments)
}

/// An image of a guest that has been used, and copies of it in `folder`: the guests are clones.
fn clones(lab: &Lab, kit: &GuestKit, folder: &Path) -> anyhow::Result<()> {
    let image = kit.disk(lab)?;
    let all = "read,dir=/srv/files";
    let steps = with_agent(&format!("{all}+{all}"), EPOCH);
    let backend = format!("driver=file,filename={}", image.path().display());
    boot(lab, kit, "used", &steps, &backend)?.finish()?;
    std::fs::create_dir_all(folder)?;
    for number in 0..GUESTS {
        run(Command::new("cp")
            .arg("--sparse=always")
            .arg(image.path())
            .arg(folder.join(disk(number))))?;
    }
    Ok(())
}

/// Serves each file of a folder; each request takes 50 ms.
fn origin(lab: &Lab, folder: &Path, socket: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new("nbdkit");
    command.arg("-f").arg("-U").arg(socket);
    command.args(["--filter=delay", "file"]);
    command.arg(format!("dir={}", folder.display()));
    command.args(["rdelay=50ms", "wdelay=50ms"]);
    let process = Process::start(lab, "origin", &mut command)?;
    wait_until("the origin to listen", SHORT, || {
        Ok(std::os::unix::net::UnixStream::connect(socket).is_ok())
    })?;
    Ok(process)
}

fn daemon(lab: &Lab, origin: &Path) -> anyhow::Result<Hearth> {
    let flash = Flash::format(lab, "flash.img", 1024)?;
    // A disk that others keep busy is no slow flash here.
    let mut settings = HearthSettings::new(&flash).cache_key("flash_timeout = '60s'");
    for number in 0..GUESTS {
        let name = disk(number);
        let uri = format!("nbd+unix:///{name}?socket={}", origin.display());
        settings = settings.disk(&DiskSettings::on_nbd(&name, &uri));
    }
    Hearth::start(lab, &settings)
}

/// Every second guest has a task that waits for memory all the time.
fn is_short(number: usize) -> bool {
    number.is_multiple_of(2)
}

/// Why the preload ended, as the agent says it.
fn why(console: &str) -> anyhow::Result<&str> {
    let mut lines = console.lines();
    let line = lines.find(|line| line.contains("preload ended"));
    let why = line.and_then(|line| line.split_once("why="));
    let (_, why) = why.with_context(|| format!("no preload has ended:\n{console}"))?;
    Ok(why.trim())
}

#[allow(clippy::print_stdout, reason = "what a run of the test has measured")]
fn check(number: usize, console: &str) -> anyhow::Result<()> {
    let planned = said(console, "preload begins", "bytes")?;
    let read = said(console, "preload ended", "bytes")?;
    let longest = said(console, "PROBE random", "max_us")?;
    let why = why(console)?;
    println!(
        "guest {number}: {read} of {planned} bytes, {why}; its longest read took {longest} us"
    );
    // A quarter of what is available, and less than all that matters.
    let most = HISTORY_BYTES.min(MEMORY_MIB << 20 >> 2);
    ensure!((8 << 20..most).contains(&planned), "{planned}:\n{console}");
    ensure!(longest <= READ_US_MAX, "{longest} us:\n{console}");
    if is_short(number) {
        ensure!(why == "pressure", "{why}:\n{console}");
        ensure!(read < planned, "all was read under pressure:\n{console}");
    } else {
        ensure!((why, read) == ("done", planned), "{why}:\n{console}");
    }
    Ok(())
}

#[test]
fn a_preload_stops_at_its_budget_or_the_first_pressure_in_each_of_ten_guests() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let (folder, socket) = (lab.path("images"), lab.path("origin.sock"));
        clones(lab, &kit, &folder)?;
        let origin = origin(lab, &folder, &socket)?;
        let hearth = daemon(lab, &socket)?;
        let mut guests = Vec::new();
        for number in 0..GUESTS {
            let short = if is_short(number) { " pressure=1" } else { "" };
            let steps = format!("{} meanwhile=1{short}", with_agent(READS, EPOCH));
            let backend = format!(
                "driver=nbd,server.type=unix,server.path={},export={},reconnect-delay=30",
                hearth.nbd_socket().display(),
                disk(number)
            );
            guests.push(boot(lab, &kit, &disk(number), &steps, &backend)?);
        }
        for (number, guest) in guests.into_iter().enumerate() {
            check(number, &guest.finish()?)?;
        }
        for number in 0..GUESTS {
            let shown = hearth.json(&["disk", "show", &disk(number)])?;
            let failed = &shown["counters"]["failed_requests"];
            ensure!(failed == 0, "requests failed: {shown:#}");
        }
        hearth.stop()?;
        origin.terminate()?;
        Ok(())
    });
}
