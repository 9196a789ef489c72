//! libvirt, by its own program.

use crate::error::HypervisorError;
use crate::migration::{Left, Migration, State};
use crate::program::{run, to_its_end};
use crate::template::Template;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::Command;

/// Bytes of a page where libvirt does not say.
const PAGE_BYTES: u64 = 4096;
/// How long a migration may take to be refused before it counts as begun.
const BEGINS_WITHIN: Duration = Duration::from_millis(500);

/// libvirt at this host.
#[derive(Debug)]
pub struct Virsh {
    connect: String,
    destination: Template,
    options: Vec<Template>,
    runs: Arc<Mutex<BTreeMap<String, Run>>>,
}

/// A `virsh migrate` that this process has started.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Run {
    Going,
    Ended,
    Failed(String),
}

impl Virsh {
    /// The libvirt at this URI, that migrates to the one at that.
    pub fn new(connect: &str, destination: Template, options: Vec<Template>) -> Self {
        Self {
            connect: connect.to_owned(),
            destination,
            options,
            runs: Arc::default(),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("virsh");
        command.args(["-c", &self.connect]).args(words);
        command
    }

    async fn ask(&self, words: &[&str]) -> Result<String, HypervisorError> {
        let called = format!("virsh {}", words.join(" "));
        run(self.command(words), &called).await?.well(&called)
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<String, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn start(&self, migration: &Migration) -> Result<(), HypervisorError> {
        if self.state(&migration.vm).await?.migrates {
            return Ok(());
        }
        let vm = migration.vm.clone();
        let destination = self.destination.fill(migration);
        let mut command = self.command(&["migrate"]);
        command.args(self.options.iter().map(|option| option.fill(migration)));
        if let Some(pace) = migration.pace {
            command.args(["--bandwidth", &mib(pace).to_string()]);
        }
        command.args(["--domain", &vm, "--desturi", &destination]);
        let called = format!("virsh migrate {vm} {destination}");
        self.runs().insert(vm.clone(), Run::Going);
        let runs = Arc::clone(&self.runs);
        let begun = tokio::spawn(async move {
            let ended = to_its_end(command, &called).await;
            let run = match ended.and_then(|ended| ended.well(&called)) {
                Ok(_) => Run::Ended,
                Err(error) => Run::Failed(error.to_string()),
            };
            let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
            runs.insert(vm, run);
        });
        // What is refused at once is refused to who asked.
        let _ = tokio::time::timeout(BEGINS_WITHIN, begun).await;
        match self.runs().get(&migration.vm) {
            Some(Run::Failed(said)) => Err(HypervisorError::Refused {
                program: "libvirt".to_owned(),
                said: said.clone(),
            }),
            _ => Ok(()),
        }
    }

    pub(crate) async fn state(&self, vm: &str) -> Result<State, HypervisorError> {
        let run = self.runs().get(vm).cloned();
        let called = format!("virsh domstate {vm}");
        let asked = run_state(self.command(&["domstate", "--domain", vm]), &called).await?;
        let mut state = State {
            runs: asked,
            migrates: run == Some(Run::Going),
            completed: run == Some(Run::Ended) && !asked,
            failed: None,
            left: None,
        };
        if let Some(Run::Failed(said)) = run {
            state.failed = Some(said);
        }
        if state.runs {
            // There may be one that was begun before this daemon was restarted, or by somebody else.
            // libvirt refuses the question of a VM that comes, and of one that has just left.
            let job = self.ask(&["domjobinfo", "--domain", vm]).await;
            let job = job.unwrap_or_default();
            state.migrates = state.migrates || is_migrating(&job);
            state.left = left(&job);
        }
        Ok(state)
    }

    /// Orders a migration to end; there may be none yet, or no more.
    pub(crate) async fn abort(&self, vm: &str) {
        let _ = self.ask(&["domjobabort", "--domain", vm]).await;
    }

    pub(crate) async fn pace(&self, vm: &str, bytes: u64) -> Result<(), HypervisorError> {
        let mib = mib(bytes).to_string();
        let words = ["migrate-setspeed", "--domain", vm, "--bandwidth", &mib];
        self.ask(&words).await.map(drop)
    }
}

/// Whole MiB, as libvirt takes them; 0 would be no limit.
fn mib(bytes: u64) -> u64 {
    (bytes >> 20).max(1)
}

/// Whether the VM is here and was started.
async fn run_state(command: Command, called: &str) -> Result<bool, HypervisorError> {
    let ended = run(command, called).await?;
    if !ended.status.success() && is_unknown(&ended.said) {
        return Ok(false);
    }
    let state = ended.well(called)?;
    Ok(!matches!(
        state.trim(),
        "shut off" | "crashed" | "in shutdown" | ""
    ))
}

fn is_unknown(said: &str) -> bool {
    said.contains("Domain not found") || said.contains("failed to get domain")
}

/// What `virsh domjobinfo` says of something.
fn said<'a>(job: &'a str, name: &str) -> Option<&'a str> {
    let line = job.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim())
}

fn is_migrating(job: &str) -> bool {
    let is_active = matches!(said(job, "Job type:"), Some("Bounded" | "Unbounded"));
    is_active && said(job, "Operation:").is_none_or(|operation| operation == "Outgoing migration")
}

fn left(job: &str) -> Option<Left> {
    let number = |name: &str| {
        said(job, name)?
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    };
    let pages = number("Dirty rate:").unwrap_or(0);
    Some(Left {
        bytes: bytes(said(job, "Memory remaining:")?)?,
        dirty_per_second: pages.saturating_mul(number("Page size:").unwrap_or(PAGE_BYTES)),
    })
}

/// A size as virsh writes it: `12.345 MiB`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let shift = match unit.trim() {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.parse().ok()?;
    // Three digits behind the point are enough for a pace.
    let thousandths: u64 = format!("{part:0<3.3}").parse().ok()?;
    Some((whole << shift) + ((thousandths << shift) / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_migration_if_it_goes_out() {
        assert!(is_migrating(
            "Job type:         Unbounded   \nOperation:        Outgoing migration\nTime elapsed: 10 ms"
        ));
        assert!(!is_migrating("Job type:         None        \n"));
        assert!(!is_migrating(
            "Job type:         Unbounded\nOperation:        Save\n"
        ));
    }

    #[test]
    fn what_is_left_is_in_bytes() {
        let job = "Job type:         Unbounded\nMemory remaining: 1.500 MiB\nDirty rate:       3 pages/s\nPage size:        4096 bytes\n";
        let expected = Left {
            bytes: 3 << 19,
            dirty_per_second: 3 * 4096,
        };
        assert_eq!(left(job), Some(expected));
        assert_eq!(left("Job type:         None\n"), None);
        assert_eq!(bytes("17.25 GiB"), Some((17 << 30) + (1 << 28)));
        assert_eq!(bytes("17 pages"), None);
    }

    #[test]
    fn a_pace_is_at_least_one() {
        assert_eq!(mib(10), 1);
        assert_eq!(mib(5 << 20), 5);
    }
}
