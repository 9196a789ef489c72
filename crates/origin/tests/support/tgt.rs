//! An iSCSI target of its own, tgt, for as long as a test wants it.

use origin::IscsiSpec;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a target may take to listen.
const START_TIME_MAX: Duration = Duration::from_secs(20);
/// The name of the target.
pub(crate) const NAME: &str = "iqn.2026-01.org.example:vms";

/// Which of tgt's control ports is free: a number of the process, and one for each target in it.
static CONTROLS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Tgt {
    folder: TempDir,
    control: u32,
    port: u16,
    daemon: Option<Child>,
    units: Vec<PathBuf>,
}

impl Tgt {
    /// Whether tgt is installed; if not, says so.
    pub(crate) fn is_here() -> bool {
        let found = Path::new("/usr/sbin/tgtd").exists();
        if !found {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "tgt is not installed; run `make setup`"
            );
            eprintln!("skipped: tgt is not installed");
        }
        found
    }

    /// A target that listens, without units.
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let number = CONTROLS.fetch_add(1, Ordering::Relaxed);
        let mut tgt = Self {
            folder: tempfile::tempdir().unwrap(),
            control: std::process::id() * 8 % 19_000 + number,
            port,
            daemon: None,
            units: Vec::new(),
        };
        tgt.run();
        tgt
    }

    fn run(&mut self) {
        std::fs::create_dir_all("/var/run/tgtd").unwrap();
        let daemon = Command::new("/usr/sbin/tgtd")
            .args(["-f", "-C", &self.control.to_string(), "--iscsi"])
            .arg(format!("portal=127.0.0.1:{}", self.port))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.daemon = Some(daemon);
        let deadline = Instant::now() + START_TIME_MAX;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "the target does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.control(&["--op", "new", "--mode", "target", "--tid", "1", "-T", NAME]);
        for (unit, file) in (1..).zip(self.units.clone()) {
            self.offer(unit, &file);
        }
        self.control(&[
            "--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL",
        ]);
    }

    fn offer(&self, unit: u16, file: &Path) {
        let (unit, file) = (unit.to_string(), file.to_str().unwrap());
        self.control(&[
            "--op",
            "new",
            "--mode",
            "logicalunit",
            "--tid",
            "1",
            "--lun",
            &unit,
            "--bstype",
            "rdwr",
            "--backing-store",
            file,
        ]);
        self.control(&[
            "--op",
            "update",
            "--mode",
            "logicalunit",
            "--tid",
            "1",
            "--lun",
            &unit,
            "--params",
            "thin_provisioning=1",
        ]);
    }

    /// Tells the target something, and what it says.
    pub(crate) fn control(&self, words: &[&str]) -> String {
        let done = Command::new("/usr/sbin/tgtadm")
            .args(["-C", &self.control.to_string(), "--lld", "iscsi"])
            .args(words)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// The numbers of the sessions that are open. None is used twice.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let shown = self.control(&["--op", "show", "--mode", "target"]);
        let lines = shown.lines().map(str::trim);
        let numbers = lines.filter_map(|line| line.strip_prefix("I_T nexus: "));
        numbers.map(str::to_owned).collect()
    }

    /// A new unit of so many bytes.
    pub(crate) fn unit(&mut self, bytes: u64) -> IscsiSpec {
        let unit = u16::try_from(self.units.len() + 1).unwrap();
        let file = self.folder.path().join(format!("unit-{unit}"));
        std::fs::File::create(&file)
            .unwrap()
            .set_len(bytes)
            .unwrap();
        self.offer(unit, &file);
        self.units.push(file);
        IscsiSpec {
            name: format!("iscsi://127.0.0.1:{}/{NAME}/{unit}", self.port),
            portal: format!("127.0.0.1:{}", self.port),
            target: NAME.to_owned(),
            unit,
            initiator: "iqn.2026-01.org.example:host-1".to_owned(),
            chap: None,
            target_chap: None,
            connect_timeout: units::Duration::from_secs(20),
            reconnect_pause_max: units::Duration::from_millis(200),
            request_timeout: units::Duration::from_secs(60),
        }
    }

    /// The file behind a unit.
    pub(crate) fn file(&self, spec: &IscsiSpec) -> &Path {
        &self.units[usize::from(spec.unit) - 1]
    }

    /// Ends the target at once.
    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        let _ = daemon.kill();
        let _ = daemon.wait();
    }

    /// Starts it again.
    pub(crate) fn start_again(&mut self) {
        self.run();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.daemon.as_ref().unwrap().id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        if self.daemon.is_some() {
            self.signal(Signal::CONT);
            self.kill();
        }
    }
}
