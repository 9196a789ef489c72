//! `hearth migrate prepare`, `abort` and `set`: a disk's cache goes ahead of it without a client, as fast as it is let.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Answer, Expected, RoamingPair, RoamingSettings, hearth, scenario, wait_until};
use serde_json::Value;

const DISK: &str = RoamingPair::DISK;
const AHEAD: &str = "the disk's cache is copied ahead";
const LIMIT: Duration = Duration::from_secs(20);

fn migrate(pair: &mut RoamingPair, at: usize, words: &[&str]) -> anyhow::Result<Answer> {
    let socket = pair.host(at).admin_socket().display().to_string();
    hearth(&[&["--socket", &socket, "--json", "migrate"], words].concat())
}

fn well(answer: &Answer) -> anyhow::Result<Value> {
    ensure!(answer.code == 0, "{}", answer.stderr);
    Ok(serde_json::from_str(&answer.stdout)?)
}

fn moves(pair: &mut RoamingPair, at: usize) -> anyhow::Result<Value> {
    let shown = well(&migrate(pair, at, &["show", DISK])?)?;
    Ok(shown["cache_move"].clone())
}

fn comes_to(pair: &mut RoamingPair, at: usize, phase: &str) -> anyhow::Result<()> {
    let mut seen = Value::Null;
    let came = wait_until("the phase", LIMIT, || {
        seen = moves(pair, at)?;
        Ok(seen["phase"] == phase)
    });
    came.with_context(|| format!("not {phase}: {seen}"))
}

/// Two hosts that have met; the first has the disk, and all of it in its cache.
fn warm(lab: &e2e::Lab, policy: &'static str) -> anyhow::Result<(RoamingPair, Expected)> {
    warm_at_rates(lab, policy, ["auto"; 2])
}

/// The same with these rates of the link.
fn warm_at_rates(
    lab: &e2e::Lab,
    policy: &'static str,
    link_rates: [&'static str; 2],
) -> anyhow::Result<(RoamingPair, Expected)> {
    let settings = RoamingSettings {
        write_policy: policy,
        link_rates,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start(lab, settings)?;
    wait_until("a session", LIMIT, || {
        let shown = well(&migrate(&mut pair, 1, &["show", DISK])?)?;
        Ok(shown["peer"]["stands"] == true)
    })?;
    let mut expected = Expected::of(&pair.image)?;
    let mut guest = pair.client(0)?;
    expected.write(&mut guest, (0..400).step_by(3), 1)?;
    guest.flush()?;
    for _ in 0..2 {
        expected.check("the source", &mut guest)?;
    }
    guest.close()?;
    Ok((pair, expected))
}

#[test]
fn a_cache_goes_ahead_without_a_client_until_that_is_aborted() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (mut pair, mut expected) = warm(lab, "back")?;
        // From the source's side.
        well(&migrate(
            &mut pair,
            0,
            &["prepare", DISK, "--to", RoamingPair::NAMES[1]],
        )?)?;
        wait_until(AHEAD, LIMIT, || Ok(pair.log(1)?.contains(AHEAD)))?;
        comes_to(&mut pair, 0, "expected")?;
        comes_to(&mut pair, 1, "ahead")?;
        // What the guest has written lies in a segment of the dirty log, which is not listed: 7.5 of 8 MiB come.
        for (at, key) in [(1, "came_bytes"), (0, "lent_bytes")] {
            wait_until(key, LIMIT, || {
                Ok(moves(&mut pair, at)?[key].as_u64() >= Some(7 << 20))
            })?;
        }
        wait_until("what is dirty to be at the origin", LIMIT, || {
            let shown = well(&migrate(&mut pair, 0, &["show", DISK])?)?;
            Ok(shown["left_bytes"] == 0)
        })?;
        well(&migrate(&mut pair, 0, &["abort", DISK])?)?;
        comes_to(&mut pair, 0, "idle")?;
        comes_to(&mut pair, 1, "idle")?;
        // Again, from the other side, and then the VM comes.
        well(&migrate(&mut pair, 1, &["prepare", DISK, "--here"])?)?;
        comes_to(&mut pair, 0, "expected")?;
        wait_until(
            AHEAD,
            LIMIT,
            || Ok(pair.log(1)?.matches(AHEAD).count() == 2),
        )?;
        let mut guest = pair.client(1)?;
        expected.write(&mut guest, 7..8, 2)?;
        pair.wait_until_owned_by(1)?;
        expected.check("the destination", &mut guest)?;
        comes_to(&mut pair, 0, "idle")?;
        guest.flush()?;
        pair.flush_and_compare(&expected)?;
        guest.close()?;
        pair.stop_both()
    });
}

#[test]
fn what_is_prepared_the_wrong_way_round_or_without_a_link_is_refused() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (mut pair, _) = warm(lab, "through")?;
        let [node_a, node_b] = RoamingPair::NAMES;
        for (at, words, code) in [
            (0, vec!["prepare", DISK, "--here"], 4),
            (1, vec!["prepare", DISK, "--to", node_a], 4),
            (0, vec!["prepare", DISK, "--to", "nobody"], 6),
            (0, vec!["prepare", "nothing", "--to", node_b], 6),
            (0, vec!["set", DISK, "--strategy", "piggyback"], 2),
            (0, vec!["set", DISK, "--rate", "0"], 2),
            (0, vec!["set", DISK], 2),
        ] {
            let answer = migrate(&mut pair, at, &words)?;
            ensure!(
                answer.code == code,
                "{words:?}: {} {}",
                answer.code,
                answer.stderr
            );
        }
        pair.wire.cut();
        wait_until("the refusal", LIMIT, || {
            Ok(migrate(&mut pair, 1, &["prepare", DISK, "--here"])?.code == 4)
        })?;
        pair.stop_both()
    });
}

/// How many seconds it took to copy a cache ahead.
fn copied_ahead_in(pair: &RoamingPair) -> anyhow::Result<f64> {
    let mut said = String::new();
    wait_until(AHEAD, LIMIT, || {
        let log = pair.log(1)?;
        let line = log.lines().find(|line| line.contains(AHEAD));
        line.unwrap_or_default().clone_into(&mut said);
        Ok(!said.is_empty())
    })?;
    let (_, seconds) = said.split_once("seconds=").context("how long it took")?;
    let seconds: String = seconds
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    Ok(seconds.parse()?)
}

#[test]
fn a_rate_holds_for_what_a_host_sends_too() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (mut pair, _) = warm_at_rates(lab, "through", ["2MiB", "auto"])?;
        well(&migrate(&mut pair, 1, &["prepare", DISK, "--here"])?)?;
        let seconds = copied_ahead_in(&pair)?;
        // 8 MiB, but for the last segment, which nothing waits behind.
        ensure!(seconds > 1.5, "{seconds}");
        wait_until("all of it to be expected to hit", LIMIT, || {
            Ok(moves(&mut pair, 1)?["expected_hit_ratio"].as_f64() == Some(1.0))
        })?;
        let text = pair.host(1).command(&["migrate", "show", DISK])?.stdout;
        ensure!(text.contains("100 % of the peer's hits"), "{text}");
        ensure!(
            moves(&mut pair, 0)?["expected_hit_ratio"].is_null(),
            "of the lender"
        );
        pair.stop_both()
    });
}

#[test]
fn a_rate_is_kept_to_and_can_be_changed_while_blocks_come() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (mut pair, _) = warm(lab, "through")?;
        well(&migrate(
            &mut pair,
            1,
            &["set", DISK, "--rate", "2MiB", "--strategy", "live"],
        )?)?;
        well(&migrate(&mut pair, 1, &["prepare", DISK, "--here"])?)?;
        let seconds = copied_ahead_in(&pair)?;
        // 8 MiB, but for what the bucket holds and the last window.
        ensure!(seconds > 3.5, "{seconds}");
        // With the rate that holds now nothing would come for hours.
        well(&migrate(&mut pair, 1, &["abort", DISK])?)?;
        well(&migrate(&mut pair, 1, &["set", DISK, "--rate", "1KiB"])?)?;
        well(&migrate(&mut pair, 1, &["prepare", DISK, "--here"])?)?;
        comes_to(&mut pair, 1, "ahead")?;
        well(&migrate(&mut pair, 1, &["set", DISK, "--rate", "auto"])?)?;
        wait_until(
            AHEAD,
            LIMIT,
            || Ok(pair.log(1)?.matches(AHEAD).count() >= 2),
        )?;
        pair.stop_both()
    });
}
