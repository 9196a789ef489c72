//! A Ceph cluster of its own for as long as a test wants it.

use origin::RbdSpec;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long the cluster may take until it has images.
const START_TIME_MAX: Duration = Duration::from_mins(2);

pub(crate) struct Ceph {
    folder: TempDir,
    script: Child,
}

impl Ceph {
    /// Whether a cluster can be made here; if not, says so.
    pub(crate) fn is_here() -> bool {
        let tools = ["ceph-mon", "ceph-osd", "rbd"];
        let found = tools
            .iter()
            .all(|tool| Path::new("/usr/bin").join(tool).exists());
        if !found {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "Ceph is not installed; run `make setup`"
            );
            eprintln!("skipped: Ceph is not installed");
        }
        found
    }

    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/ceph"))
            .arg(folder.path())
            .arg(port.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ceph = Self { folder, script };
        let deadline = Instant::now() + START_TIME_MAX;
        while !ceph.folder.path().join("ready").exists() {
            assert!(Instant::now() < deadline, "the cluster does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        ceph
    }

    pub(crate) fn conf(&self) -> PathBuf {
        self.folder.path().join("ceph.conf")
    }

    /// Runs one of Ceph's commands, which must succeed; what it said.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let (program, words) = words.split_first().unwrap();
        let done = Command::new(program)
            .args(words)
            .env("CEPH_CONF", self.conf())
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap()
    }

    /// A new image of so many bytes.
    pub(crate) fn image(&self, name: &str, bytes: u64) -> RbdSpec {
        self.run(&[
            "rbd",
            "create",
            "--size",
            &format!("{bytes}B"),
            &format!("rbd/{name}"),
        ]);
        self.spec(name)
    }

    pub(crate) fn spec(&self, name: &str) -> RbdSpec {
        let conf = self.conf();
        RbdSpec {
            name: format!("rbd:rbd/{name}?conf={}&user=hearth", conf.display()),
            conf: Some(conf),
            user: Some("hearth".to_owned()),
            pool: "rbd".to_owned(),
            namespace: String::new(),
            image: name.to_owned(),
            snapshot: None,
            connect_timeout: units::Duration::from_secs(30),
            request_timeout: units::Duration::from_secs(60),
        }
    }

    /// Signals one of the daemons, `mon` or `osd`, and waits until it stands still if it has to stop.
    pub(crate) fn signal(&self, daemon: &str, signal: rustix::process::Signal) {
        let pid =
            std::fs::read_to_string(self.folder.path().join(format!("{daemon}.pid"))).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        while signal == rustix::process::Signal::STOP && !stands_still(pid) {
            std::thread::yield_now();
        }
    }
}

/// Whether each thread of a process is stopped: one that runs elsewhere does so a little later than the signal is sent.
fn stands_still(pid: rustix::process::Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap();
    threads.flatten().all(|thread| {
        // A thread that has ended meanwhile does nothing any more.
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        state.is_none_or(|state| state.trim_start().starts_with('T'))
    })
}

impl Drop for Ceph {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.script.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.script.wait();
    }
}
