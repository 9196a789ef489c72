//! Hearth as it is installed: `make install` into a folder, the user and the folders made by
//! systemd's own tools, and the daemon started as its unit says.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{Answer, Flash, Hearth, Image, Lab, Manager, Process, hearth, tools};

/// The tools that it takes. systemd itself need not run.
pub const PACKAGE_TOOLS: &[&str] = &[
    "make",
    "cc",
    "unshare",
    "mount",
    "systemd-analyze",
    "systemd-sysusers",
    "systemd-tmpfiles",
];

const UNIT: &str = "hearth.service";
const MONITOR_UNIT: &str = "hearth-monitor.service";
const AGENT_UNIT: &str = "hearth-guest.service";

/// The system's programs that commands of the unit name.
const PROGRAMS: [&str; 4] = ["cat", "kill", "sh", "sleep"];

/// An installation.
pub struct Package {
    root: Lab,
    manager: Manager,
}

impl Package {
    /// Installs the program, its units and its user into a folder of the lab.
    ///
    /// # Errors
    ///
    /// When one of the steps fails that an administrator would take.
    pub fn install(lab: &Lab) -> anyhow::Result<Self> {
        let package = Self::of(
            lab,
            "install",
            ("BINARY", hearth::program()?),
            "hearth.conf",
        )?;
        let in_root = format!("--root={}", package.root.folder().display());
        let words = [&in_root, "--create", "hearth.conf"];
        tools::run(Command::new("systemd-tmpfiles").args(words))?;
        Ok(package)
    }

    /// Installs the agent for guests, its unit and its user into a folder of the lab.
    ///
    /// # Errors
    ///
    /// When one of the steps fails that an administrator would take.
    pub fn install_guest(lab: &Lab) -> anyhow::Result<Self> {
        let agent = ("AGENT", hearth::built("hearth-guest")?);
        Self::of(lab, "install-guest", agent, "hearth-guest.conf")
    }

    fn of(
        lab: &Lab,
        target: &str,
        (variable, program): (&str, PathBuf),
        users: &str,
    ) -> anyhow::Result<Self> {
        let root = lab.host("root")?;
        fs::set_permissions(root.folder(), Permissions::from_mode(0o755))?;
        system(&root)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut make = Command::new("make");
        make.arg("-C").arg(source).arg(target);
        make.arg(format!("DESTDIR={}", root.folder().display()));
        make.arg(format!("{variable}={}", program.display()));
        tools::run(&mut make)?;
        let in_root = format!("--root={}", root.folder().display());
        tools::run(Command::new("systemd-sysusers").args([&in_root, users]))?;
        let manager = Manager::new(&root)?;
        Ok(Self { root, manager })
    }

    /// A path inside the installation.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path(path.trim_start_matches('/'))
    }

    /// Puts a drop-in beside the unit.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn drop_in(&self, name: &str, text: &str) -> anyhow::Result<()> {
        self.drop_in_of(UNIT, name, text)
    }

    fn drop_in_of(&self, unit: &str, name: &str, text: &str) -> anyhow::Result<()> {
        let folder = self.path(&format!("/etc/systemd/system/{unit}.d"));
        fs::create_dir_all(&folder).context("the folder of drop-ins")?;
        fs::write(folder.join(name), text).context(name.to_owned())
    }

    /// Writes the configuration.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn configure(&self, text: &str) -> anyhow::Result<()> {
        fs::write(self.path("/etc/hearth/hearth.toml"), text).context("the configuration")
    }

    /// Makes an image of `mib` MiB at this path, which belongs to the service.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn image(&self, path: &str, mib: u64) -> anyhow::Result<Image> {
        let folder = Path::new(path).parent().context("a folder")?;
        let folder = folder.to_str().context("a path in Unicode")?;
        fs::create_dir_all(self.path(folder))?;
        let image = Image::new(&self.root, path.trim_start_matches('/'), mib)?;
        self.give(folder)?;
        self.give(path)?;
        Ok(image)
    }

    /// Formats a file of `mib` MiB at this path as flash, which belongs to the service.
    ///
    /// # Errors
    ///
    /// When it cannot be formatted.
    pub fn flash(&self, path: &str, mib: u64) -> anyhow::Result<Flash> {
        let flash = Flash::format(&self.root, path.trim_start_matches('/'), mib)?;
        self.give(path)?;
        Ok(flash)
    }

    /// The service's user and group, as `systemd-sysusers` has numbered them.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn user(&self) -> anyhow::Result<(u32, u32)> {
        self.user_called("hearth")
    }

    /// The same of a user of this name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn user_called(&self, name: &str) -> anyhow::Result<(u32, u32)> {
        let users = fs::read_to_string(self.path("/etc/passwd")).context("etc/passwd")?;
        let mut lines = users.lines().map(|line| line.split(':'));
        let line = lines.find(|line| line.clone().next() == Some(name));
        let mut fields = line.with_context(|| format!("no user {name}"))?.skip(2);
        let mut number =
            || -> anyhow::Result<u32> { Ok(fields.next().context("a number")?.parse()?) };
        Ok((number()?, number()?))
    }

    /// Makes a path the service's own.
    fn give(&self, path: &str) -> anyhow::Result<()> {
        let (user, group) = self.user()?;
        chown(self.path(path), Some(user), Some(group)).context(path.to_owned())
    }

    /// Starts the daemon as the unit says; returns when it serves.
    ///
    /// # Errors
    ///
    /// When it ends, or does not serve in time.
    pub fn start(&self, lab: &Lab) -> anyhow::Result<Hearth> {
        let mut command = self.command(UNIT, "ExecStart")?;
        self.manager.equip(&mut command)?;
        let process = Process::start(lab, "hearth", &mut command)?;
        let run = self.path("/run/hearth");
        Hearth::of(process, run.join("admin.sock"), run.join("nbd.sock"))
    }

    /// Starts the resource monitor as its unit says, with a reading each so often.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_monitor(&self, lab: &Lab, every: &str) -> anyhow::Result<Process> {
        let often = format!("[Service]\nEnvironment=HEARTH_MONITOR_EVERY={every}\n");
        self.drop_in_of(MONITOR_UNIT, "often.conf", &often)?;
        let mut command = self.command(MONITOR_UNIT, "ExecStart")?;
        Process::start(lab, "monitor", &mut command)
    }

    /// Starts the agent for guests as its unit says, with these options; its log has this name.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_agent(&self, lab: &Lab, name: &str, options: &str) -> anyhow::Result<Process> {
        let start = format!("[Service]\nExecStart=\nExecStart=/usr/bin/hearth-guest {options}\n");
        self.drop_in_of(AGENT_UNIT, "options.conf", &start)?;
        let mut command = self.command(AGENT_UNIT, "ExecStart")?;
        Process::start(lab, name, &mut command)
    }

    /// Lets the agent for guests tell whom they speak with, as its operator does.
    ///
    /// # Errors
    ///
    /// When the drop-in is not installed.
    pub fn let_agent_tell_sockets(&self) -> anyhow::Result<()> {
        let shipped = self.path("/usr/share/hearth-guest/sockets.conf");
        let text = fs::read_to_string(shipped).context("the drop-in for sockets")?;
        self.drop_in_of(AGENT_UNIT, "sockets.conf", &text)
    }

    /// Runs another command of the unit to its end, with what the manager tells it.
    ///
    /// # Errors
    ///
    /// When it cannot be run, or is ended by a signal.
    pub fn run(&self, key: &str, told: &[(&str, &str)]) -> anyhow::Result<Answer> {
        let mut command = self.command(UNIT, key)?;
        command.envs(told.iter().copied());
        let (code, output) = tools::exit_code(&mut command)?;
        Ok(Answer {
            code,
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }

    /// What `systemd-analyze verify` has to say of the units.
    ///
    /// # Errors
    ///
    /// When it finds them faulty.
    pub fn verify(&self) -> anyhow::Result<()> {
        self.verify_units(&[UNIT, MONITOR_UNIT, "hearth.socket"])
    }

    /// What `systemd-analyze verify` has to say of the unit of the agent for guests.
    ///
    /// # Errors
    ///
    /// When it finds it faulty.
    pub fn verify_agent(&self) -> anyhow::Result<()> {
        self.verify_units(&[AGENT_UNIT])
    }

    fn verify_units(&self, units: &[&str]) -> anyhow::Result<()> {
        // Not the manual: where it is installed is not this folder.
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no", "--recursive-errors=no"]);
        command.arg(format!("--root={}", self.root.folder().display()));
        let output = tools::run(command.args(units))?;
        let said = format!("{}{}", output.stdout, output.stderr);
        ensure!(said.trim().is_empty(), "{said}");
        Ok(())
    }

    fn command(&self, unit: &str, key: &str) -> anyhow::Result<Command> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--uts", "--propagation=private"]);
        command.arg(hearth::built("unit-sandbox")?);
        command.arg(self.root.folder()).args([unit, key]);
        Ok(command)
    }
}

/// Checks what the kernel says of a process: the first word behind each key of its `/proc/PID/status`.
///
/// # Errors
///
/// When it has ended, or one of them differs.
pub fn has_status(process: u32, expected: &[(&str, &str)]) -> anyhow::Result<()> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    for (key, value) in expected {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let found = line.unwrap_or_default().split_whitespace().next();
        ensure!(found == Some(value), "{key} {found:?}");
    }
    Ok(())
}

/// What a system has before anything is installed. Its libraries are not here: the sandbox shows them
/// to the service.
fn system(root: &Lab) -> anyhow::Result<()> {
    fs::create_dir(root.path("etc")).context("/etc")?;
    fs::create_dir_all(root.path("usr/bin")).context("/usr/bin")?;
    for name in PROGRAMS {
        let program = format!("usr/bin/{name}");
        fs::copy(Path::new("/").join(&program), root.path(&program)).context(program)?;
    }
    for name in ["bin", "lib", "lib32", "lib64"] {
        symlink(format!("usr/{name}"), root.path(name)).context(name)?;
    }
    Ok(())
}
