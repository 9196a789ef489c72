//! A VM that is started a second time by mistake, or whose disk the other host does not give away for another reason: what it
//! sees over NBD. Its reads are answered. Its first write fails after ten seconds; or QEMU stops it then, if it is told to,
//! and it goes on when the disk can be had. The VM that runs at the other host notices nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, LONG, Lab, RoamingPair, RoamingSettings, Session, block,
    scenario, wait_until,
};
use serde_json::json;

const BLOCK: u64 = 4096;
/// How long a guest waits for its disk, at least and at most: a busy machine answers late.
const PATIENCE: [Duration; 2] = [Duration::from_secs(9), Duration::from_secs(25)];
/// Behind what the guest writes.
const ELSEWHERE: u64 = 1500;
const STEPS: &str = "device,path=/dev/vdb,operations=2000,mib=4,sync_every=500";

/// A VM at host 0 that writes all the time, until it is told to end.
fn runs(mut guest: Session, ends: &AtomicBool) -> anyhow::Result<()> {
    while !ends.load(Ordering::SeqCst) {
        guest.write(ELSEWHERE * BLOCK, &block(ELSEWHERE, 1))?;
        std::thread::sleep(Duration::from_millis(5));
    }
    guest.flush()?;
    guest.close()
}

fn second(
    lab: &Lab,
    kit: &GuestKit,
    pair: &mut RoamingPair,
    on_error: &str,
) -> anyhow::Result<Guest> {
    let root = format!(
        "driver=file,node-name=root,filename={},locking=off",
        lab.path("guest.raw").display()
    );
    let disk = format!(
        "driver=nbd,node-name=disk,server.type=unix,server.path={},export={}",
        pair.host(1).nbd_socket().display(),
        RoamingPair::DISK
    );
    let device = format!("virtio-blk-pci,drive=disk,werror={on_error}");
    let arguments = [
        "-blockdev",
        &root,
        "-blockdev",
        &disk,
        "-device",
        "virtio-blk-pci,drive=root",
        "-device",
        &device,
    ];
    Guest::boot_as_told(lab, kit, "second", STEPS, &arguments)
}

/// The second guest, at whose first write the disk is not given away.
fn waits_in_vain(
    on_error: &'static str,
    sees: impl FnOnce(&mut Guest) -> anyhow::Result<()>,
    ends_well: impl FnOnce(Guest) -> anyhow::Result<()>,
) {
    scenario(&[GUEST_TOOLS, RoamingPair::TOOLS].concat(), |lab| {
        let kit = GuestKit::build()?;
        kit.disk(lab)?;
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let first = pair.client(0)?;
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let running = std::thread::spawn(move || runs(first, &told));
        let mut guest = second(lab, &kit, &mut pair, on_error)?;
        guest.wait_for("PROBE start")?;
        let began = Instant::now();
        let seen = sees(&mut guest);
        let took = began.elapsed();
        let is_running = !running.is_finished();
        ends.store(true, Ordering::SeqCst);
        let ran = running.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        ran?;
        seen?;
        ensure!(is_running, "the VM that runs was disturbed");
        ensure!(
            took >= PATIENCE[0] && took <= PATIENCE[1],
            "it waited {took:?}"
        );
        ends_well(guest)?;
        pair.stop_both()
    });
}

#[test]
fn its_first_write_fails() {
    waits_in_vain(
        "report",
        |guest| guest.wait_for("PROBE error step=device"),
        |guest| {
            let said = guest.kill()?;
            let is_write = said.contains("write of page") && said.contains("os error 5");
            ensure!(is_write, "{said}");
            Ok(())
        },
    );
}

#[test]
fn it_is_stopped_and_goes_on_when_the_disk_is_free() {
    waits_in_vain(
        "stop",
        |guest| {
            let mut monitor = guest.monitor()?;
            wait_until("the guest to be stopped", LONG, || {
                let status = monitor.ask("query-status", &json!({}))?;
                Ok(status["status"] == "io-error")
            })
        },
        |guest| {
            guest.monitor()?.ask("cont", &json!({}))?;
            let said = guest.finish()?;
            ensure!(!said.contains("I/O error"), "{said}");
            Ok(())
        },
    );
}
