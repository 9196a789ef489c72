//! A program of the operator's, for hosts where neither libvirt nor a monitor's socket migrates VMs.

use crate::error::HypervisorError;
use crate::migration::{Left, Migration, State};
use crate::program::run;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// The program.
#[derive(Debug)]
pub struct Hook {
    program: PathBuf,
}

impl Hook {
    /// The program at this path.
    pub fn new(program: &Path) -> Self {
        Self {
            program: program.to_owned(),
        }
    }

    async fn ask(
        &self,
        word: &str,
        vm: &str,
        more: &[(&str, String)],
    ) -> Result<String, HypervisorError> {
        let mut command = Command::new(&self.program);
        command.arg(word).env("HEARTH_VM", vm);
        for (name, value) in more {
            command.env(name, value);
        }
        let called = format!("{} {word}", self.program.display());
        run(command, &called).await?.well(&called)
    }

    pub(crate) async fn start(&self, migration: &Migration) -> Result<(), HypervisorError> {
        let mut more = vec![
            ("HEARTH_FROM", migration.from.clone()),
            ("HEARTH_TO", migration.to.clone()),
        ];
        let pace = migration.pace.map(|pace| ("HEARTH_PACE", pace.to_string()));
        more.extend(pace);
        self.ask("start", &migration.vm, &more).await.map(drop)
    }

    pub(crate) async fn state(&self, vm: &str) -> Result<State, HypervisorError> {
        let said = self.ask("state", vm, &[]).await?;
        state_of(&said).ok_or_else(|| HypervisorError::Refused {
            program: format!("{} state", self.program.display()),
            said: format!(
                "it printed {:?}, and has to print runs, migrates, completed, gone, or failed and a reason",
                said.trim()
            ),
        })
    }

    pub(crate) async fn cancel(&self, vm: &str) -> Result<(), HypervisorError> {
        self.ask("cancel", vm, &[]).await.map(drop)
    }

    pub(crate) async fn pace(&self, vm: &str, bytes: u64) -> Result<(), HypervisorError> {
        let pace = ("HEARTH_PACE", bytes.to_string());
        self.ask("pace", vm, &[pace]).await.map(drop)
    }
}

fn state_of(said: &str) -> Option<State> {
    let said = said.trim();
    let (word, reason) = said.split_once(' ').unwrap_or((said, ""));
    let runs = State {
        runs: true,
        ..State::default()
    };
    match word {
        "runs" => Some(runs),
        "migrates" => Some(State {
            migrates: true,
            left: left(reason),
            ..runs
        }),
        "completed" => Some(State {
            completed: true,
            ..State::default()
        }),
        "gone" => Some(State::default()),
        "failed" => Some(State {
            failed: Some(reason.to_owned()),
            ..runs
        }),
        _ => None,
    }
}

/// What is left, if the program says so: bytes, and bytes that become dirty in a second.
fn left(words: &str) -> Option<Left> {
    let mut words = words.split_whitespace().map(|word| word.parse().ok());
    Some(Left {
        bytes: words.next()??,
        dirty_per_second: words.next().flatten().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn hook(folder: &Path, script: &str) -> Hook {
        let path = folder.join("hook");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Hook::new(&path)
    }

    #[tokio::test]
    async fn the_program_is_told_what_migrates_where() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let script = format!(
            "echo $1 $HEARTH_VM $HEARTH_FROM $HEARTH_TO $HEARTH_PACE >> {}; echo failed no route",
            told.display()
        );
        let hook = hook(folder.path(), &script);
        let migration = Migration {
            vm: "v".to_owned(),
            from: "a".to_owned(),
            to: "b".to_owned(),
            pace: Some(7),
        };
        hook.start(&migration).await.unwrap();
        let state = hook.state("v").await.unwrap();
        assert_eq!(state.failed.as_deref(), Some("no route"));
        assert!(state.runs && !state.migrates);
        hook.cancel("v").await.unwrap();
        let told = std::fs::read_to_string(told).unwrap();
        assert_eq!(told, "start v a b 7\nstate v\ncancel v\n");
    }

    #[tokio::test]
    async fn a_program_that_fails_or_talks_otherwise_is_told_on() {
        let folder = tempfile::tempdir().unwrap();
        let failing = hook(folder.path(), "echo no such VM >&2; exit 3");
        let said = failing.cancel("v").await.unwrap_err().to_string();
        assert!(said.ends_with("cancel: no such VM"), "{said}");
        let left = state_of("migrates 1000 10").unwrap().left.unwrap();
        assert_eq!((left.bytes, left.dirty_per_second), (1000, 10));
        assert_eq!(state_of("migrates").unwrap().left, None);
        let strange = hook(folder.path(), "echo perhaps");
        let said = strange.state("v").await.unwrap_err().to_string();
        assert!(said.contains("\"perhaps\""), "{said}");
    }
}
