//! What an operator finds in the log when an origin or a flash fails: a line for the first failure of
//! each kind, with disk, place and error, and not a line for each of thousands. In the journal it has
//! a number by which a program recognises it.

use std::os::unix::net::UnixDatagram;

use anyhow::{Context, ensure};
use e2e::{
    DiskSettings, Flash, Hearth, HearthSettings, Image, Lab, Origin, OriginSettings, SHORT, Stack,
    StackSettings, nbdsh, scenario, wait_until,
};

/// Has the origin fail, and asks for blocks that are not cached.
fn fail_reads(uri: &str, failing: &std::path::Path) -> anyhow::Result<()> {
    let script = format!(
        r"
import os

def fails(call):
    try:
        call()
    except nbd.Error:
        return
    raise AssertionError('it should have failed')

open('{0}', 'w').close()
for block in range(50):
    fails(lambda: h.pread(4096, (16 << 20) + block * 4096))
fails(lambda: h.pwrite(b'n' * 4096, 32 << 20))
os.unlink('{0}')
",
        failing.display()
    );
    nbdsh(Some(uri), &script).map(drop)
}

fn failing_origin(lab: &Lab) -> OriginSettings {
    OriginSettings {
        failing_while: Some(lab.path("failing")),
        ..OriginSettings::default()
    }
}

/// A daemon that has seen its origin fail.
fn failed(lab: &Lab) -> anyhow::Result<Stack> {
    let settings = StackSettings {
        origin: failing_origin(lab),
        ..StackSettings::default()
    };
    let mut stack = Stack::start(lab, &settings)?;
    fail_reads(&stack.uri(), &lab.path("failing"))?;
    Ok(stack)
}

fn only_line<'a>(log: &'a str, words: &str) -> anyhow::Result<&'a str> {
    let mut lines = log.lines().filter(|line| line.contains(words));
    let line = lines
        .next()
        .with_context(|| format!("no line says {words}"))?;
    ensure!(lines.next().is_none(), "{words} is said more than once");
    Ok(line)
}

#[test]
fn each_kind_of_origin_failure_is_logged_once_with_disk_offset_and_error() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = failed(lab)?;
        let log = stack.hearth().log()?;
        let read = only_line(&log, "kind=\"origin-read\"")?;
        for words in ["ERROR", "disk=\"disk\"", "offset=16777216", "\"EIO\""] {
            ensure!(read.contains(words), "{words} is not in: {read}");
        }
        ensure!(!read.contains("cause"), "the server said the same: {read}");
        ensure!(
            !read.contains("message_id"),
            "a number for programs: {read}"
        );
        let write = only_line(&log, "kind=\"origin-write\"")?;
        ensure!(write.contains("offset=33554432"), "{write}");
        Ok(())
    });
}

#[test]
fn an_error_that_a_guest_does_not_learn_is_in_the_log() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let origin = OriginSettings {
            failing_with: Some("ENOMEM"),
            ..failing_origin(lab)
        };
        let settings = StackSettings {
            origin,
            ..StackSettings::default()
        };
        let mut stack = Stack::start(lab, &settings)?;
        fail_reads(&stack.uri(), &lab.path("failing"))?;
        let log = stack.hearth().log()?;
        for kind in ["kind=\"origin-read\"", "kind=\"origin-write\""] {
            let line = only_line(&log, kind)?;
            for words in [
                "error=\"EIO\"",
                " errno=5",
                "cause_errno=12",
                "Cannot allocate memory",
            ] {
                ensure!(line.contains(words), "{words} is not in: {line}");
            }
        }
        Ok(())
    });
}

#[test]
fn failures_that_were_counted_are_logged_before_the_disk_leaves() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = failed(lab)?;
        stack.hearth().command(&["disk", "detach", Stack::DISK])?;
        let log = stack.hearth().log()?;
        let counts = log.lines().filter(|line| {
            line.contains("more failures of this kind") && line.contains("origin-read")
        });
        let counted = counts.filter_map(|line| {
            let (_, count) = line.split_once("count=")?;
            count.split_whitespace().next()?.parse::<u32>().ok()
        });
        let counted: u32 = counted.sum();
        ensure!(
            counted == 49,
            "{counted} of 49 further failures are counted"
        );
        Ok(())
    });
}

#[test]
fn a_damaged_block_on_flash_is_logged_with_disk_and_offset() {
    scenario(&["nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        stack.read_disk(lab)?;
        let places = ((1 << 20)..stack.flash.bytes()?).step_by(64 << 10);
        stack.flash.rot(places.map(|offset| offset + 1234), 64)?;
        stack.check_disk_equals_origin(lab)?;
        let log = stack.hearth().log()?;
        let line = only_line(&log, "its checksum is wrong")?;
        for words in [
            "kind=\"flash-damaged\"",
            "disk=\"disk\"",
            " offset=",
            "flash_offset=",
        ] {
            ensure!(line.contains(words), "{words} is not in: {line}");
        }
        Ok(())
    });
}

#[test]
fn the_journal_gets_fields_and_a_number_for_each_kind() {
    scenario(&["nbdsh", "nbdkit", "unshare"], |lab| {
        let folder = lab.path("journal");
        std::fs::create_dir(&folder).context("a folder")?;
        let journal = UnixDatagram::bind(folder.join("socket")).context("a journal")?;
        journal.set_nonblocking(true).context("a journal")?;
        let image = Image::new(lab, "origin.raw", 64)?;
        let origin = Origin::start(lab, &image, failing_origin(lab))?;
        let flash = Flash::format(lab, "flash.img", 256)?;
        let settings = HearthSettings::new(&flash)
            .journal(&folder)
            .disk(&DiskSettings::on_nbd("disk", &origin.uri()));
        let hearth = Hearth::start(lab, &settings)?;
        fail_reads(&hearth.uri("disk"), &lab.path("failing"))?;
        let mut entry = String::new();
        wait_until("an entry of the failed read", SHORT, || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(length) = journal.recv(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..length]);
                if text.contains("origin-read") {
                    entry = text.into_owned();
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        let id = block_io::FailureKind::OriginRead.message_id();
        for (field, value) in [
            ("MESSAGE_ID", id),
            ("DISK", "disk"),
            ("OFFSET", "16777216"),
            ("LENGTH", "4096"),
            ("ERRNO", "5"),
            ("ERROR", "EIO"),
        ] {
            ensure!(
                value_of(&entry, field) == Some(value),
                "{field} is not {value}: {entry:?}"
            );
        }
        Ok(())
    });
}

/// The value of a field of an entry in the journal's native protocol: the name and a line break, the
/// length in eight bytes, the value and a line break.
fn value_of<'a>(entry: &'a str, field: &str) -> Option<&'a str> {
    let named = format!("\n{field}\n");
    let at = entry.find(&named)? + named.len();
    entry.get(at + 8..)?.lines().next()
}
