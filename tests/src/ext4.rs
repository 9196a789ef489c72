//! An ext4 image as a crash left it: its journal is replayed and it is checked, and a database is
//! taken out of it, all without mounting it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{GuestKit, Lab, Output, run, tools};

/// An image of a guest's disk whose power was cut. The file is changed: give it a copy.
pub struct CrashedExt4 {
    path: PathBuf,
}

/// Files that a database may consist of, by what follows its name.
const DATABASE_FILES: [&str; 3] = ["", "-journal", "-wal"];

const NO_DATABASE: &str = "there is no database";

impl CrashedExt4 {
    /// A copy of `image` as `name`.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn copy_of(lab: &Lab, image: &Path, name: &str) -> anyhow::Result<Self> {
        let path = lab.path(name);
        run(Command::new("cp")
            .arg("--sparse=always")
            .arg(image)
            .arg(&path))?;
        Ok(Self { path })
    }

    /// The image at `path` itself.
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
        }
    }

    /// Replays its journal, as the next mount would, and checks that nothing is left to repair.
    ///
    /// # Errors
    ///
    /// With what the checker found.
    pub fn check(&self) -> anyhow::Result<()> {
        // Unforced it replays the journal, lets orphans go, and finds the file system clean then.
        let (code, said) = self.e2fsck(&["-p"])?;
        ensure!(
            code <= 1,
            "e2fsck -p: {code}\n{}{}",
            said.stdout,
            said.stderr
        );
        let (code, said) = self.e2fsck(&["-f", "-n"])?;
        ensure!(
            code == 0,
            "not sound after its journal was replayed:\n{}{}",
            said.stdout,
            said.stderr
        );
        Ok(())
    }

    fn e2fsck(&self, options: &[&str]) -> anyhow::Result<(i32, Output)> {
        let mut command = Command::new("e2fsck");
        tools::exit_code(command.args(options).arg(&self.path))
    }

    /// Checks the database at `path` inside, which must have every transaction up to `through`, as
    /// guest-probe does in the guest; gives what it says. Call it after [`CrashedExt4::check`].
    ///
    /// # Errors
    ///
    /// When it is not sound, or lacks a transaction.
    pub fn account(
        &self,
        lab: &Lab,
        kit: &GuestKit,
        path: &str,
        through: u64,
    ) -> anyhow::Result<String> {
        let out = lab.path("taken-out.db");
        for suffix in DATABASE_FILES {
            let file = format!("{}{suffix}", out.display());
            let _ = std::fs::remove_file(&file);
            run(Command::new("debugfs")
                .arg("-R")
                .arg(format!("dump {path}{suffix} {file}"))
                .arg(&self.path))?;
            // A file that is not there leaves an empty one behind.
            if std::fs::metadata(&file).is_ok_and(|about| about.len() == 0) {
                std::fs::remove_file(&file).context("an empty file")?;
            }
        }
        ensure!(out.exists(), "{NO_DATABASE} {path} on the image");
        let steps = format!("account,db={},through={through}", out.display());
        let said = run(Command::new(kit.probe()).arg(steps))?.stdout;
        let _ = std::fs::remove_file(out);
        Ok(said)
    }
}

impl CrashedExt4 {
    /// The same for a disk of which no age is promised: it may be from before the database was.
    ///
    /// # Errors
    ///
    /// When the database is there and not sound.
    pub fn account_if_any(&self, lab: &Lab, kit: &GuestKit, path: &str) -> anyhow::Result<()> {
        match self.account(lab, kit, path, 0) {
            Err(error) if !error.to_string().contains(NO_DATABASE) => Err(error),
            _ => Ok(()),
        }
    }
}

/// The highest transaction that a guest's console, or `account`, names as `words` followed by it.
pub fn highest(said: &str, words: &str) -> u64 {
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let numbers = whole.lines().filter_map(|line| {
        let (_, rest) = line.split_once(words)?;
        rest.split_whitespace().next()?.parse().ok()
    });
    numbers.max().unwrap_or(0)
}
