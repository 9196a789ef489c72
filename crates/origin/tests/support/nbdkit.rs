//! A real NBD server, nbdkit, for as long as a test wants it.

use origin::{NbdAddress, NbdSpec};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to listen.
const START_TIME_MAX: Duration = Duration::from_secs(20);

pub(crate) struct Nbdkit {
    folder: TempDir,
    arguments: Vec<String>,
    server: Option<Child>,
}

impl Nbdkit {
    /// Whether nbdkit is installed; if not, says so.
    pub(crate) fn is_here() -> bool {
        let found = Command::new("nbdkit")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok();
        if !found {
            eprintln!("skipped: nbdkit is not installed");
        }
        found
    }

    /// A server with these arguments, listening. `{folder}` in an argument is the server's
    /// folder.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
        let mut server = Self::prepare();
        server.arguments = arguments;
        server.start_again();
        server
    }

    /// A folder and nothing in it.
    pub(crate) fn prepare() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            arguments: Vec::new(),
            server: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    pub(crate) fn set_arguments(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
    }

    pub(crate) fn start_again(&mut self) {
        assert!(self.server.is_none(), "one server at a time");
        let socket = self.socket();
        let _ = std::fs::remove_file(&socket);
        let folder = self.folder.path().display().to_string();
        let arguments = self
            .arguments
            .iter()
            .map(|a| a.replace("{folder}", &folder));
        let server = Command::new("nbdkit")
            .args(["--foreground", "--exit-with-parent", "--unix"])
            .arg(&socket)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.server = Some(server);
        Self::until(|| UnixStream::connect(&socket).is_ok());
    }

    /// Starts `qemu-nbd` on a raw image in the folder instead; false if it is not installed.
    pub(crate) fn start_qemu(&mut self, image: &str) -> bool {
        let child = Command::new("qemu-nbd")
            .args(["--persistent", "--shared=4", "--format=raw", "--socket"])
            .arg(self.socket())
            .arg(self.path(image))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: qemu-nbd is not installed");
            return false;
        };
        self.adopt(child);
        let socket = self.socket();
        Self::until(|| UnixStream::connect(&socket).is_ok());
        true
    }

    /// Takes charge of a server that was started otherwise.
    pub(crate) fn adopt(&mut self, server: Child) {
        self.server = Some(server);
    }

    /// Waits for a condition, for as long as a server may take to listen.
    pub(crate) fn until(mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + START_TIME_MAX;
        while !condition() {
            assert!(Instant::now() < deadline, "nbdkit does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// `kill -9`, and gone for sure.
    pub(crate) fn kill(&mut self) {
        let mut server = self.server.take().expect("a server is running");
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// Tells it to stop, without waiting for it.
    pub(crate) fn terminate(&self) {
        kill_process(self.id(), Signal::TERM).unwrap();
    }

    /// Whether it has ended by itself; if so, it can be started again.
    pub(crate) fn has_ended(&mut self) -> bool {
        let server = self.server.as_mut().expect("a server was running");
        let ended = server.try_wait().unwrap().is_some();
        if ended {
            self.server = None;
        }
        ended
    }

    /// Stops it in the middle of whatever it does, until [`Self::thaw`].
    pub(crate) fn freeze(&self) {
        let id = self.id();
        kill_process(id, Signal::STOP).unwrap();
        // Its threads stop one after the other; the kernel tells of it when the last one has, and
        // until then one of them may still answer.
        let told = waitpid(Some(id), WaitOptions::UNTRACED).unwrap();
        assert!(told.is_some_and(|(_, status)| status.stopped()));
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        kill_process(self.id(), Signal::CONT).unwrap();
    }

    fn id(&self) -> Pid {
        Pid::from_child(self.server.as_ref().expect("a server is running"))
    }

    /// How to reach it, with time limits for tests.
    pub(crate) fn spec(&self) -> NbdSpec {
        NbdSpec {
            tls: None,
            address: NbdAddress::Unix(self.socket()),
            export: String::new(),
            connections: 4,
            connect_timeout: units::Duration::from_secs(10),
            reconnect_pause_max: units::Duration::from_millis(200),
            request_timeout: units::Duration::from_secs(60),
            settle_time: units::Duration::from_secs(30),
        }
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.kill();
        }
    }
}
