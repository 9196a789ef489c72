//! QEMU without libvirt: the monitor's socket of each VM (QMP), opened for one command and closed again.

use crate::error::HypervisorError;
use crate::migration::{Left, Migration, State};
use crate::template::Template;
use serde_json::{Value, json};
use std::io;
use std::mem;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

/// How long a conversation may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// How often the VM is looked at until it stood still for one look.
const LOOKS_MAX: usize = 4;
/// Bytes of a page where QEMU does not say.
const PAGE_BYTES: u64 = 4096;

/// The VMs' monitors.
#[derive(Debug)]
pub struct Qmp {
    socket: Template,
    incoming: Template,
}

impl Qmp {
    /// Each VM's monitor is at `socket`, and migrates to `incoming`, where a QEMU waits for it.
    pub fn new(socket: Template, incoming: Template) -> Self {
        Self { socket, incoming }
    }

    pub(crate) async fn start(&self, migration: &Migration) -> Result<(), HypervisorError> {
        let vm = &migration.vm;
        if self.state(vm).await?.migrates {
            return Ok(());
        }
        if let Some(pace) = migration.pace {
            self.pace(vm, pace).await?;
        }
        let uri = self.incoming.fill(migration);
        self.ask(vm, "migrate", json!({ "uri": uri })).await?;
        Ok(())
    }

    pub(crate) async fn state(&self, vm: &str) -> Result<State, HypervisorError> {
        match self.talk(vm, "query-migrate", look).await {
            Ok((status, migration)) => Ok(state_of(&status, &migration)),
            // No QEMU listens there: the VM is not here.
            Err(HypervisorError::Monitor { source, .. }) if is_gone(&source) => {
                Ok(State::default())
            }
            Err(error) => Err(error),
        }
    }

    /// Orders a migration to end.
    pub(crate) async fn abort(&self, vm: &str) -> Result<(), HypervisorError> {
        let asked = self.ask(vm, "migrate_cancel", json!({})).await;
        asked.map(drop)
    }

    pub(crate) async fn pace(&self, vm: &str, bytes: u64) -> Result<(), HypervisorError> {
        let arguments = json!({ "max-bandwidth": bytes });
        let asked = self.ask(vm, "migrate-set-parameters", arguments).await;
        asked.map(drop)
    }

    /// Gives one command, and returns what QEMU answers.
    async fn ask(
        &self,
        vm: &str,
        command: &'static str,
        arguments: Value,
    ) -> Result<Value, HypervisorError> {
        let asks = async |mut monitor: Monitor| monitor.ask(command, &arguments).await;
        self.talk(vm, command, asks).await
    }

    /// Connects, and has one conversation about a command.
    async fn talk<T>(
        &self,
        vm: &str,
        command: &'static str,
        asks: impl AsyncFnOnce(Monitor) -> Result<T, TalkError>,
    ) -> Result<T, HypervisorError> {
        let socket = self.socket.of_vm(vm);
        let talk = async { asks(Monitor::connect(&socket).await?).await };
        let answer = tokio::time::timeout(ANSWERS_WITHIN, talk);
        let late = || {
            let said = "another program may be connected, and QEMU serves one at a time";
            Err(io::Error::new(io::ErrorKind::TimedOut, said).into())
        };
        let answer = answer.await.unwrap_or_else(|_| late());
        answer.map_err(|error| match error {
            TalkError::Socket(source) => HypervisorError::Monitor { socket, source },
            TalkError::Refused(said) => HypervisorError::Command { command, said },
        })
    }
}

/// Why a conversation with a monitor came to nothing.
enum TalkError {
    Socket(io::Error),
    /// QEMU's own words.
    Refused(String),
}

impl From<io::Error> for TalkError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// The run state and the migration of one moment. Between two questions a migration may come to its end: the VM would run
/// neither here nor anywhere else. So the run state has to be the same before and after.
async fn look(mut monitor: Monitor) -> Result<(Value, Value), TalkError> {
    let nothing = json!({});
    let mut status = monitor.ask("query-status", &nothing).await?;
    for _ in 0..LOOKS_MAX {
        let migration = monitor.ask("query-migrate", &nothing).await?;
        let before = mem::replace(&mut status, monitor.ask("query-status", &nothing).await?);
        if before == status {
            return Ok((status, migration));
        }
    }
    Err(io::Error::other("the VM's state changes with each look").into())
}

/// A connection to a VM's monitor.
struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    async fn connect(socket: &str) -> Result<Self, TalkError> {
        let stream = BufReader::new(UnixStream::connect(socket).await?);
        let mut monitor = Self { stream };
        if monitor.line().await?.get("QMP").is_none() {
            return Err(io::Error::other("what answers is not QEMU's monitor").into());
        }
        monitor.ask("qmp_capabilities", &json!({})).await?;
        Ok(monitor)
    }

    /// What QEMU answers to a command.
    async fn ask(&mut self, command: &str, arguments: &Value) -> Result<Value, TalkError> {
        let command = json!({ "execute": command, "arguments": arguments });
        let stream = self.stream.get_mut();
        stream.write_all(format!("{command}\n").as_bytes()).await?;
        loop {
            let mut said = self.line().await?;
            if let Some(error) = said.get("error") {
                let text = error.get("desc").and_then(Value::as_str);
                let text = text.unwrap_or("without a reason").to_owned();
                return Err(TalkError::Refused(text));
            }
            if let Some(answer) = said.get_mut("return") {
                return Ok(answer.take());
            }
            // An event.
        }
    }

    async fn line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&line).map_err(io::Error::other)
    }
}

fn state_of(status: &Value, migration: &Value) -> State {
    let word = |of: &Value| of.get("status").and_then(Value::as_str).map(str::to_owned);
    let status = word(status).unwrap_or_default();
    let migration_status = word(migration).unwrap_or_default();
    let reason = migration.get("error-desc").and_then(Value::as_str);
    let runs = !matches!(
        status.as_str(),
        "inmigrate" | "postmigrate" | "shutdown" | "finish-migrate" | ""
    );
    // A QEMU that was migrated to says "completed" of the migration by which it came. One that is migrated from says so
    // shortly before it says "postmigrate".
    let went = matches!(status.as_str(), "postmigrate" | "finish-migrate");
    State {
        runs,
        migrates: matches!(
            migration_status.as_str(),
            "setup"
                | "active"
                | "device"
                | "pre-switchover"
                | "postcopy-active"
                | "cancelling"
                | "wait-unplug"
        ),
        completed: went && migration_status == "completed",
        failed: matches!(migration_status.as_str(), "failed" | "cancelled")
            .then(|| reason.unwrap_or(&migration_status).to_owned()),
        left: left(migration),
    }
}

fn left(migration: &Value) -> Option<Left> {
    let ram = migration.get("ram")?;
    let number = |name: &str| ram.get(name).and_then(Value::as_u64);
    let pages = number("dirty-pages-rate").unwrap_or(0);
    Some(Left {
        bytes: number("remaining")?,
        dirty_per_second: pages.saturating_mul(number("page-size").unwrap_or(PAGE_BYTES)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    fn state(status: &str, migration: &str) -> State {
        state_of(
            &json!({ "status": status }),
            &json!({ "status": migration }),
        )
    }

    #[test]
    fn a_vm_that_has_left_runs_here_no_more() {
        let left = state("postmigrate", "completed");
        assert!(left.completed && !left.runs && !left.migrates);
        let leaves = state("finish-migrate", "completed");
        assert!(leaves.completed && !leaves.runs && !leaves.migrates);
        assert!(state("finish-migrate", "device").migrates);
        let came = state("running", "completed");
        assert!(came.runs && !came.completed);
        assert!(!state("inmigrate", "active").runs);
        assert!(state("running", "active").migrates);
        let failed = state("running", "failed");
        assert_eq!(failed.failed.as_deref(), Some("failed"));
        assert!(failed.runs);
        assert_eq!(
            state("running", ""),
            State {
                runs: true,
                ..State::default()
            }
        );
    }

    #[test]
    fn what_is_left_is_in_bytes() {
        let ram = json!({ "remaining": 1000, "dirty-pages-rate": 3, "page-size": 4096 });
        let expected = Left {
            bytes: 1000,
            dirty_per_second: 3 * 4096,
        };
        assert_eq!(left(&json!({ "ram": ram })), Some(expected));
        assert_eq!(left(&json!({ "status": "setup" })), None);
    }

    /// A monitor that gives these answers to the questions of one client, the greeting aside.
    async fn answer(listener: UnixListener, answers: &[(&str, &str)]) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let greeting = "{\"QMP\": {}}\n";
        stream
            .get_mut()
            .write_all(greeting.as_bytes())
            .await
            .unwrap();
        for (command, status) in [("qmp_capabilities", "")].iter().chain(answers) {
            let mut asked = String::new();
            stream.read_line(&mut asked).await.unwrap();
            assert!(asked.contains(command), "{asked} instead of {command}");
            let answer = format!("{}\n", json!({ "return": { "status": status } }));
            stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_migration_that_ends_between_two_questions_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("v.qmp").display().to_string();
        let listener = UnixListener::bind(&socket).unwrap();
        let qmp = Qmp::new(Template::new(&socket), Template::new("tcp:{host}:1"));
        let answers = [
            ("query-status", "running"),
            ("query-migrate", "active"),
            ("query-status", "finish-migrate"),
            ("query-migrate", "completed"),
            ("query-status", "postmigrate"),
            ("query-migrate", "completed"),
            ("query-status", "postmigrate"),
        ];
        let ((), state) = tokio::join!(answer(listener, &answers), qmp.state("v"));
        let state = state.unwrap();
        assert!(
            state.completed && !state.runs && !state.migrates,
            "{state:?}"
        );
    }

    #[tokio::test]
    async fn no_qemu_is_no_vm() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("{vm}.qmp").display().to_string();
        let qmp = Qmp::new(Template::new(&socket), Template::new("tcp:{host}:1"));
        assert_eq!(qmp.state("v").await.unwrap(), State::default());
        assert!(qmp.pace("v", 1).await.is_err());
    }
}
