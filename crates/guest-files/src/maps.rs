//! Algorithm 1 of `MultiCache`: usage counts, the read map and the write map with their sections.
//!
//! ```text
//!                oldest position                     most recent (i, k)
//!   read map    │ B: a quarter │ A: three quarters                    │
//!   write map   │ D: half                  │ C: half                  │
//!                 └── leave when memory is short     └── stay, are preloaded
//! ```
//!
//! Paper: "`MultiCache`: multi-layered cache for I/O in virtualized environments", Algorithm 1 and condition (1). Where the
//! paper leaves a choice:
//!
//! - A use counts once an epoch: the kernel merges uses until they are read, so calls cannot be counted.
//! - A file that is at the most recent position stays there. As printed it would be inserted once more.
//! - D leaves before B, oldest first, until condition (1) holds; what left is in no map until its next use.
//! - The history is bounded: the least used file goes, of these the one that was used longest ago. Counts are
//!   halved after as many of these as there are files, so that what was used much long ago makes way.

use crate::handle::Handle;
use crate::settings::Settings;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet};
use units::Map;

/// What was done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It was opened.
    Read,
    /// It was closed after it had been open for writing.
    Write,
}

/// Files that leave the guest's memory at the end of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Of section D, to be written out and dropped; oldest first.
    pub write_out: Vec<Handle>,
    /// Of section B, to be dropped; oldest first.
    pub drop: Vec<Handle>,
}

/// A file of the history.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) handle: Handle,
    pub(crate) uses: u32,
    pub(crate) last_use: Use,
    pub(crate) size_bytes: u64,
    pub(crate) is_mapped: bool,
    /// When it was used last, in uses of all files; its position in a map.
    position: u64,
    /// The epoch in which it was counted last.
    epoch: u64,
    is_measured: bool,
}

/// The history and the two maps over it.
#[derive(Clone, Debug)]
pub struct Maps {
    settings: Settings,
    files: Slab<File>,
    by_handle: Map<Handle, usize>,
    /// Uses, position, file: who goes first stands first.
    by_use: BTreeSet<(u32, u64, usize)>,
    read: BTreeMap<u64, usize>,
    write: BTreeMap<u64, usize>,
    /// The most recent position, of both maps: i and k grow together, which changes no order.
    position: u64,
    epoch: u64,
    /// Files that had to go since counts were halved.
    gone: usize,
}

impl Maps {
    /// No file is known.
    ///
    /// # Panics
    /// If the history may hold none.
    pub fn new(settings: Settings) -> Self {
        assert!(settings.files_max > 0, "a history of some files");
        Self {
            settings,
            files: Slab::new(),
            by_handle: Map::default(),
            by_use: BTreeSet::new(),
            read: BTreeMap::new(),
            write: BTreeMap::new(),
            position: 0,
            epoch: 1,
            gone: 0,
        }
    }

    /// Files of the history.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether no file is known.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// A file was used: steps 1 to 17.
    pub fn used(&mut self, handle: &Handle, what: Use) {
        let id = self.find_or_insert(handle, what);
        self.position += 1;
        let (epoch, position) = (self.epoch, self.position);
        self.unmap(id);
        self.reindex(id, |file| {
            if file.epoch != epoch {
                file.epoch = epoch;
                file.uses = file.uses.saturating_add(1);
            }
            file.last_use = what;
            file.position = position;
            file.is_measured = false;
        });
        if self.files[id].uses >= self.settings.usage_threshold {
            self.map(id);
        }
    }

    /// A file has this size.
    pub fn measured(&mut self, handle: &Handle, size_bytes: u64) {
        if let Some(&id) = self.by_handle.get(handle) {
            let file = &mut self.files[id];
            file.size_bytes = size_bytes;
            file.is_measured = true;
        }
    }

    /// A file is there no more.
    pub fn removed(&mut self, handle: &Handle) {
        if let Some(&id) = self.by_handle.get(handle) {
            self.forget(id);
        }
    }

    /// Mapped files that were used since their size was looked at, at most so many; recent ones first.
    pub fn to_measure(&self, most: usize) -> Vec<Handle> {
        let mapped = self.read.values().rev().chain(self.write.values().rev());
        let unknown = mapped
            .map(|id| &self.files[*id])
            .filter(|file| !file.is_measured);
        unknown.map(|file| file.handle.clone()).take(most).collect()
    }

    /// Files of sections A and then C, recent ones first, each with its size: those worth a preload.
    pub fn kept(&self) -> impl Iterator<Item = (&Handle, u64)> {
        let a = self.read.values().rev().take(self.a_files());
        let c = self.write.values().rev().take(self.c_files());
        let files = a.chain(c).map(|id| &self.files[*id]);
        files.map(|file| (&file.handle, file.size_bytes))
    }

    /// An epoch ends, with so much memory for the guest's cache: steps 18 to 24.
    pub fn end_epoch(&mut self, cache_memory_bytes: u64) -> Leaving {
        self.epoch += 1;
        let mut leaving = Leaving::default();
        let limit = u128::from(cache_memory_bytes) * u128::from(self.settings.memory_percent) / 100;
        let mut total = self.mapped_bytes();
        let (b, d) = (
            self.read.len() - self.a_files(),
            self.write.len() - self.c_files(),
        );
        let write_out = self.write.values().take(d).map(|id| (*id, true));
        let drop = self.read.values().take(b).map(|id| (*id, false));
        let oldest_first: Vec<(usize, bool)> = write_out.chain(drop).collect();
        for (id, is_written) in oldest_first {
            if total <= limit {
                break;
            }
            self.unmap(id);
            let file = &self.files[id];
            total -= u128::from(file.size_bytes);
            if is_written {
                leaving.write_out.push(file.handle.clone());
            } else {
                leaving.drop.push(file.handle.clone());
            }
        }
        leaving
    }

    fn mapped_bytes(&self) -> u128 {
        let mapped = self.read.values().chain(self.write.values());
        mapped
            .map(|id| u128::from(self.files[*id].size_bytes))
            .sum()
    }

    fn a_files(&self) -> usize {
        (self.read.len() * 3).div_ceil(4)
    }

    fn c_files(&self) -> usize {
        self.write.len().div_ceil(2)
    }

    fn find_or_insert(&mut self, handle: &Handle, what: Use) -> usize {
        if let Some(&id) = self.by_handle.get(handle) {
            return id;
        }
        if self.files.len() >= self.settings.files_max {
            self.let_one_go();
        }
        self.insert(File {
            handle: handle.clone(),
            uses: 0,
            last_use: what,
            size_bytes: 0,
            is_mapped: false,
            position: 0,
            epoch: 0,
            is_measured: false,
        })
    }

    fn insert(&mut self, file: File) -> usize {
        let (handle, uses, position) = (file.handle.clone(), file.uses, file.position);
        let id = self.files.insert(file);
        self.by_handle.insert(handle, id);
        self.by_use.insert((uses, position, id));
        id
    }

    fn let_one_go(&mut self) {
        let least = self.by_use.first().map(|(_, _, id)| *id);
        self.forget(least.expect("a full history has a file"));
        self.gone += 1;
        if self.gone >= self.settings.files_max {
            self.gone = 0;
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.by_use.clear();
        for (id, file) in &mut self.files {
            file.uses /= 2;
            self.by_use.insert((file.uses, file.position, id));
        }
    }

    fn forget(&mut self, id: usize) {
        self.unmap(id);
        let file = self.files.remove(id);
        self.by_use.remove(&(file.uses, file.position, id));
        self.by_handle.remove(&file.handle);
    }

    fn reindex(&mut self, id: usize, change: impl FnOnce(&mut File)) {
        let file = &mut self.files[id];
        self.by_use.remove(&(file.uses, file.position, id));
        change(file);
        self.by_use.insert((file.uses, file.position, id));
    }

    fn map_of(&mut self, what: Use) -> &mut BTreeMap<u64, usize> {
        match what {
            Use::Read => &mut self.read,
            Use::Write => &mut self.write,
        }
    }

    fn map(&mut self, id: usize) {
        let file = &mut self.files[id];
        file.is_mapped = true;
        let (position, what) = (file.position, file.last_use);
        self.map_of(what).insert(position, id);
    }

    fn unmap(&mut self, id: usize) {
        let file = &mut self.files[id];
        if std::mem::take(&mut file.is_mapped) {
            let (position, what) = (file.position, file.last_use);
            self.map_of(what).remove(&position);
        }
    }

    /// Every file, the one first that was used longest ago.
    pub(crate) fn by_age(&self) -> Vec<&File> {
        let mut files: Vec<&File> = self.files.iter().map(|(_, file)| file).collect();
        files.sort_by_key(|file| file.position);
        files
    }

    /// Adds a file of an earlier boot, after those that were used before it; one that is there already, or
    /// is one too many, is left out.
    pub(crate) fn restore(&mut self, handle: Handle, about: (u32, Use, u64, bool)) {
        let is_new = !self.by_handle.contains_key(&handle);
        if !is_new || self.files.len() >= self.settings.files_max {
            return;
        }
        self.position += 1;
        let (uses, last_use, size_bytes, is_mapped) = about;
        let id = self.insert(File {
            handle,
            uses,
            last_use,
            size_bytes,
            is_mapped: false,
            position: self.position,
            epoch: 0,
            is_measured: false,
        });
        if is_mapped {
            self.map(id);
        }
    }
}

#[cfg(test)]
mod tests;
