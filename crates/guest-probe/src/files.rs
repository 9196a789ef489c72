//! Steps on files: `fill`, `read`, `random`, `write`, `verify`.
//!
//! Files are named by their number (`000017`), numbers run from 1 without gaps, and page `p` of file
//! `n` holds the pattern of that place at version 1. A file is synced before the next is begun, so
//! after a power cut every file that the console named must be whole; the one after it may be torn.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::outcome::{Doing as _, ProbeError, Verdict, say};
use crate::pages::{self, Latencies, Page};
use crate::pattern::{self, Found, PAGE_BYTES, Place, Stream};
use crate::step::Step;

const VERSION: u64 = 1;
/// Differences printed one by one; the rest are only counted.
const BAD_SHOWN: u64 = 8;
/// Bytes read with one call in `read`.
const READ_BYTES: usize = 64 * 1024;

/// `fill`: makes files without syncing each, for an image that is being built.
pub(crate) fn fill(step: &Step) -> Result<Verdict, ProbeError> {
    let dir = step.path("dir")?;
    let (files, kib) = (step.number_or("files", 1)?, step.number_or("kib", 64)?);
    fs::create_dir_all(&dir).doing(dir.display())?;
    for number in 1..=files {
        make_file(&dir, number, kib)?;
    }
    say(&format!("filled files={files} kib={kib}"));
    Ok(Verdict::Pass)
}

/// `write`: makes files, each durable before it is named on the console.
pub(crate) fn write(step: &Step) -> Result<Verdict, ProbeError> {
    let dir = step.path("dir")?;
    let (from, files, kib) = (
        step.number_or("from", 1)?,
        step.number_or("files", 1)?,
        step.number_or("kib", 64)?,
    );
    fs::create_dir_all(&dir).doing(dir.display())?;
    let folder = File::open(&dir).doing(dir.display())?;
    let began = Instant::now();
    let mut latencies = Latencies::default();
    for number in from..from + files {
        latencies.time(|| {
            make_file(&dir, number, kib)?.sync_all().doing("fsync")?;
            folder.sync_all().doing("fsync of the folder")
        })?;
        say(&format!("synced file={number}"));
    }
    let ms = began.elapsed().as_millis();
    say(&format!(
        "wrote files={files} kib={} ms={ms} {}",
        files * kib,
        latencies.summary()
    ));
    Ok(Verdict::Pass)
}

fn make_file(dir: &Path, number: u64, kib: u64) -> Result<File, ProbeError> {
    let path = dir.join(format!("{number:06}"));
    let mut file = File::create(&path).doing(path.display())?;
    let mut page = Page::new();
    for index in 0..kib / 4 {
        pattern::fill(&mut page.0, Place::in_file(number, index), VERSION);
        file.write_all(&page.0).doing(path.display())?;
    }
    Ok(file)
}

/// `read`: every file from a number on, front to back, every byte checked.
pub(crate) fn read(step: &Step) -> Result<Verdict, ProbeError> {
    let dir = step.path("dir")?;
    let (began, waits) = (Instant::now(), waits());
    let mut count = Count::default();
    let from = step.number_or("from", 1)?;
    let mut files = numbered_files(&dir)?;
    files.retain(|(number, _)| *number >= from);
    for (number, path) in &files {
        check_file(*number, path, &mut count)?;
    }
    let ms = began.elapsed().as_millis();
    say(&format!(
        "read files={} bytes={} bad={} ms={ms} waits={}",
        files.len(),
        count.pages * PAGE_BYTES as u64,
        count.bad,
        self::waits().saturating_sub(waits)
    ));
    Ok(Verdict::from_bad(count.bad))
}

/// How often this process has waited so far; between two moments of reading files that is for the disk.
fn waits() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let name = "voluntary_ctxt_switches:";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// `random`: single pages past the page cache, each checked.
pub(crate) fn random(step: &Step) -> Result<Verdict, ProbeError> {
    let dir = step.path("dir")?;
    let (reads, seed) = (step.number_or("reads", 1000)?, step.number_or("seed", 1)?);
    let mut opened = Vec::new();
    for (number, path) in numbered_files(&dir)? {
        let file = pages::open_direct(&path, false).doing(path.display())?;
        let length = file.metadata().doing(path.display())?.len() / PAGE_BYTES as u64;
        opened.push((number, file, length));
    }
    let choices = u64::try_from(opened.len()).unwrap_or(0);
    if choices == 0 {
        return Err(ProbeError::Usage(format!("{} has no files", dir.display())));
    }
    let (mut dice, mut page, mut count) = (Stream::new(seed, reads), Page::new(), Count::default());
    let (mut latencies, began) = (Latencies::default(), Instant::now());
    for _ in 0..reads {
        let choice = usize::try_from(dice.below(choices)).unwrap_or(0);
        let (number, file, length) = &opened[choice];
        let index = dice.below((*length).max(1));
        latencies
            .time(|| pages::read(file, &mut page, index))
            .doing("random read")?;
        count.see(&page.0, Place::in_file(*number, index));
    }
    let us = began.elapsed().as_micros().max(1);
    let iops = u128::from(reads) * 1_000_000 / us;
    say(&format!(
        "random reads={reads} bad={} ms={} iops={iops} {}",
        count.bad,
        us / 1000,
        latencies.summary()
    ));
    Ok(Verdict::from_bad(count.bad))
}

/// `verify`: files `1..=through` are whole; what lies beyond may be torn, and is not looked at.
pub(crate) fn verify(step: &Step) -> Result<Verdict, ProbeError> {
    let dir = step.path("dir")?;
    let through = step.number_or("through", 0)?;
    let files = numbered_files(&dir)?;
    let mut count = Count::default();
    for number in 1..=through {
        match files.iter().find(|(found, _)| *found == number) {
            Some((_, path)) => check_file(number, path, &mut count)?,
            None => count.bad_thing(&format!("file={number} is gone")),
        }
    }
    say(&format!(
        "verified through={through} present={} pages={} bad={}",
        files.len(),
        count.pages,
        count.bad
    ));
    Ok(Verdict::from_bad(count.bad))
}

fn numbered_files(dir: &Path) -> Result<Vec<(u64, PathBuf)>, ProbeError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).doing(dir.display())? {
        let path = entry.doing(dir.display())?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.parse().ok());
        files.extend(number.map(|number| (number, path)));
    }
    files.sort();
    Ok(files)
}

fn check_file(number: u64, path: &Path, count: &mut Count) -> Result<(), ProbeError> {
    let mut file = File::open(path).doing(path.display())?;
    let length = file.metadata().doing(path.display())?.len();
    if length == 0 || !length.is_multiple_of(PAGE_BYTES as u64) {
        count.bad_thing(&format!("file={number} length={length}"));
        return Ok(());
    }
    let mut buffer = vec![0; READ_BYTES];
    let mut index = 0;
    for start in (0..length).step_by(READ_BYTES) {
        let wanted = usize::try_from(length - start)
            .unwrap_or(READ_BYTES)
            .min(READ_BYTES);
        file.read_exact(&mut buffer[..wanted])
            .doing(path.display())?;
        for page in buffer[..wanted].as_chunks::<PAGE_BYTES>().0 {
            count.see(page, Place::in_file(number, index));
            index += 1;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Count {
    pages: u64,
    bad: u64,
}

impl Count {
    fn see(&mut self, page: &[u8; PAGE_BYTES], place: Place) {
        self.pages += 1;
        match pattern::inspect(page, place) {
            Found::Version(VERSION) => {}
            other => self.bad_thing(&format!("place={place:?} found={other:?}")),
        }
    }

    fn bad_thing(&mut self, what: &str) {
        self.bad += 1;
        if self.bad <= BAD_SHOWN {
            say(&format!("bad {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("guest-probe-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    fn step(text: &str, dir: &Path) -> Step {
        Step::parse(&format!("{text},dir={}", dir.display())).unwrap()
    }

    #[test]
    fn what_was_written_reads_back() {
        let dir = scratch("roundtrip");
        write(&step("write,files=3,kib=68", &dir)).unwrap();
        assert_eq!(read(&step("read", &dir)).unwrap(), Verdict::Pass);
        assert_eq!(
            verify(&step("verify,through=3", &dir)).unwrap(),
            Verdict::Pass
        );
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_missing_file_fails_the_verification() {
        let dir = scratch("missing");
        write(&step("write,files=2,kib=4", &dir)).unwrap();
        fs::remove_file(dir.join("000001")).unwrap();
        assert_eq!(
            verify(&step("verify,through=2", &dir)).unwrap(),
            Verdict::Fail
        );
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn two_files_swapped_fail_the_read() {
        let dir = scratch("swapped");
        fill(&step("fill,files=2,kib=8", &dir)).unwrap();
        fs::rename(dir.join("000001"), dir.join("x")).unwrap();
        fs::rename(dir.join("000002"), dir.join("000001")).unwrap();
        fs::rename(dir.join("x"), dir.join("000002")).unwrap();
        assert_eq!(read(&step("read", &dir)).unwrap(), Verdict::Fail);
        fs::remove_dir_all(&dir).unwrap();
    }
}
