//! `kill -9` of the daemon under write-back, in the middle of writes, again and again: after each
//! restart every block holds its last answered write or one that was in flight, flushed or not; and
//! in the end the origin has all of it. Once by a client of our own, which knows what was answered up
//! to the kill; once by fio, whose record of it is some milliseconds older than the kill.
//!
//! `HEARTH_KILLS=300 cargo nextest run -p e2e --profile long back_survives_kills::` is the
//! long form.

use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::{Back, Fio, LONG, Lab, Pace, Process, Versions, scenario, wait_until};

/// Kills in each test unless the environment says otherwise.
const KILLS: u32 = 5;

fn kills() -> anyhow::Result<u32> {
    match std::env::var("HEARTH_KILLS") {
        Ok(text) => text.parse().context("HEARTH_KILLS"),
        Err(_) => Ok(KILLS),
    }
}

/// Not to wait for something, but to hit another moment in each round.
fn any_moment(round: u32) {
    std::thread::sleep(Duration::from_millis(u64::from(round * 37 % 400)));
}

#[test]
fn nothing_answered_is_lost_by_a_kill() {
    scenario(&["nbdsh", "nbdcopy"], |lab| {
        let mut back = Back::start(lab, Pace::Eager)?;
        let mut versions = Versions::new(lab);
        for round in 0..kills()? {
            let writer = versions.write(&back.uri(), 60)?;
            any_moment(round);
            back.kill()?;
            writer.was_cut_off()?;
            back.start_again(lab)?;
            versions.verify(&back.uri())?;
        }
        back.flush_and_compare(lab)
    });
}

/// A job of its own for each round: another seed gives other bytes, so that a block of an earlier
/// round is a wrong one.
fn job(lab: &Lab, round: u32, uri: &str, depth: u32) -> Fio {
    Fio::new(lab, &format!("round-{round}"), uri)
        .with("rw=randwrite")
        .with("bs=4k")
        .with(&format!("iodepth={depth}"))
        .with("fsync=40")
        .with(&format!("randseed={}", round + 1))
        .verified()
}

/// fio leaves out as many of the last writes as may have been in flight when it took its note.
const WRITES_AT_A_TIME: u32 = 16;

/// To know where the last writes begin fio counts the reads that have come back, so with several at a time it would read
/// writes that were never answered.
const READS_AT_A_TIME: u32 = 1;

/// How many blocks fio read: `issued rwts: total=READS,WRITES,...`.
fn blocks_read(said: &str) -> u64 {
    let total = said.split("issued rwts: total=").nth(1);
    let reads = total.and_then(|rest| rest.split(',').next());
    reads.and_then(|reads| reads.parse().ok()).unwrap_or(0)
}

#[test]
fn fio_finds_every_block_that_it_was_answered() {
    scenario(&["fio", "nbdcopy"], |lab| {
        let mut back = Back::start(lab, Pace::Eager)?;
        for round in 0..kills()? {
            // fio looks for this file, notes which of its writes were answered, and kills the daemon.
            let trigger = lab.path(&format!("trigger-{round}"));
            let kill = format!("kill -9 {}", back.hearth().id());
            let mut command = job(lab, round, &back.uri(), WRITES_AT_A_TIME)
                .with("do_verify=0")
                // Slow enough that it still writes when it is cut off.
                .with("rate_iops=8000")
                .with(&format!("trigger-file={}", trigger.display()))
                .with(&format!("trigger={kill}"))
                .into_command();
            let fio = Process::start(lab, &format!("fio-{round}"), &mut command)?;
            wait_until("fio to write", LONG, || {
                let shown = back.hearth().json(&["disk", "show", Back::DISK])?;
                Ok(shown["counters"]["write_requests"].as_u64() > Some(0))
            })?;
            any_moment(round);
            std::fs::write(&trigger, "")?;
            fio.wait(LONG)?;
            back.wait_until_killed()?;
            back.start_again(lab)?;
            let said = job(lab, round, &back.uri(), READS_AT_A_TIME)
                .with("verify_only=1")
                .with("verify_state_load=1")
                .run()?;
            ensure!(
                blocks_read(&said.stdout) > 0,
                "nothing was verified in round {round}"
            );
        }
        back.flush_and_compare(lab)
    });
}
