//! `hearth recover` without a daemon: it lists, verifies, exports, brings to the origin in order, gives
//! up; and refuses while a daemon has the flash.

use anyhow::ensure;
use e2e::{Back, Lab, Pace, block, nbdsh, scenario, writes};

/// A stopped daemon with twenty blocks on flash that the origin lacks.
fn left(lab: &Lab) -> anyhow::Result<Back> {
    let mut back = Back::start(lab, Pace::Held)?;
    nbdsh(Some(&back.uri()), &writes(3, 20, 5))?;
    let refused = back.recover(lab, &["list"], &[])?;
    ensure!(refused.code == 4, "{}: {}", refused.code, refused.stderr);
    back.stop()?;
    Ok(back)
}

fn disk<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["--disk", Back::DISK], more].concat()
}

#[test]
fn what_waits_is_listed_verified_and_exported() {
    scenario(&["nbdsh"], |lab| {
        let back = left(lab)?;
        let before = std::fs::read(back.image.path())?;
        let listed = back.recover(lab, &["list"], &["--json"])?.json()?;
        let log = &listed["disks"][0];
        ensure!(log["disk"] == Back::DISK, "{listed}");
        ensure!(log["dirty_bytes"] == 20 * 4096, "{listed}");
        ensure!(log["standing"] == "waiting", "{listed}");
        let verified = back.recover(lab, &["verify"], &["--json"])?.json()?;
        let found = &verified["disks"][0]["verified"];
        ensure!(
            found["blocks_good"] == 20 && found["blocks_bad"] == 0,
            "{verified}"
        );

        let out = lab.path("out.raw").display().to_string();
        back.recover(lab, &["export"], &disk(&["--to", &out, "--json"]))?
            .json()?;
        let exported = std::fs::read(&out)?;
        ensure!(exported[3 * 4096..4 * 4096] == block(3, 5));
        ensure!(exported[..3 * 4096].iter().all(|byte| *byte == 0));
        let map: serde_json::Value = serde_json::from_slice(&std::fs::read(out + ".map")?)?;
        ensure!(
            map[0]["offset"] == 3 * 4096 && map[0]["length"] == 20 * 4096,
            "{map}"
        );
        let copy = lab.path("copy.raw").display().to_string();
        std::fs::copy(back.image.path(), &copy)?;
        back.recover(lab, &["export"], &disk(&["--onto", &copy, "--json"]))?
            .json()?;
        let mut expected = before.clone();
        for number in 3..23 {
            let at = 4096 * usize::try_from(number)?;
            expected[at..at + 4096].copy_from_slice(&block(number, 5));
        }
        ensure!(std::fs::read(copy)? == expected);
        ensure!(
            std::fs::read(back.image.path())? == before,
            "an export wrote the origin"
        );
        Ok(())
    });
}

#[test]
fn what_waits_is_brought_to_the_origin_and_void_afterwards() {
    scenario(&["nbdsh"], |lab| {
        let mut back = left(lab)?;
        let before = std::fs::read(back.image.path())?;
        back.recover(lab, &["destage"], &disk(&["--dry-run", "--json"]))?
            .json()?;
        ensure!(
            std::fs::read(back.image.path())? == before,
            "a dry run wrote"
        );
        let done = back
            .recover(lab, &["destage"], &disk(&["--json"]))?
            .json()?;
        ensure!(done["bytes"] == 20 * 4096, "{done}");
        ensure!(back.image.read(3 * 4096, 4096)? == block(3, 5));
        ensure!(back.owner()?["state"] == "closed", "{}", back.owner()?);
        let again = back.recover(lab, &["destage"], &disk(&[]))?;
        ensure!(
            again.code == 4 && again.stderr.contains("void"),
            "{}",
            again.stderr
        );
        back.start_again(lab)?;
        ensure!(back.dirty_bytes()? == 0, "{}", back.write_back()?);
        nbdsh(
            Some(&back.uri()),
            "assert h.pread(4096, 3 * 4096) == bytes([3, 5]) * 2048",
        )?;
        Ok(())
    });
}

#[test]
fn what_waits_is_given_up_with_a_word_of_its_own() {
    scenario(&["nbdsh"], |lab| {
        let mut back = left(lab)?;
        let refused = back.recover(lab, &["drop"], &disk(&[]))?;
        ensure!(refused.code == 2, "{}", refused.stderr);
        back.recover(lab, &["drop"], &disk(&["--yes-lose-data", "--json"]))?
            .json()?;
        back.start_again(lab)?;
        nbdsh(
            Some(&back.uri()),
            "assert h.pread(4096, 3 * 4096) != bytes([3, 5]) * 2048",
        )?;
        Ok(())
    });
}

#[test]
fn what_is_not_what_was_written_is_found_and_not_brought_to_the_origin() {
    scenario(&["nbdsh"], |lab| {
        let mut back = left(lab)?;
        let before = std::fs::read(back.image.path())?;
        back.start_again(lab)?;
        // Later flushes say that the earlier ones were durable: what is wrong there is damage, and
        // not the torn end of a log.
        for round in [6, 7] {
            nbdsh(Some(&back.uri()), &writes(100, 5, round))?;
        }
        back.stop()?;
        let content = back.flash.content()?;
        let wanted = block(9, 5);
        let places = (0..content.len()).step_by(4096);
        let hit: Vec<u64> = places
            .filter(|at| content[*at..].starts_with(&wanted))
            .map(|at| at as u64 + 77)
            .collect();
        ensure!(!hit.is_empty(), "the block is not on flash");
        back.flash.flip_bits(hit)?;
        let verified = back.recover(lab, &["verify"], &["--json"])?;
        ensure!(verified.code == 5, "{}: {}", verified.code, verified.stdout);
        let refused = back.recover(lab, &["destage"], &disk(&[]))?;
        ensure!(refused.code == 5, "{}: {}", refused.code, refused.stderr);
        ensure!(std::fs::read(back.image.path())? == before);
        Ok(())
    });
}
