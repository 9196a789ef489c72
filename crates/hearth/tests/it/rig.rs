//! A daemon of a test's own, in a folder of its own.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take before the test gives up. Generous: machines are shared.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with a formatted flash and an origin, and what is run in it.
pub(crate) struct Rig {
    dir: TempDir,
    daemon: Option<Child>,
}

/// The program under test.
pub(crate) fn hearth() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command
        .env_remove("HEARTH_SOCKET")
        .env_remove("HEARTH_LOG")
        .env_remove("NOTIFY_SOCKET");
    command
}

/// Runs to the end.
pub(crate) fn run(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

/// Standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Looks again and again until `look` finds something.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Rig {
    /// A folder with a flash of 64 MiB and two origins, `a.raw` and `b.raw`, of 1 MiB.
    pub(crate) fn new() -> Self {
        let rig = Self {
            dir: tempfile::tempdir().unwrap(),
            daemon: None,
        };
        for origin in ["a.raw", "b.raw"] {
            std::fs::write(rig.path(origin), vec![7; 1 << 20]).unwrap();
        }
        let format = run(hearth()
            .args([
                "cache",
                "format",
                "--size",
                "64MiB",
                "--segment-size",
                "1MiB",
            ])
            .arg(rig.path("flash")));
        assert!(format.status.success(), "{}", stderr(&format));
        rig
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The text of a configuration with one cache and the given disks.
    pub(crate) fn config(&self, disks: &str) -> String {
        let dir = self.dir.path().display();
        format!(
            "[daemon]\nadmin_socket = '{dir}/admin.sock'\nstate_dir = '{dir}/state'\n\
             metrics_address = 'off'\nlog_target = 'stderr'\n\
             [nbd]\nunix_socket = '{dir}/nbd.sock'\n\
             [[cache]]\nname = 'main'\npath = '{dir}/flash'\n{disks}"
        )
    }

    /// A `[[disk]]` section on the origin file `file`.
    pub(crate) fn disk(&self, name: &str, file: &str) -> String {
        format!(
            "[[disk]]\nname = '{name}'\norigin = {{ file = '{}' }}\n",
            self.path(file).display()
        )
    }

    /// Writes the configuration and returns its path.
    pub(crate) fn write_config(&self, text: &str) -> PathBuf {
        let path = self.path("hearth.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Starts the daemon and waits until it listens for VMs.
    pub(crate) fn start(&mut self, config: &str) {
        let child = self.launch(config);
        self.adopt(child);
        let socket = self.path("nbd.sock");
        wait_for("the daemon to serve", || {
            let ended = self.daemon.as_mut()?.try_wait().unwrap();
            assert!(ended.is_none(), "the daemon ended");
            UnixStream::connect(&socket).ok()
        });
    }

    /// Makes a daemon that was started otherwise this rig's.
    pub(crate) fn adopt(&mut self, daemon: Child) {
        self.daemon = Some(daemon);
    }

    fn launch(&self, config: &str) -> Child {
        let config = self.write_config(config);
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        hearth()
            .args(["serve", "--config"])
            .arg(config)
            .stderr(log)
            .spawn()
            .unwrap()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The daemon's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("the daemon runs").id()
    }

    /// Sends the daemon a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = run(Command::new("kill").args(["-s", name, &self.pid().to_string()]));
        assert!(sent.status.success(), "{}", stderr(&sent));
    }

    /// Stops the daemon cleanly and tells its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.wait_for_end()
    }

    /// Waits until the daemon has ended and tells its exit code.
    pub(crate) fn wait_for_end(&mut self) -> Option<i32> {
        let mut child = self.daemon.take().expect("the daemon runs");
        let status = wait_for("the daemon to end", || child.try_wait().unwrap());
        status.code()
    }

    /// Kills the daemon.
    pub(crate) fn kill(&mut self) {
        let mut child = self.daemon.take().expect("the daemon runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Runs a command of the CLI against the daemon.
    pub(crate) fn cli(&self, words: &[&str]) -> Output {
        run(hearth()
            .arg("--socket")
            .arg(self.path("admin.sock"))
            .args(words))
    }

    /// The same, which must succeed and answer in JSON.
    pub(crate) fn json(&self, words: &[&str]) -> serde_json::Value {
        let output = self.cli(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// One HTTP request to the admin socket, byte for byte; status and body of the answer.
    pub(crate) fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        http(&self.path("admin.sock"), method, path, body)
    }
}

fn http(socket: &Path, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: hearth\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut child) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.log());
        }
    }
}
