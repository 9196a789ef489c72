//! Reading files into memory after a boot.

use crate::kernel::{extents, handles};
use crate::log::say;
use crate::memory;
use guest_files::{Extent, Handle, Maps, Plan, Preload, Step};
use rustix::fd::AsFd;
use rustix::fs::{Advice, fadvise};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use units::{Duration, Instant};

/// The part of the available memory that may be filled.
const MEMORY_PART: u64 = 4;
/// Reads that are issued between two looks at everything else: 2 MiB.
const READS_AT_ONCE: usize = 16;

/// File systems by their ids, with where they are mounted.
pub(crate) type FileSystems = BTreeMap<u64, PathBuf>;

/// A preload under way.
pub(crate) struct Preloading {
    preload: Preload,
    files: Vec<Handle>,
    /// The file of the last read, since the next is often of the same.
    open: Option<(usize, File)>,
    bytes: u64,
}

/// Opens a file by its handle. Its file system is opened for that moment only.
pub(crate) fn open(file_systems: &FileSystems, handle: &Handle) -> io::Result<File> {
    let mount = file_systems.get(&handle.file_system());
    let mount = File::open(mount.ok_or(io::ErrorKind::NotFound)?)?;
    handles::open(mount.as_fd(), handle)
}

impl Preloading {
    /// Plans what is read: what the maps keep, as far as the memory allows. Files that are gone are forgotten.
    pub(crate) fn new(
        maps: &mut Maps,
        file_systems: &FileSystems,
        now: Instant,
        time: Duration,
    ) -> Self {
        let mut plan = Plan::new(memory::look().available_bytes / MEMORY_PART);
        let (mut files, mut gone) = (Vec::new(), Vec::new());
        for (handle, _) in maps.kept() {
            if !plan.has_room() {
                break;
            }
            match open(file_systems, handle).and_then(|file| places(&file)) {
                Ok(places) => {
                    plan.add(handle.file_system(), &places);
                    files.push(handle.clone());
                }
                Err(error) if error.raw_os_error() == Some(libc::ESTALE) => {
                    gone.push(handle.clone());
                }
                // Not mounted, or not to be read: left out this time.
                Err(_) => {}
            }
        }
        for handle in &gone {
            maps.removed(handle);
        }
        say(&format!(
            "preload begins: files={} bytes={}",
            files.len(),
            plan.bytes()
        ));
        Self {
            preload: Preload::new(plan, now, time),
            files,
            open: None,
            bytes: 0,
        }
    }

    /// Reads a little. Whether there is more to come.
    pub(crate) fn go_on(&mut self, file_systems: &FileSystems, now: Instant) -> bool {
        let stalled = memory::stalled().unwrap_or(Duration::ZERO);
        for _ in 0..READS_AT_ONCE {
            match self.preload.next(now, stalled) {
                Step::Read(read) => self.read(file_systems, read),
                Step::Ended(why) => {
                    say(&format!("preload ended: bytes={} why={why}", self.bytes));
                    return false;
                }
            }
        }
        true
    }

    fn read(&mut self, file_systems: &FileSystems, read: guest_files::Read) {
        if self
            .open
            .as_ref()
            .is_none_or(|(file, _)| *file != read.file)
        {
            let opened = open(file_systems, &self.files[read.file]);
            self.open = opened.ok().map(|file| (read.file, file));
        }
        // A file that has gone meanwhile is no loss.
        if let Some((_, file)) = &self.open
            && fadvise(
                file,
                read.offset,
                NonZeroU64::new(read.length),
                Advice::WillNeed,
            )
            .is_ok()
        {
            self.bytes += read.length;
        }
    }
}

/// Where a file is on its disk; of a file system that does not say, all of it at one place.
fn places(file: &File) -> io::Result<Vec<Extent>> {
    let about = file.metadata()?;
    if !about.is_file() {
        return Ok(Vec::new());
    }
    let whole = Extent {
        offset: 0,
        address: 0,
        length: about.len(),
    };
    Ok(extents::of(file).unwrap_or_else(|_| vec![whole]))
}
