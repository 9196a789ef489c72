//! `hearth cache format` and `hearth cache check` on real files.

use crate::rig::{Rig, hearth, run, stderr, stdout};
use std::os::unix::fs::FileExt;

fn check(rig: &Rig, words: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    let output = run(hearth()
        .args(["cache", "check", "--json"])
        .args(words)
        .arg(rig.path("flash")));
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), report, stderr(&output))
}

/// A rig whose flash holds all blocks of the disk `a`, after a clean stop.
fn warm() -> Rig {
    let mut rig = Rig::new();
    rig.start(&rig.config(&rig.disk("a", "a.raw")));
    let uri = format!("nbd+unix:///a?socket={}", rig.path("nbd.sock").display());
    let read = run(std::process::Command::new("qemu-io")
        .args(["-f", "raw", "-c", "read 0 1M"])
        .arg(uri));
    assert!(read.status.success(), "{}", stderr(&read));
    assert_eq!(rig.stop(), Some(0));
    rig
}

#[test]
fn a_fresh_cache_is_sound_and_empty() {
    let rig = Rig::new();
    let (code, report, _) = check(&rig, &["--read-data"]);
    assert_eq!(code, Some(0));
    assert_eq!(report["sound"], true);
    assert_eq!(report["cache"]["blocks"], 0);
    assert_eq!(report["cache"]["segment_bytes"], 1 << 20);
}

#[test]
fn what_is_there_is_not_formatted_over_unless_forced() {
    let rig = Rig::new();
    let format = |words: &[&str]| {
        run(hearth()
            .args(["cache", "format"])
            .args(words)
            .arg(rig.path("flash")))
    };
    let refused = format(&[]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(stderr(&refused).contains("holds a Hearth cache already"));
    assert_eq!(format(&["--force"]).status.code(), Some(0));
    std::fs::write(rig.path("flash"), vec![b'x'; 64 << 20]).unwrap();
    let refused = format(&[]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(stderr(&refused).contains("something that is not a Hearth cache"));
    assert!(
        std::fs::read(rig.path("flash"))
            .unwrap()
            .iter()
            .all(|byte| *byte == b'x')
    );
}

#[test]
fn a_size_that_cannot_be_leaves_no_file_behind() {
    let rig = Rig::new();
    let path = rig.path("small");
    let output = run(hearth()
        .args(["cache", "format", "--size", "64KiB"])
        .arg(&path));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("a cache needs at least"),
        "{}",
        stderr(&output)
    );
    assert!(!path.exists());
    let output = run(hearth().args(["cache", "format"]).arg(&path));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--size 10GiB"));
}

#[test]
fn a_warm_cache_is_sound_and_its_disk_is_listed() {
    let rig = warm();
    let (code, report, error) = check(&rig, &["--read-data"]);
    assert_eq!(code, Some(0), "{error}{report}");
    let cache = &report["cache"];
    assert_eq!(cache["clean"], true);
    assert_eq!(cache["blocks"], 256);
    assert_eq!(cache["disks"][0]["name"], "a");
    assert_eq!(cache["disks"][0]["blocks"], 256);
    assert_eq!(cache["data"]["blocks_good"], 256);
    assert_eq!(cache["data"]["blocks_bad"], 0);
}

#[test]
fn a_rotten_block_is_found_only_by_reading_the_data() {
    let rig = warm();
    let flash = std::fs::read(rig.path("flash")).unwrap();
    // The origin's bytes are all sevens, and nothing else on flash is.
    let block = flash
        .chunks(4096)
        .position(|block| block.iter().all(|b| *b == 7));
    let offset = block.expect("a cached block") as u64 * 4096;
    let file = std::fs::File::options()
        .write(true)
        .open(rig.path("flash"))
        .unwrap();
    file.write_all_at(b"rot", offset).unwrap();
    assert_eq!(check(&rig, &[]).0, Some(0));
    let (code, report, error) = check(&rig, &["--read-data"]);
    assert_eq!(code, Some(5));
    assert_eq!(report["cache"]["data"]["blocks_bad"], 1);
    assert_eq!(report["fault_count"], 1);
    assert!(error.contains("has 1 fault"), "{error}");
}

#[test]
fn a_flash_that_is_no_cache_is_told_so_with_the_remedy() {
    let rig = Rig::new();
    std::fs::write(rig.path("flash"), vec![0; 1 << 20]).unwrap();
    let output = run(hearth().args(["cache", "check"]).arg(rig.path("flash")));
    assert_eq!(output.status.code(), Some(5));
    assert!(stdout(&output).contains("this is not a Hearth cache"));
    assert!(stderr(&output).contains("hearth status lists them"));
}

#[test]
fn flash_in_use_is_refused() {
    let mut rig = Rig::new();
    rig.start(&rig.config(""));
    let (code, _, error) = check(&rig, &[]);
    assert_eq!(code, Some(4));
    assert!(error.contains("is in use: hearth has it (pid "), "{error}");
    let format = run(hearth()
        .args(["cache", "format", "--force"])
        .arg(rig.path("flash")));
    assert_eq!(format.status.code(), Some(4));
}
