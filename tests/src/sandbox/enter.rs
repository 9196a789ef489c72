//! Becoming what a unit makes of a process.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, chdir, chroot, getrlimit, setrlimit, umask};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::confinement::{Confinement, Switch};
use super::{filters, mounts};
use crate::unit::Unit;

/// What the manager of services tells a service.
const OF_THE_MANAGER: [&str; 5] = [
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "SERVICE_RESULT",
    "EXIT_CODE",
    "EXIT_STATUS",
];

/// As whom the service runs.
pub(super) struct Identity {
    pub(super) user: u32,
    pub(super) group: u32,
    /// Groups of which the user is a member.
    others: Vec<u32>,
}

/// Becomes the command under `key` (such as `ExecStart`) of the unit `name` that was installed into
/// `root`, with its drop-ins. To be called in a mount and a UTS namespace of our own, by root.
/// Returns only if that fails.
///
/// # Errors
///
/// What went wrong.
pub fn enter(root: &Path, name: &str, key: &str) -> anyhow::Result<()> {
    let drop_ins = root.join(format!("etc/systemd/system/{name}.d"));
    let unit = Unit::read(&root.join("usr/lib/systemd/system").join(name), &drop_ins)?;
    let asked = Confinement::of(&unit)?;
    let words = unit.command(key)?;
    let (program, arguments) = words.split_first().context("an empty command")?;
    let identity = Identity::of(&asked, root)?;
    let filters = filters::filters(&asked)?;
    let notify_socket = notify_socket(root)?;

    let program = if asked.sees_the_system() {
        mounts::mount_own(root, &asked, &identity)?;
        root.join(program.trim_start_matches('/'))
    } else {
        mounts::mount_all(root, &asked, &identity)?;
        chroot(root).context("chroot")?;
        PathBuf::from(program)
    };
    chdir("/").context("chdir")?;
    limit(&asked)?;
    identity.assume(&asked)?;
    set_no_new_privs(asked.has(Switch::NoNewPrivileges))?;
    for filter in &filters {
        seccompiler::apply_filter(filter).context("a filter of system calls")?;
    }

    let mut command = Command::new(&program);
    command.args(arguments).env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin");
    let told = OF_THE_MANAGER.iter();
    command.envs(told.filter_map(|name| Some((name, std::env::var_os(name)?))));
    if let Some(path) = notify_socket {
        command.env("NOTIFY_SOCKET", path);
    }
    command.envs(asked.environment);
    let folders = asked.folders.into_iter();
    command.envs(folders.map(|folder| (folder.variable, folder.path)));
    Err(command.exec()).context(program.display().to_string())
}

/// The manager's socket as it is called below `root`; anybody may send there, as systemd lets
/// services.
fn notify_socket(root: &Path) -> anyhow::Result<Option<OsString>> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").map(PathBuf::from) else {
        return Ok(None);
    };
    fs::set_permissions(&path, Permissions::from_mode(0o777)).context("the manager's socket")?;
    let below = path
        .strip_prefix(root)
        .context("a manager outside the root folder")?;
    Ok(Some(Path::new("/").join(below).into_os_string()))
}

fn limit(asked: &Confinement) -> anyhow::Result<()> {
    if let Some(mask) = asked.umask {
        umask(Mode::from_raw_mode(mask));
    }
    if asked.files_max.is_some() {
        raise(Resource::Nofile, asked.files_max).context("LimitNOFILE")?;
    }
    if asked.locked_memory_is_unlimited {
        raise(Resource::Memlock, None).context("LimitMEMLOCK")?;
    }
    Ok(())
}

/// Sets a limit, or one as near as this machine lets its root come: in a container that may be less.
fn raise(resource: Resource, limit: Option<u64>) -> rustix::io::Result<()> {
    let both = |limit| Rlimit {
        current: limit,
        maximum: limit,
    };
    match setrlimit(resource, both(limit)) {
        Err(Errno::PERM) => setrlimit(resource, both(getrlimit(resource).maximum)),
        done => done,
    }
}

impl Identity {
    fn of(asked: &Confinement, root: &Path) -> anyhow::Result<Self> {
        let users = fs::read_to_string(root.join("etc/passwd")).context("etc/passwd")?;
        let groups = fs::read_to_string(root.join("etc/group")).context("etc/group")?;
        let user = number(&users, &asked.user)?;
        ensure!(user != 0, "the service would run as root");
        let lines = groups
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>());
        let is_member = |fields: &Vec<&str>| {
            let members = fields.get(3).copied().unwrap_or_default();
            members.split(',').any(|member| member == asked.user)
        };
        let others = lines
            .filter(is_member)
            .filter_map(|fields| fields.get(2)?.parse().ok());
        Ok(Self {
            user,
            group: number(&groups, &asked.group)?,
            others: others.collect(),
        })
    }

    /// Becomes the service's user, with the capabilities that it begins with.
    fn assume(&self, asked: &Confinement) -> anyhow::Result<()> {
        for bit in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << bit);
            if asked.may_have(capability) {
                continue;
            }
            // The kernel knows fewer than there are bits.
            if remove_capability_from_bounding_set(capability).is_err() {
                break;
            }
        }
        let groups = std::iter::once(&self.group).chain(&self.others);
        let groups: Vec<Gid> = groups.copied().map(Gid::from_raw).collect();
        set_thread_groups(&groups).context("groups")?;
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        set_thread_res_gid(group, group, group).context("group")?;
        // They would go with the user.
        set_keep_capabilities(true)?;
        set_thread_res_uid(user, user, user).context("user")?;
        let ambient = asked.begins_with();
        let sets = CapabilitySets {
            effective: ambient,
            permitted: ambient,
            inheritable: ambient,
        };
        set_capabilities(None, sets).context("capabilities")?;
        for capability in ambient.iter() {
            configure_capability_in_ambient_set(capability, true).context("AmbientCapabilities")?;
        }
        Ok(())
    }
}

/// The number of a name in `/etc/passwd` or `/etc/group`.
fn number(table: &str, name: &str) -> anyhow::Result<u32> {
    let lines = table
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let mut numbers = lines
        .filter(|fields| fields.first() == Some(&name))
        .filter_map(|fields| fields.get(2)?.parse().ok());
    numbers
        .next()
        .with_context(|| format!("there is no {name:?}"))
}
