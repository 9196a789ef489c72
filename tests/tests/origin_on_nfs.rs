//! A disk's file on NFS: its server goes away under a hard and a soft mount and comes back, is started anew, and gives the lock of a
//! host that was cut off to another one. Nobody waits for longer than the time limit, and a host that lost the lock serves nothing
//! more before it has the disk again.

use anyhow::{Context as _, ensure};
use e2e::{LONG, Lab, NfsMachine, is_root, scenario, wait_until};

const DISK: &str = "disk";
const DISKS: &str = "[[disk]]
name = 'disk'
origin = { file = '/mnt/disk.raw', request_timeout = '2s' }";
const EXPORTS: &str = "[[disk]]
name = 'disk'
origin = { nbd = 'nbd://10.0.0.1/disk', request_timeout = '2s', reconnect_pause_max = '200ms', settle_time = '1s' }";

/// A machine on whose share is a file of 32 MiB that begins with its name.
fn machine(lab: &Lab) -> anyhow::Result<NfsMachine> {
    let mut machine = NfsMachine::boot(lab)?;
    machine.run("truncate -s 32M /srv/disk.raw && printf origin | dd of=/srv/disk.raw conv=notrunc status=none")?;
    Ok(machine)
}

fn with_machine(body: impl FnOnce(&mut NfsMachine) -> anyhow::Result<()>) {
    scenario(NfsMachine::TOOLS, |lab| {
        if !is_root("unpacking a Debian") {
            return Ok(());
        }
        body(&mut machine(lab)?)
    });
}

/// Waits until a disk of a host is in this state, and gives the reason that its daemon tells.
fn wait_for(machine: &mut NfsMachine, host: &str, state: &str) -> anyhow::Result<String> {
    let mut reason = String::new();
    wait_until(&format!("the disk of {host} to be {state}"), LONG, || {
        let shown = machine.hearth(host, &format!("disk show {DISK}"))?;
        shown["reason"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut reason);
        let is_so = shown["state"] == state;
        breathe(machine, is_so)
    })?;
    Ok(reason)
}

/// Lets a while pass unless it is so already: a command takes a second of the machine's emulated processor.
fn breathe(machine: &mut NfsMachine, is_so: bool) -> anyhow::Result<bool> {
    if !is_so {
        machine.run("sleep 2")?;
    }
    Ok(is_so)
}

/// What the file on the server begins with at a block.
fn on_server(machine: &mut NfsMachine, block: u64) -> anyhow::Result<String> {
    machine.run(&format!(
        "dd if=/srv/disk.raw bs=4096 skip={block} count=1 status=none | head -c 6"
    ))
}

/// The server is away for a while: what is cached is served, and the rest fails in time. Under a hard mount it is away for so long
/// that the disk is let go, and attached again with a write of before still under way.
fn goes_and_comes(machine: &mut NfsMachine, mount: &str, round: u64) -> anyhow::Result<()> {
    machine.mount("one", mount)?;
    machine.serve("one", DISKS)?;
    // A server that has just begun gives no locks until those before it had time to reclaim theirs.
    wait_for(machine, "one", "attached")?;
    let first = 1024 + 16 * round;
    machine.nbdsh(
        "one",
        DISK,
        &format!("assert h.pread(1 << 20, 0)[:6] == b'origin'\nh.pwrite(b'before' + bytes(4090), {first} * 4096)\nh.flush()"),
    )?;
    machine.cut("one")?;
    if mount == "hard" {
        is_found_by_a_check(machine)?;
    }
    let away = format!(
        r"
import errno, time
def ends(what, may_succeed=False):
    began = time.monotonic()
    try:
        what()
    except nbd.Error as error:
        assert error.errnum in (errno.ETIMEDOUT, errno.EIO), error
    else:
        assert may_succeed, 'nobody was there to do it'
    print(time.monotonic() - began)
ends(lambda: h.pread(4096, 4096 * ({first} + 1)))
ends(lambda: h.pwrite(b'during' + bytes(4090), 4096 * ({first} + 2)))
# Nothing that was answered waits for it: the kernel may say so without the server.
ends(lambda: h.flush(), may_succeed=True)
assert h.pread(1 << 20, 0)[:6] == b'origin'
"
    );
    for seconds in machine.nbdsh("one", DISK, &away)?.lines() {
        // The time limit is 2 s, and the machine's CPU is emulated.
        ensure!(seconds.parse::<f64>()? < 20.0, "it took {seconds} s");
    }
    let shown = machine.hearth("one", "disk show disk")?;
    ensure!(shown["origin_connected"] == false, "{shown}");
    if mount == "hard" {
        // After a minute another host may have the file's lock.
        wait_for(machine, "one", "waiting")?;
        // The reason that the disk shows is that of the newest try to attach it again.
        let log = machine.run("grep 'disk is let go' /run/one/log")?;
        ensure!(log.contains("not known whether another host"), "{log}");
        ensure!(machine.nbdsh("one", DISK, "pass").is_err());
    }
    machine.join("one")?;
    wait_for(machine, "one", "attached")?;
    wait_until("the origin to answer again", LONG, || {
        let shown = machine.hearth("one", "disk show disk")?;
        breathe(machine, shown["origin_connected"] == true)
    })?;
    machine.nbdsh(
        "one",
        DISK,
        &format!("h.pwrite(b'after_' + bytes(4090), 4096 * ({first} + 2))\nh.flush()\nassert h.pread(4096, 4096 * ({first} + 2))[:6] == b'after_'"),
    )?;
    ensure!(on_server(machine, first)? == "before");
    ensure!(
        on_server(machine, first + 2)? == "after_",
        "a late write undid a newer one"
    );
    machine.stop("one")?;
    machine.run("on one umount /mnt").map(drop)
}

/// Whoever checks a configuration is told which of its paths do not answer.
fn is_found_by_a_check(machine: &mut NfsMachine) -> anyhow::Result<()> {
    let said = machine.run(
        "status=0
on one timeout 60 /lab/hearth serve --config /run/one/hearth.toml --check-config 2>&1 || status=$?
[ $status = 2 ]",
    )?;
    for path in ["daemon.owners_dir", "disk[0].origin.file"] {
        let fault = said.lines().find(|line| line.contains(path));
        let fault = fault.with_context(|| said.clone())?;
        ensure!(fault.contains("does not answer"), "{said}");
    }
    Ok(())
}

#[test]
fn a_server_that_goes_and_comes_holds_nobody_for_longer_than_the_time_limit() {
    with_machine(|machine| {
        goes_and_comes(machine, "hard", 0)?;
        goes_and_comes(machine, "soft,timeo=10,retrans=1", 1)
    });
}

#[test]
fn a_host_whose_lock_was_given_to_another_one_serves_nothing_before_it_has_the_disk_again() {
    with_machine(|machine| changes_hands(machine, DISKS, "has let go of the file's lock"));
}

#[test]
fn the_same_of_an_export_whose_lock_is_in_a_folder_on_the_share() {
    with_machine(|machine| {
        machine.run("on server nbdkit -p 10809 -i 10.0.0.1 -e disk file /srv/disk.raw </dev/null >/dev/null 2>&1")?;
        changes_hands(machine, EXPORTS, "lock")
    });
}

/// One host has the disk and is cut off; the other one gets the lock, and the first one hears so when it is back.
fn changes_hands(machine: &mut NfsMachine, disks: &str, lost: &str) -> anyhow::Result<()> {
    for host in ["one", "two"] {
        machine.mount(host, "hard")?;
    }
    machine.serve("one", disks)?;
    wait_for(machine, "one", "attached")?;
    machine.nbdsh("one", DISK, "assert h.pread(4096, 0)[:6] == b'origin'")?;
    machine.serve("two", disks)?;
    let reason = wait_for(machine, "two", "waiting")?;
    ensure!(reason.contains("in use"), "{reason}");
    server_starts_anew(machine)?;

    machine.cut("one")?;
    wait_for(machine, "two", "attached")?;
    machine.nbdsh(
        "two",
        DISK,
        "h.pwrite(b'second' + bytes(4090), 0)\nh.flush()",
    )?;
    machine.join("one")?;
    wait_for(machine, "one", "waiting")?;
    let log = machine.run("grep 'disk is let go' /run/one/log")?;
    ensure!(log.contains(lost), "{log}");
    ensure!(machine.nbdsh("one", DISK, "pass").is_err());

    machine.nbdsh("two", DISK, "assert h.pread(4096, 0)[:6] == b'second'")?;
    machine.hearth("two", "disk detach disk")?;
    wait_for(machine, "one", "attached")?;
    machine.nbdsh("one", DISK, "assert h.pread(4096, 0)[:6] == b'second'")?;
    let shown = machine.hearth("one", "disk show disk")?;
    let dropped = shown["dropped"]
        .as_str()
        .context("why its blocks were dropped")?;
    ensure!(dropped.contains("another cache"), "{shown}");
    machine.stop("one")?;
    machine.stop("two")
}

/// A server that is started anew has its clients reclaim their locks: the disk stays where it is.
fn server_starts_anew(machine: &mut NfsMachine) -> anyhow::Result<()> {
    machine.run("on server rpc.nfsd 0; sleep 1; on server rpc.nfsd -N 3 4")?;
    machine.nbdsh(
        "one",
        DISK,
        "import time
for again in range(60):
    try:
        h.pwrite(b'newer_' + bytes(4090), 8192)
        h.flush()
        break
    except nbd.Error:
        time.sleep(0.5)
else:
    raise AssertionError('the server takes nothing')",
    )?;
    ensure!(on_server(machine, 2)? == "newer_");
    // For longer than the daemon takes to look at the lock.
    machine.run("sleep 6")?;
    for (host, state) in [("one", "attached"), ("two", "waiting")] {
        let shown = machine.hearth(host, "disk show disk")?;
        ensure!(shown["state"] == state, "{shown}");
    }
    Ok(())
}
