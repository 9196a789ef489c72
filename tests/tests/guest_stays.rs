//! A live migration that comes to nothing: it is cancelled when the guest has stopped, its destination ends then, or the
//! destination has the guest and never runs it. The guest goes on where it was, with each front end, and the disk stays.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, LONG, Migrating, Qmp, RoamingPair, RoamingSettings, run,
    scenario, wait_until,
};
use serde_json::json;

/// How long a guest that is about to come waits at least, with some time for the word of it to get through.
const INCOMING_WAITS: Duration = Duration::from_millis(1300);
/// How many files the guest writes, which takes longer than the moves, and how many between two steps.
const FILES: u64 = 3_000;
const FILES_A_STEP: u64 = 20;

/// What becomes of the move.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It is cancelled when the guest has stopped.
    Cancelled,
    /// The destination's QEMU ends when the guest has stopped.
    DestinationEnds,
    /// The destination has the guest, but does not run it, and ends.
    NeverRuns,
}

impl End {
    /// Lets the move end so.
    fn comes(self, monitor: &mut Qmp, next: Guest) -> anyhow::Result<()> {
        let nothing = json!({});
        let goes_on = json!({ "state": "pre-switchover" });
        match self {
            Self::Cancelled => {
                monitor.wait_for_move("pre-switchover")?;
                monitor.ask("migrate_cancel", &nothing)?;
                monitor.wait_for_move("cancelled")?;
                // It may have ended by itself.
                drop(next);
                Ok(())
            }
            Self::DestinationEnds => {
                monitor.wait_for_move("pre-switchover")?;
                next.monitor()?.ask("quit", &nothing)?;
                monitor.ask("migrate-continue", &goes_on)?;
                monitor.wait_for_move("failed")
            }
            Self::NeverRuns => {
                monitor.wait_for_move("pre-switchover")?;
                monitor.ask("migrate-continue", &goes_on)?;
                monitor.wait_for_move("completed")?;
                next.monitor()?.ask("quit", &nothing)?;
                monitor.ask("cont", &nothing).map(drop)
            }
        }
    }
}

fn wait_for_files(guest: &Guest) -> anyhow::Result<()> {
    let before = guest.files_synced();
    wait_until("the guest to write", LONG, || {
        let said = guest.console();
        ensure!(!said.contains("PROBE error"), "the guest has seen:\n{said}");
        Ok(guest.files_synced() >= FILES.min(before + FILES_A_STEP))
    })
}

fn stays(vhost_user: bool) {
    scenario(&[GUEST_TOOLS, RoamingPair::TOOLS].concat(), |lab| {
        let kit = GuestKit::build()?;
        let settings = RoamingSettings {
            vhost_user,
            flash_mib: 512,
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start_over(lab, kit.disk(lab)?, settings)?;
        let guests = Migrating {
            lab,
            kit: &kit,
            steps: format!(
                "write,dir=/var/probe,from=1,files={FILES},kib=4+verify,dir=/var/probe,through={FILES}"
            ),
        };
        let guest = guests.boot(&mut pair, 0, "first")?;
        wait_for_files(&guest)?;
        for end in [End::Cancelled, End::DestinationEnds, End::NeverRuns] {
            let name = format!("{end:?}");
            let next = guests.wait_at(&mut pair, 1, &name, &["-S"])?;
            std::thread::sleep(INCOMING_WAITS);
            let mut monitor = guest.monitor()?;
            guests.begin_move(&mut monitor, &name, true)?;
            end.comes(&mut monitor, next)?;
            wait_for_files(&guest)?;
            pair.wait_until_owned_by(0)?;
        }
        guest.finish()?;
        pair.flush_to_origin(0)?;
        let image: PathBuf = pair.image.path().to_owned();
        pair.stop_both()?;
        run(std::process::Command::new("e2fsck")
            .args(["-f", "-n"])
            .arg(image))
        .map(drop)
    });
}

#[test]
fn over_nbd() {
    stays(false);
}

#[test]
fn over_vhost_user() {
    stays(true);
}
