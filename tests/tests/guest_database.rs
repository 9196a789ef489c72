//! A guest's database on a disk under write-back. The daemon is killed under the guest again and
//! again, which it must not notice; then the guest crashes as well, alone, with the daemon, or as in
//! a power cut with the memory that outlives the daemon. Each time three disks must be sound: the
//! origin alone, the disk as Hearth serves it, and what a fresh boot makes of it, which has every
//! transaction that was answered as committed.
//!
//! `HEARTH_LIVES=30 cargo nextest run -p e2e --profile long guest_database::` is the long
//! form.

use std::process::Command;

use anyhow::{Context, ensure};
use e2e::{
    Back, CrashedExt4, GUEST_TOOLS, Guest, GuestKit, Lab, Pace, committed, highest, run, scenario,
};

const DATABASE: &str = "/srv/ledger.db";
/// Lives of the guest unless the environment says otherwise: each kind of crash once.
const LIVES: u64 = 3;
/// Kills of the daemon in each life.
const KILLS: u64 = 2;
/// Transactions between two kills.
const APART: u64 = 7;

fn lives() -> anyhow::Result<u64> {
    match std::env::var("HEARTH_LIVES") {
        Ok(text) => text.parse().context("HEARTH_LIVES"),
        Err(_) => Ok(LIVES),
    }
}

fn boot(
    lab: &Lab,
    kit: &GuestKit,
    back: &mut Back,
    name: &str,
    steps: &str,
) -> anyhow::Result<Guest> {
    let socket = back.hearth().nbd_socket().to_path_buf();
    Guest::boot(lab, kit, &socket, Back::DISK, name, steps)
}

/// The origin as it is now, without the flash: a disk that the guest may have left behind.
fn origin_is_legal(lab: &Lab, kit: &GuestKit, back: &Back) -> anyhow::Result<()> {
    let alone = CrashedExt4::copy_of(lab, back.image.path(), "origin-alone.raw")?;
    alone.check().context("the origin alone")?;
    alone
        .account_if_any(lab, kit, DATABASE)
        .context("the origin alone")
}

/// The disk through the daemon, which has every transaction that was answered.
fn disk_is_whole(lab: &Lab, kit: &GuestKit, back: &mut Back, through: u64) -> anyhow::Result<()> {
    let copy = lab.path("disk.raw");
    let _ = std::fs::remove_file(&copy);
    run(Command::new("nbdcopy").arg(back.uri()).arg(&copy))?;
    let disk = CrashedExt4::at(&copy);
    disk.check().context("the disk after the crash")?;
    disk.account(lab, kit, DATABASE, through)
        .context("the disk after the crash")?;
    Ok(())
}

#[test]
fn every_committed_transaction_survives() {
    scenario(&[GUEST_TOOLS, &["nbdcopy", "debugfs"]].concat(), |lab| {
        let kit = GuestKit::build()?;
        let mut back = Back::start_on(lab, kit.disk(lab)?, Pace::Eager)?;
        let mut through = 0;
        for life in 0..lives()? {
            let account = format!("account,db={DATABASE},through={through}+");
            let account = if life == 0 { "" } else { &account };
            let wal = life % 2;
            let steps = format!("{account}commit,db={DATABASE},transactions=1000000,wal={wal}");
            let mut guest = boot(lab, &kit, &mut back, &format!("life-{life}"), &steps)?;
            for kill in 1..=KILLS + 1 {
                let at = through.max(guest.committed()) + APART + (life * KILLS + kill) % 5;
                guest.wait_for(&format!("PROBE committed transaction={at}\r"))?;
                if kill <= KILLS {
                    back.kill()?;
                    back.start_again(lab)?;
                }
            }
            let bad = guest.console().contains("PROBE bad");
            ensure!(!bad, "the guest found it wanting:\n{}", guest.console());
            // The last kill is of the guest as well.
            let with_daemon = life % 3 != 0;
            if with_daemon {
                back.kill()?;
            }
            through = committed(&guest.kill()?);
            if with_daemon {
                origin_is_legal(lab, &kit, &back)?;
                if life % 3 == 2 {
                    back.lose_memory(lab)?;
                }
                back.start_again(lab)?;
            }
            disk_is_whole(lab, &kit, &mut back, through)?;
        }
        let steps = format!("account,db={DATABASE},through={through}");
        let said = boot(lab, &kit, &mut back, "last", &steps)?.finish()?;
        ensure!(highest(&said, " transactions=") >= through, "{said}");
        back.flush_and_compare(lab)?;
        back.stop()?;
        // Unmounted in good order: there is no journal to replay.
        run(Command::new("e2fsck")
            .args(["-f", "-n"])
            .arg(back.image.path()))
        .map(drop)
    });
}
