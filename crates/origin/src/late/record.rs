//! The record of late changes in the state directory, which outlives the host's memory.
//!
//! ```text
//!   hearth late writes 1
//!   origin nbd://storage:10809/web-1
//!   change 00f3a1c277b01e55 28672 4096          cookie, offset, length
//!   check 9f86d081884c7d65                      over the lines above
//! ```
//!
//! A record that is damaged names no range, so every range is late.

use super::Change;
use crate::kept_text;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

const TITLE: &str = "hearth late writes 1";

/// Writes the record durably. May block.
pub(super) fn store(path: &Path, origin: &str, changes: &[Change]) -> io::Result<()> {
    kept_text::store(path, &text(origin, changes))
}

/// What the record says; nothing if there is none.
pub(super) fn load(path: &Path) -> io::Result<Vec<Change>> {
    let Some(bytes) = kept_text::load(path)? else {
        return Ok(Vec::new());
    };
    let changes = std::str::from_utf8(&bytes).ok().and_then(parse);
    Ok(changes.unwrap_or_else(|| {
        tracing::warn!(path = %path.display(),
            "the record of late writes is damaged: every request waits for settle_time");
        vec![Change::ANYWHERE]
    }))
}

/// Removes the record.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn text(origin: &str, changes: &[Change]) -> String {
    let mut body = format!("{TITLE}\norigin {}\n", origin.escape_default());
    for Change {
        cookie,
        offset,
        length,
    } in changes
    {
        // Writing to a string does not fail.
        let _ = writeln!(body, "change {cookie:016x} {offset} {length}");
    }
    let check = xxh3_64(body.as_bytes());
    format!("{body}check {check:016x}\n")
}

fn parse(text: &str) -> Option<Vec<Change>> {
    let (body, check) = text.rsplit_once("check ")?;
    let check = u64::from_str_radix(check.trim_end(), 16).ok()?;
    if check != xxh3_64(body.as_bytes()) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != TITLE || !lines.next()?.starts_with("origin ") {
        return None;
    }
    lines.map(parse_change).collect()
}

fn parse_change(line: &str) -> Option<Change> {
    let mut words = line.strip_prefix("change ")?.split(' ');
    let cookie = u64::from_str_radix(words.next()?, 16).ok()?;
    let change = Change {
        cookie,
        offset: words.next()?.parse().ok()?,
        length: words.next()?.parse().ok()?,
    };
    (words.next().is_none() && cookie != 0 && change.length > 0).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_damaged_one_names_every_range() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("late-writes/a.late");
        assert_eq!(load(&path).unwrap(), []);
        remove(&path).unwrap();
        let changes = [(1, 0, 512), (u64::MAX - 1, 1 << 40, 4096)];
        let changes = changes.map(|(cookie, offset, length)| Change {
            cookie,
            offset,
            length,
        });
        store(&path, "nbd://host/a\nb", &changes).unwrap();
        assert_eq!(load(&path).unwrap(), changes);
        let whole = std::fs::read_to_string(&path).unwrap();
        for damaged in [
            &whole[..whole.len() / 2],
            &whole.replace("4096", "8192"),
            "",
        ] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(load(&path).unwrap(), [Change::ANYWHERE], "{damaged}");
        }
        remove(&path).unwrap();
        assert_eq!(load(&path).unwrap(), []);
    }
}
