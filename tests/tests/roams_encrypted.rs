//! A disk that is encrypted on flash moves: each host has a key of its own, the bytes travel inside TLS, and lie plainly
//! on no flash. A host without its key claims nothing.

use std::time::Duration;

use anyhow::ensure;
use e2e::{Expected, RoamingPair, RoamingSettings, hearth, scenario, wait_until};

const COME: &str = "the disk's cache has come";
const AHEAD: &str = "the disk's cache is copied ahead";
const LIMIT: Duration = Duration::from_secs(10);
const BLOCK: usize = 4096;

fn settings(write_policy: &'static str, strategy: &'static str) -> RoamingSettings {
    RoamingSettings {
        write_policy,
        strategy,
        encrypted: true,
        ..RoamingSettings::default()
    }
}

/// Whether a page of the image lies on a host's flash as it is.
fn holds_plain(pair: &RoamingPair, at: usize) -> anyhow::Result<bool> {
    let image = std::fs::read(pair.image.path())?;
    let is_told = |page: &&[u8]| page.iter().any(|byte| *byte != page[0]);
    let pages: std::collections::HashSet<&[u8]> = image.chunks(BLOCK).filter(is_told).collect();
    ensure!(pages.len() > 300, "{} pages are told apart", pages.len());
    let flash = std::fs::read(pair.lab(at).path("flash.img"))?;
    Ok(flash.chunks(BLOCK).any(|page| pages.contains(page)))
}

/// Moves a disk that is cached at its source; its blocks come from there, before or after the move.
fn comes(write_policy: &'static str, strategy: &'static str, sign: &'static str) {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, settings(write_policy, strategy))?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, (0..400).step_by(3), 1)?;
        expected.check("the source", &mut source)?;
        source.flush()?;
        expected.check("the source", &mut source)?;
        let mut destination = pair.client(1)?;
        if sign == AHEAD {
            wait_until(sign, LIMIT, || Ok(pair.log(1)?.contains(sign)))?;
        }
        source.close()?;
        expected.write(&mut destination, 7..8, 2)?;
        pair.wait_until_owned_by(1)?;
        wait_until(sign, LIMIT, || Ok(pair.log(1)?.contains(sign)))?;
        destination.flush()?;
        pair.flush_and_compare(&expected)?;
        if sign == COME {
            let origin = pair.replace_origin(7)?;
            expected.check("the destination", &mut destination)?;
            std::fs::write(pair.image.path(), origin)?;
        }
        expected.check("the destination", &mut destination)?;
        destination.close()?;
        for at in 0..2 {
            ensure!(!holds_plain(&pair, at)?, "host {at} has plain bytes");
        }
        pair.stop_both()
    });
}

#[test]
fn what_is_lent_of_an_encrypted_disk_is_read_by_the_next_host() {
    comes("through", "on-demand", COME);
}

#[test]
fn an_encrypted_disk_with_unwritten_data_is_copied_ahead() {
    comes("back", "live", AHEAD);
}

#[test]
fn a_host_without_the_key_does_not_take_the_disk() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::new(lab, settings("back", "live"))?;
        pair.start_host(0)?;
        pair.wait_until_owned_by(0)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, 0..4, 1)?;
        let key = pair.key(1);
        let secret = std::fs::read(&key)?;
        std::fs::remove_file(&key)?;
        pair.start_host_in_trouble(1)?;
        let disk = RoamingPair::DISK;
        let shown = pair.host(1).json(&["disk", "show", disk])?.to_string();
        ensure!(shown.contains("key"), "{shown}");
        let socket = pair.host(0).admin_socket().display().to_string();
        let words = ["migrate", "check", disk, "--to", RoamingPair::NAMES[1]];
        let check = hearth(&[&["--socket", &socket, "--json"], &words[..]].concat())?;
        ensure!(
            check.code == 4 && check.stdout.contains("key"),
            "{}",
            check.stdout
        );
        expected.write(&mut source, 4..8, 2)?;
        // The key is there again, and the host goes on by itself.
        std::fs::write(&key, secret)?;
        let is_ready = || {
            let check = hearth(&[&["--socket", &socket, "--json"], &words[..]].concat())?;
            Ok(check.code == 0)
        };
        wait_until("the disk can go", LIMIT, is_ready)?;
        source.close()?;
        let mut destination = pair.client(1)?;
        expected.write(&mut destination, 8..9, 3)?;
        expected.check("the destination", &mut destination)?;
        destination.close()?;
        pair.stop_both()
    });
}
