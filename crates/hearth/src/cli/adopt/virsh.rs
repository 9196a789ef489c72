//! libvirt, asked by its own program.

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::progress;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The oldest libvirt that knows `<reconnect>` of a disk over NBD.
const NBD_RECONNECT_SINCE: (u32, u32) = (9, 1);

/// A libvirt, and where it listens.
#[derive(Clone, Debug)]
pub(super) struct Libvirt {
    uri: Option<String>,
}

/// What libvirt says of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DomainState {
    /// `shut off`, `running`, ...
    pub(super) state: String,
    /// Whether its memory was saved, and its next start goes on from there with the disks as they were.
    pub(super) has_saved_memory: bool,
}

impl Libvirt {
    pub(super) fn at(uri: Option<&String>) -> Self {
        Self { uri: uri.cloned() }
    }

    /// The domain as it will start next, with its secrets, which would be lost otherwise.
    pub(super) async fn inactive_xml(&self, domain: &str) -> Result<String, CliError> {
        self.ask(
            &[
                "dumpxml",
                "--inactive",
                "--security-info",
                "--domain",
                domain,
            ],
            None,
        )
        .await
    }

    pub(super) async fn state(&self, domain: &str) -> Result<DomainState, CliError> {
        let said = self.ask(&["dominfo", "--domain", domain], None).await?;
        Ok(state(&said))
    }

    /// Defines a domain, over the one of the same name and UUID.
    pub(super) async fn define(&self, xml: &str) -> Result<(), CliError> {
        self.ask(&["define", "/dev/stdin"], Some(xml.to_owned()))
            .await
            .map(drop)
    }

    /// Whether it knows `<reconnect>` of a disk over NBD.
    pub(super) async fn reconnects_nbd(&self) -> Result<bool, CliError> {
        let said = self.ask(&["version", "--daemon"], None).await?;
        Ok(version(&said).is_some_and(|version| version >= NBD_RECONNECT_SINCE))
    }

    async fn ask(&self, words: &[&str], input: Option<String>) -> Result<String, CliError> {
        let mut command = Command::new("virsh");
        if let Some(uri) = &self.uri {
            command.args(["-c", uri]);
        }
        command.args(words).env("LC_ALL", "C.UTF-8");
        let asked = tokio::task::spawn_blocking(move || answer(command, input));
        let asked = progress::waiting("asking libvirt".to_owned(), asked).await;
        asked.unwrap_or_else(|error| Err(CliError::of(Exit::Failed, &error)))
    }
}

fn answer(mut command: Command, input: Option<String>) -> Result<String, CliError> {
    let failed = |error: std::io::Error| {
        CliError::new(Exit::Failed, format!("virsh: {error}"))
            .with_remedy("install libvirt's clients, or show it for a file: --domain FILE")
    };
    let stdin = if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // virsh may end without reading it, and says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let said = lines.join(" ");
    if said.contains("failed to get domain") {
        return Err(CliError::new(Exit::NotFound, format!("libvirt: {said}"))
            .with_remedy("virsh list --all"));
    }
    Err(CliError::new(Exit::Failed, format!("libvirt: {said}")))
}

/// What `virsh dominfo` says.
fn state(said: &str) -> DomainState {
    let field = |name: &str| {
        let value = said.lines().find_map(|line| line.strip_prefix(name));
        value
            .map(|value| value.trim().to_owned())
            .unwrap_or_default()
    };
    DomainState {
        state: field("State:"),
        has_saved_memory: field("Managed save:") == "yes",
    }
}

/// Major and minor version of the daemon, by what `virsh version --daemon` says.
fn version(said: &str) -> Option<(u32, u32)> {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("Running against daemon:"))?;
    let mut numbers = line.trim().split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libvirt_says_is_understood() {
        let said = "Id:             -\nName:           web\nState:          shut off\nManaged save:   no\n\n";
        let expected = DomainState {
            state: "shut off".to_owned(),
            has_saved_memory: false,
        };
        assert_eq!(state(said), expected);
        let said = "Using library: libvirt 9.0.0\nRunning hypervisor: QEMU 7.2.19\nRunning against daemon: 9.0.0\n";
        assert_eq!(version(said), Some((9, 0)));
        assert_eq!(version("Running against daemon: 10.1.0\n"), Some((10, 1)));
        assert_eq!(version(""), None);
    }
}
