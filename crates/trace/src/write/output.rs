//! A file that appears whole or not at all.
//!
//! It is written under another name in the same folder and takes its own when it is complete and on the
//! disk. A kill leaves at most a hidden file that ends in `.part`, never half a trace under the name.

use super::WriteError;
use rustix::fs::RenameFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file on its way.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    force: bool,
    is_done: bool,
}

impl Output {
    /// Begins a file that will be `path`.
    ///
    /// # Errors
    /// If there is one already and `force` is not given, or the folder cannot be written.
    pub fn create(path: &Path, force: bool) -> Result<Self, WriteError> {
        Self::create_as(path, force, "part")
    }

    /// The same while there is one for `path` on its way already.
    pub(super) fn create_beside(path: &Path, force: bool) -> Result<Self, WriteError> {
        Self::create_as(path, force, "packed.part")
    }

    fn create_as(path: &Path, force: bool, ending: &str) -> Result<Self, WriteError> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(WriteError::Exists(path.to_owned()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.{ending}", std::process::id()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(|source| WriteError::Io {
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            file,
            force,
            is_done: false,
        })
    }

    /// The path that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An error of the system while this was written.
    pub fn failed(&self, source: io::Error) -> WriteError {
        WriteError::Io {
            path: self.path.clone(),
            source,
        }
    }

    /// Makes it durable and gives it its name; tells its size.
    ///
    /// # Errors
    /// If the system refuses, or a file of that name has appeared meanwhile and `force` was not given.
    pub fn finish(mut self) -> Result<u64, WriteError> {
        let bytes = self.settle().map_err(|source| self.failed(source))?;
        self.rename()?;
        self.is_done = true;
        Ok(bytes)
    }

    fn settle(&self) -> io::Result<u64> {
        self.file.sync_all()?;
        Ok(self.file.metadata()?.len())
    }

    fn rename(&self) -> Result<(), WriteError> {
        let renamed = if self.force {
            std::fs::rename(&self.temporary, &self.path)
        } else {
            let here = rustix::fs::CWD;
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(here, &self.temporary, here, &self.path, flags) {
                Err(rustix::io::Errno::EXIST) => {
                    return Err(WriteError::Exists(self.path.clone()));
                }
                // A file system that cannot promise it: what was checked at the start must do.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                    std::fs::rename(&self.temporary, &self.path)
                }
                other => other.map_err(Into::into),
            }
        };
        renamed.map_err(|source| self.failed(source))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_done {
            // Nobody is left to tell; a leftover is hidden and harmless.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Read for Output {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read(into)
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|n| n.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv");
        let mut output = Output::create(&path, false).unwrap();
        output.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(output);
        assert_eq!(files(dir.path()), Vec::<String>::new());
        let mut output = Output::create(&path, false).unwrap();
        output.write_all(b"whole").unwrap();
        assert_eq!(output.finish().unwrap(), 5);
        assert_eq!(files(dir.path()), ["x.csv"]);
    }

    #[test]
    fn nothing_is_replaced_without_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv");
        let late = Output::create(&path, false).unwrap();
        std::fs::write(&path, "old").unwrap();
        let refused = |result: Result<(), WriteError>| {
            assert!(matches!(result, Err(WriteError::Exists(_))), "{result:?}");
        };
        refused(Output::create(&path, false).map(drop));
        refused(late.finish().map(drop));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        let mut output = Output::create(&path, true).unwrap();
        output.write_all(b"new").unwrap();
        output.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(files(dir.path()), ["x.csv"]);
    }
}
