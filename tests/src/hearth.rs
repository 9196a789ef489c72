//! The program under test, started and asked through its command line only.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, ensure};
use rustix::process::Signal;

use crate::{DiskSettings, Flash, Lab, Manager, Output, Process, limits, tools, wait_until};

/// What the admin socket is called in a lab's folder.
pub(crate) const ADMIN_SOCKET: &str = "admin.sock";

/// The program: `$HEARTH_BIN`, or the one built beside this test.
///
/// # Errors
///
/// When it is not built.
pub fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("HEARTH_BIN") {
        return Ok(PathBuf::from(path));
    }
    built("hearth")
}

/// A program of this workspace, built beside this test.
pub(crate) fn built(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("the test's own path")?;
    // A test lies in target/PROFILE/deps, a program of this crate one above.
    let mut beside = own.ancestors().skip(1).take(2);
    let built = beside.find_map(|folder| {
        let built = folder.join(name);
        built.is_file().then_some(built)
    });
    built
        .with_context(|| format!("{name} is not built; run `cargo build --workspace --bins` first"))
}

/// What the configuration says, beside paths inside the lab.
#[derive(Clone, Default)]
pub struct HearthSettings {
    flash: Option<PathBuf>,
    metrics_address: Option<String>,
    log: Option<String>,
    daemon_keys: String,
    cache_keys: String,
    policy_keys: String,
    nbd_keys: String,
    disks: String,
    in_trouble: Vec<String>,
    journal: Option<PathBuf>,
}

impl HearthSettings {
    /// One cache on `flash`.
    pub fn new(flash: &Flash) -> Self {
        Self {
            flash: Some(flash.path().to_path_buf()),
            ..Self::default()
        }
    }

    /// Where metrics are served beside the admin socket.
    #[must_use]
    pub fn metrics_address(mut self, address: &str) -> Self {
        self.metrics_address = Some(address.to_owned());
        self
    }

    /// What is logged, instead of `info`.
    #[must_use]
    pub fn log(mut self, levels: &str) -> Self {
        self.log = Some(levels.to_owned());
        self
    }

    /// A line of the `[daemon]` section.
    #[must_use]
    pub fn daemon_key(mut self, line: &str) -> Self {
        self.daemon_keys.push_str(line);
        self.daemon_keys.push('\n');
        self
    }

    /// A line of the `[[cache]]` section.
    #[must_use]
    pub fn cache_key(mut self, line: &str) -> Self {
        self.cache_keys.push_str(line);
        self.cache_keys.push('\n');
        self
    }

    /// One more cache.
    #[must_use]
    pub fn cache(mut self, name: &str, flash: &Flash) -> Self {
        let path = flash.path().display();
        let _ = write!(
            self.disks,
            "\n[[cache]]\nname = '{name}'\npath = '{path}'\n"
        );
        self
    }

    /// A line of the `[cache.policy]` section.
    #[must_use]
    pub fn policy_key(mut self, line: &str) -> Self {
        self.policy_keys.push_str(line);
        self.policy_keys.push('\n');
        self
    }

    /// A line of the `[nbd]` section, or of a section below it.
    #[must_use]
    pub fn nbd_key(mut self, line: &str) -> Self {
        self.nbd_keys.push_str(line);
        self.nbd_keys.push('\n');
        self
    }

    /// One more disk.
    #[must_use]
    pub fn disk(mut self, disk: &DiskSettings) -> Self {
        self.disks.push_str(&disk.text);
        self
    }

    /// A `[[vm]]` section with these lines below its name.
    #[must_use]
    pub fn vm(mut self, name: &str, lines: &str) -> Self {
        let _ = write!(self.disks, "\n[[vm]]\nname = '{name}'\n{lines}\n");
        self
    }

    /// More sections.
    #[must_use]
    pub fn section(mut self, text: &str) -> Self {
        self.disks.push_str(text);
        self
    }

    /// Every such text of the sections of disks is another one.
    #[must_use]
    pub fn with(mut self, text: &str, other: &str) -> Self {
        self.disks = self.disks.replace(text, other);
        self
    }

    /// A disk that will not be attached, and is not waited for.
    #[must_use]
    pub fn in_trouble(mut self, disk: &str) -> Self {
        self.in_trouble.push(disk.to_owned());
        self
    }

    /// Logs to a journal instead of its log file: a datagram socket `socket` in `folder`, which the
    /// daemon sees where systemd's is. Needs `unshare` and the right to mount.
    #[must_use]
    pub fn journal(mut self, folder: &Path) -> Self {
        self.journal = Some(folder.to_path_buf());
        self
    }

    /// The program, seeing the journal that was asked for.
    fn program(&self) -> anyhow::Result<Command> {
        let Some(journal) = &self.journal else {
            return Ok(Command::new(program()?));
        };
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-ec"]);
        command.arg(
            "mount -t tmpfs journal /run; mkdir -p /run/systemd/journal; \
             mount --bind \"$1\" /run/systemd/journal; shift; exec \"$@\"",
        );
        command.arg("sh").arg(journal).arg(program()?);
        Ok(command)
    }

    /// Writes the configuration into the lab, and gives its path.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, lab: &Lab) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(lab.path("state")).context("a state folder")?;
        lab.write("hearth.toml", &self.text(lab))
    }

    fn text(&self, lab: &Lab) -> String {
        let at = |name: &str| lab.path(name).display().to_string();
        let mut text = format!(
            "[daemon]\nadmin_socket = '{}'\nstate_dir = '{}'\nmetrics_address = '{}'\nlog = '{}'\n\
             log_target = '{}'\n{}\n[nbd]\nunix_socket = '{}'\n{}",
            at(ADMIN_SOCKET),
            at("state"),
            self.metrics_address.as_deref().unwrap_or("off"),
            self.log.as_deref().unwrap_or("info"),
            self.journal.as_ref().map_or("stderr", |_| "journald"),
            self.daemon_keys,
            at("nbd.sock"),
            self.nbd_keys,
        );
        if let Some(flash) = &self.flash {
            let _ = write!(
                text,
                "\n[[cache]]\nname = 'flash'\npath = '{}'\n{}\n[cache.policy]\n{}",
                flash.display(),
                self.cache_keys,
                self.policy_keys
            );
        }
        text + &self.disks
    }
}

/// A running daemon.
pub struct Hearth {
    process: Process,
    admin_socket: PathBuf,
    nbd_socket: PathBuf,
}

impl Hearth {
    /// Writes the configuration and starts the daemon; returns when it serves.
    ///
    /// # Errors
    ///
    /// When it ends, or does not listen in time.
    pub fn start(lab: &Lab, settings: &HearthSettings) -> anyhow::Result<Self> {
        // Sockets of one that was killed must not be taken for the new one's.
        for name in [ADMIN_SOCKET, "nbd.sock"] {
            let _ = std::fs::remove_file(lab.path(name));
        }
        Self::launch(lab, settings, None)
    }

    /// The same under a service manager, which has the sockets of who was there before.
    ///
    /// # Errors
    ///
    /// When it ends, or does not serve in time.
    pub fn start_under(
        lab: &Lab,
        settings: &HearthSettings,
        manager: &Manager,
    ) -> anyhow::Result<Self> {
        Self::launch(lab, settings, Some(manager))
    }

    fn launch(
        lab: &Lab,
        settings: &HearthSettings,
        manager: Option<&Manager>,
    ) -> anyhow::Result<Self> {
        let config = settings.write(lab)?;
        let mut command = settings.program()?;
        command.arg("serve").arg("--config").arg(config);
        if let Some(manager) = manager {
            manager.equip(&mut command)?;
        }
        let process = Process::start(lab, "hearth", &mut command)?;
        let mut hearth = Self {
            process,
            admin_socket: lab.path(ADMIN_SOCKET),
            nbd_socket: lab.path("nbd.sock"),
        };
        hearth.wait_until_it_serves(&settings.in_trouble)?;
        Ok(hearth)
    }

    /// A daemon that somebody else has started; returns when it serves.
    ///
    /// # Errors
    ///
    /// When it ends, or does not serve in time.
    pub(crate) fn of(
        process: Process,
        admin_socket: PathBuf,
        nbd_socket: PathBuf,
    ) -> anyhow::Result<Self> {
        let mut hearth = Self {
            process,
            admin_socket,
            nbd_socket,
        };
        hearth.wait_until_it_serves(&[])?;
        Ok(hearth)
    }

    fn wait_until_it_serves(&mut self, in_trouble: &[String]) -> anyhow::Result<()> {
        wait_until("hearth to serve", limits::SHORT, || {
            ensure!(self.process.is_running(), "hearth ended while starting");
            let listens = std::os::unix::net::UnixStream::connect(&self.nbd_socket).is_ok();
            Ok(listens && self.disks_are_attached(in_trouble))
        })
        .with_context(|| match self.json(&["disk", "list"]) {
            Ok(disks) => format!("the disks are {disks}"),
            Err(error) => format!("the disks cannot be listed: {error:#}"),
        })
    }

    /// Has it become another daemon, in place; returns when that one serves.
    ///
    /// # Errors
    ///
    /// When it ends, or does not serve in time.
    pub fn renew(&mut self) -> anyhow::Result<()> {
        let times = |log: &str| log.matches(" serving version=").count();
        let before = times(&self.log()?);
        self.process.signal(Signal::USR2)?;
        wait_until("hearth to be renewed", limits::SHORT, || {
            ensure!(self.process.is_running(), "hearth ended instead");
            Ok(times(&self.log()?) > before)
        })?;
        self.wait_until_it_serves(&[])
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn disks_are_attached(&self, in_trouble: &[String]) -> bool {
        let Ok(answer) = self.json(&["disk", "list"]) else {
            return false;
        };
        let disks = answer["disks"].as_array();
        let is_as_wanted = |disk: &serde_json::Value| {
            let troubled = in_trouble.iter().any(|name| disk["name"] == name.as_str());
            // One that roams may be elsewhere.
            troubled || disk["state"] == "attached" || disk["state"] == "standby"
        };
        disks.is_some_and(|disks| disks.iter().all(is_as_wanted))
    }

    /// The address of a disk for NBD clients.
    pub fn uri(&self, disk: &str) -> String {
        format!("nbd+unix:///{disk}?socket={}", self.nbd_socket.display())
    }

    /// The socket of the admin API.
    pub fn admin_socket(&self) -> &Path {
        &self.admin_socket
    }

    /// The NBD server's socket.
    pub fn nbd_socket(&self) -> &Path {
        &self.nbd_socket
    }

    /// Runs a command of the CLI against this daemon.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn command(&self, words: &[&str]) -> anyhow::Result<Output> {
        tools::run(
            Command::new(program()?)
                .arg("--socket")
                .arg(&self.admin_socket)
                .args(words),
        )
    }

    /// Runs a command that must be refused.
    ///
    /// # Errors
    ///
    /// When it succeeds.
    pub fn refused_command(&self, words: &[&str]) -> anyhow::Result<Output> {
        tools::run_expecting_failure(
            Command::new(program()?)
                .arg("--socket")
                .arg(&self.admin_socket)
                .args(words),
        )
    }

    /// What a command answers as JSON.
    ///
    /// # Errors
    ///
    /// When it fails, or answers something else.
    pub fn json(&self, words: &[&str]) -> anyhow::Result<serde_json::Value> {
        let output = self.command(&[words, &["--json"]].concat())?;
        serde_json::from_str(&output.stdout).with_context(|| output.stdout.clone())
    }

    /// How often its first cache has committed the journal.
    ///
    /// # Errors
    ///
    /// When it does not answer, or has no journal.
    pub fn journal_commits(&self) -> anyhow::Result<u64> {
        let status = self.json(&["status"])?;
        let commits = status["caches"][0]["inside"]["journal_commits"].as_u64();
        commits.with_context(|| format!("commits of the journal in {status}"))
    }

    /// What it has logged so far, earlier runs in the same lab included.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn log(&self) -> anyhow::Result<String> {
        std::fs::read_to_string(self.process.log()).context("hearth's log")
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// The most memory that it has had at a time, in MiB.
    ///
    /// # Errors
    ///
    /// When it has gone.
    pub fn peak_mib(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.id());
        let text = std::fs::read_to_string(path).context("the daemon's status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
        let kib: u64 = kib.context("its peak of memory")?.trim().parse()?;
        Ok(kib / 1024)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Cuts it off as a power cut would.
    ///
    /// # Errors
    ///
    /// When it had ended already.
    pub fn kill(self) -> anyhow::Result<()> {
        self.process.kill()
    }

    /// Stops it as an administrator would.
    ///
    /// # Errors
    ///
    /// When it does not stop in time, or not with success.
    pub fn stop(self) -> anyhow::Result<ExitStatus> {
        let status = self.process.terminate()?;
        ensure!(status.success(), "hearth stopped with {status}");
        Ok(status)
    }
}
