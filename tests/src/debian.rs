//! A host of its own: an empty Debian that runs under its own systemd in namespaces of this host.
//!
//! Packages are installed there by dpkg, their scripts call the host's `systemctl`, and its systemd starts the units with
//! all that they ask for.

use crate::{Lab, Output, Process, SHORT, hearth, run, run_expecting_failure, wait_until};
use anyhow::{Context as _, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tools that it takes.
pub const DEBIAN_TOOLS: &[&str] = &["mmdebstrap", "unshare", "nsenter", "tar", "dpkg-deb", "rpm"];

/// Debian's and RPM's packages of one version, of the programs under test.
pub struct Packages {
    folder: PathBuf,
}

impl Packages {
    /// Makes them in a folder of the lab, of one kind (`deb`, `rpm`) or `both`.
    ///
    /// # Errors
    ///
    /// When a program is not built, or a maker of packages fails.
    pub fn make(lab: &Lab, version: &str, kind: &str) -> anyhow::Result<Self> {
        let folder = lab.path(&format!("packages-{version}"));
        let mut make = Command::new(script("packages"));
        make.args([hearth::program()?, hearth::built("hearth-guest")?]);
        make.arg(version).arg(&folder).arg(kind);
        make.env("HEARTH_PACKAGES_FAST", "1");
        run(&mut make)?;
        Ok(Self { folder })
    }

    /// The package of that name for one of the two makers: `deb` or `rpm`.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn file(&self, name: &str, kind: &str) -> anyhow::Result<PathBuf> {
        let behind_the_name = if kind == "deb" { "_" } else { "-0" };
        let front = format!("{name}{behind_the_name}");
        let mut files = std::fs::read_dir(&self.folder)?.flatten();
        let found = files.find(|file| {
            let file = file.file_name();
            let file = file.to_string_lossy();
            file.starts_with(&front) && file.ends_with(kind)
        });
        Ok(found.with_context(|| format!("no {name}.{kind}"))?.path())
    }
}

/// The host.
pub struct Debian {
    root: PathBuf,
    /// Its first process, as this host counts.
    init: u32,
    _systemd: Process,
}

impl Debian {
    /// Unpacks an empty Debian and boots it.
    ///
    /// # Errors
    ///
    /// When the archive cannot be made, or systemd does not come up.
    pub fn boot(lab: &Lab) -> anyhow::Result<Self> {
        run(&mut Command::new(script("debian/build")))?;
        let root = lab.path("debian");
        std::fs::create_dir(&root)?;
        let archive = script("../scratch/debian/root.tar");
        run(Command::new("tar")
            .arg("-xf")
            .arg(archive)
            .arg("-C")
            .arg(&root))?;
        let mut boot = Command::new("unshare");
        boot.args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--uts",
            "--ipc",
        ]);
        boot.args(["--cgroup", "--net"]).arg(script("debian/boot"));
        let systemd = Process::start(lab, "debian", boot.arg(&root))?;
        let debian = Self {
            init: child_of(systemd.id())?,
            root,
            _systemd: systemd,
        };
        wait_until("Debian to be up", SHORT, || {
            let state = debian
                .command(&["systemctl", "is-system-running"])
                .output()?;
            Ok(state.stdout.starts_with(b"running"))
        })?;
        Ok(debian)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.init.to_string());
        command.args([
            "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd",
        ]);
        command.args([
            "env",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL=C.UTF-8",
        ]);
        command.args(words);
        command
    }

    /// Runs a command there, as root.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<Output> {
        run(&mut self.command(words))
    }

    /// Runs a command there that must fail.
    ///
    /// # Errors
    ///
    /// When it succeeds.
    pub fn fails(&self, words: &[&str]) -> anyhow::Result<Output> {
        run_expecting_failure(&mut self.command(words))
    }

    /// Installs packages, as root there would.
    ///
    /// # Errors
    ///
    /// When dpkg fails.
    pub fn install(&self, packages: &Packages, names: &[&str]) -> anyhow::Result<Output> {
        let mut words = vec!["dpkg".to_owned(), "--install".to_owned()];
        for name in names {
            let file = packages.file(name, "deb")?;
            let there = format!("/var/tmp/{name}.deb");
            std::fs::copy(file, self.path(&there))?;
            words.push(there);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.run(&words)
    }

    /// A file there, for this host. What lies in a file system that was mounted there is at [`Debian::live`].
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file or socket there, as its processes see it.
    pub fn live(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.init))
    }

    /// A property of a unit, as `systemctl show` says it.
    ///
    /// # Errors
    ///
    /// When systemd does not answer.
    pub fn property(&self, unit: &str, property: &str) -> anyhow::Result<String> {
        let shown = self.run(&["systemctl", "show", "--value", "--property", property, unit])?;
        Ok(shown.stdout.trim().to_owned())
    }

    /// What a command of Hearth answers there, as JSON.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn hearth(&self, words: &[&str]) -> anyhow::Result<serde_json::Value> {
        let words = [&["hearth", "--json"], words].concat();
        let answer = self.run(&words)?;
        serde_json::from_str(&answer.stdout).with_context(|| answer.stdout.clone())
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../scripts")
        .join(name)
}

/// The only child of a process, once it has one.
fn child_of(parent: u32) -> anyhow::Result<u32> {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let mut child = None;
    wait_until("systemd to start", SHORT, || {
        child = std::fs::read_to_string(&children)?
            .split_whitespace()
            .next()
            .map(str::to_owned);
        Ok(child.is_some())
    })?;
    let child = child.context("a child")?;
    ensure!(child != "1", "a process of the namespace's own");
    child.parse().context(child)
}
