//! A guest's database commits while the guest moves live between two hosts, with each front end. At the end the guest is cut
//! off: what the origin has then is a sound file system, and a sound database with every transaction that was answered as
//! committed.
//!
//! `HEARTH_MOVES=40 cargo nextest run -p e2e --profile long guest_database_roams::` is the long form.

#![allow(clippy::print_stdout, reason = "the figures of the long form")]

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{
    CrashedExt4, GUEST_TOOLS, Guest, GuestKit, LONG, Migrating, RoamingPair, RoamingSettings,
    committed, scenario, wait_until,
};

const DATABASE: &str = "/srv/ledger.db";
/// Moves unless the environment says otherwise: there and back.
const MOVES: usize = 2;
/// Transactions that are committed at each host at least.
const TRANSACTIONS_A_HOST: u64 = 5;
/// How long a guest that is about to come waits at least, with some time for the word of it to get through.
const INCOMING_WAITS: Duration = Duration::from_millis(1300);

fn moves() -> anyhow::Result<usize> {
    match std::env::var("HEARTH_MOVES") {
        Ok(text) => text.parse().context("HEARTH_MOVES"),
        Err(_) => Ok(MOVES),
    }
}

/// Waits until the guest has committed some transactions more than `before`, and has found nothing wrong.
fn wait_for_transactions(guest: &Guest, before: u64) -> anyhow::Result<u64> {
    wait_until("the guest to commit", LONG, || {
        let said = guest.console();
        let words = ["PROBE bad", "PROBE error", "I/O error", "BUG:", "Oops"];
        let is_well = !words.iter().any(|words| said.contains(words));
        ensure!(is_well, "the guest has seen:\n{said}");
        Ok(guest.committed() >= before + TRANSACTIONS_A_HOST)
    })?;
    Ok(guest.committed())
}

fn commits_while_it_moves(settings: RoamingSettings) {
    scenario(
        &[GUEST_TOOLS, RoamingPair::TOOLS, &["debugfs"]].concat(),
        |lab| {
            let kit = GuestKit::build()?;
            let settings = RoamingSettings {
                flash_mib: 512,
                ..settings
            };
            let mut pair = RoamingPair::start_over(lab, kit.disk(lab)?, settings)?;
            let guests = Migrating {
                lab,
                kit: &kit,
                steps: format!("commit,db={DATABASE},transactions=1000000,wal=1"),
            };
            let mut guest = guests.boot(&mut pair, 0, "first")?;
            let mut through = wait_for_transactions(&guest, 0)?;
            let mut longest = Duration::ZERO;
            for number in 1..=moves()? {
                let there = number % 2;
                let name = format!("host-{there}-move-{number}");
                let next = guests.wait_at(&mut pair, there, &name, &[])?;
                std::thread::sleep(INCOMING_WAITS);
                let mut monitor = guest.monitor()?;
                guests.begin_move(&mut monitor, &name, false)?;
                monitor.wait_for_move("completed")?;
                let completed = Instant::now();
                through = through.max(guest.committed());
                wait_until("the guest to commit there", LONG, || {
                    Ok(next.committed() > through)
                })?;
                longest = longest.max(completed.elapsed());
                guest.kill()?;
                through = wait_for_transactions(&next, through)?;
                pair.wait_until_owned_by(there)
                    .with_context(|| format!("move {number}"))?;
                guest = next;
            }
            through = through.max(committed(&guest.kill()?));
            println!(
                "{} moves, {through} transactions, at most {longest:?} without one",
                moves()?
            );
            let owner = pair.owner()?;
            pair.flush_to_origin(owner)?;
            let image = pair.image.path().to_owned();
            pair.stop_both()?;
            let disk = CrashedExt4::at(&image);
            disk.check()?;
            disk.account(lab, &kit, DATABASE, through)?;
            Ok(())
        },
    );
}

#[test]
fn over_nbd() {
    commits_while_it_moves(RoamingSettings::default());
}

#[test]
fn over_nbd_with_dirty_data_that_goes_along() {
    commits_while_it_moves(RoamingSettings {
        dirty: "ship",
        ..RoamingSettings::default()
    });
}

#[test]
fn over_vhost_user() {
    commits_while_it_moves(RoamingSettings {
        vhost_user: true,
        ..RoamingSettings::default()
    });
}

#[test]
fn over_vhost_user_with_dirty_data_that_goes_along() {
    commits_while_it_moves(RoamingSettings {
        vhost_user: true,
        dirty: "ship",
        ..RoamingSettings::default()
    });
}
