//! `hearth cache format` and `check` of what somebody may need: bytes that origins lack, other people's
//! data, and a file system that has no room.

use anyhow::ensure;
use e2e::{Answer, Back, Pace, reads, scenario, writes};
use std::path::Path;

fn cache(words: &[&str], path: &Path, more: &[&str]) -> anyhow::Result<Answer> {
    let path = path.display().to_string();
    e2e::hearth(&[&["cache"], words, &[&path], more].concat())
}

#[test]
fn bytes_that_an_origin_lacks_are_not_formatted_away() {
    scenario(&["nbdsh"], |lab| {
        let mut back = Back::start(lab, Pace::Held)?;
        nbdsh_write(&mut back)?;
        back.stop()?;
        let config = lab.path("hearth.toml").display().to_string();
        let flash = back.flash.path().to_owned();
        let forced = ["--force", "--config", &config];
        let refused = cache(&["format"], &flash, &forced)?;
        ensure!(refused.code == 4, "{}", refused.stderr);
        for word in ["disk (80.0KiB)", "--lose-dirty", "hearth recover list"] {
            ensure!(refused.stderr.contains(word), "{}", refused.stderr);
        }
        // Nothing was lost.
        back.start_again(lab)?;
        e2e::nbdsh(Some(&back.uri()), &reads(0, 20, 8))?;
        back.stop()?;
        // What the origin has got need not stay.
        let done = back.recover(lab, &["destage"], &["--disk", Back::DISK])?;
        ensure!(done.code == 0, "{}", done.stderr);
        let formatted = cache(&["format"], &flash, &forced)?;
        ensure!(formatted.code == 0, "{}", formatted.stderr);
        // And what is to be lost is lost.
        back.start_again(lab)?;
        nbdsh_write(&mut back)?;
        back.stop()?;
        let lost = cache(&["format"], &flash, &["--force", "--lose-dirty"])?;
        ensure!(lost.code == 0, "{}", lost.stderr);
        Ok(())
    });
}

fn nbdsh_write(back: &mut Back) -> anyhow::Result<()> {
    e2e::nbdsh(Some(&back.uri()), &writes(0, 20, 8)).map(drop)
}

#[test]
fn somebody_elses_data_are_recognised_and_left_alone() {
    scenario(&[], |lab| {
        for (name, offset, mark, what) in [
            ("ext4", 0x438, &b"\x53\xef"[..], "ext4"),
            ("qcow2", 0, b"QFI\xfb", "qcow2"),
            ("xfs", 0, b"XFSB", "XFS"),
            ("gpt", 0x200, b"EFI PART", "GPT"),
            ("mbr", 0x1fe, b"\x55\xaa", "MBR"),
        ] {
            let mut content = vec![0; 64 << 20];
            content[offset..offset + mark.len()].copy_from_slice(mark);
            let path = lab.path(name);
            std::fs::write(&path, &content)?;
            let checked = cache(&["check"], &path, &[])?;
            ensure!(
                checked.code == 5
                    && checked.stderr.contains("no Hearth cache")
                    && checked.stderr.contains(what)
                    && !checked.stderr.contains("format"),
                "{name}: {}",
                checked.stderr
            );
            for flags in [&[][..], &["--force"]] {
                let refused = cache(&["format"], &path, flags)?;
                ensure!(
                    refused.code == 4 && refused.stderr.contains(what),
                    "{name} {flags:?}: {}",
                    refused.stderr
                );
            }
            ensure!(std::fs::read(&path)? == content, "{name} was changed");
            let formatted = cache(&["format"], &path, &["--force", "--lose-foreign"])?;
            ensure!(formatted.code == 0, "{}", formatted.stderr);
            std::fs::remove_file(&path)?;
        }
        Ok(())
    });
}

#[test]
fn a_file_that_does_not_fit_takes_nothing_from_its_file_system() {
    scenario(&[], |lab| {
        let path = lab.path("large");
        // More than the test's file system has free, and less than a file there could have.
        let refused = cache(&["format"], &path, &["--size", "15TiB"])?;
        ensure!(
            refused.code == 4 && refused.stderr.contains("does not fit"),
            "{}: {}",
            refused.code,
            refused.stderr
        );
        ensure!(!path.exists(), "a file was left");
        // One that is there keeps its size.
        std::fs::write(&path, [0; 4096])?;
        let refused = cache(&["format"], &path, &["--size", "15TiB"])?;
        ensure!(refused.code == 4, "{}", refused.stderr);
        ensure!(std::fs::metadata(&path)?.len() == 4096, "its size changed");
        Ok(())
    });
}
