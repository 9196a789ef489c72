//! The file system as the service sees it: a root folder into which the package was installed, the
//! system's libraries, and nothing else.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::confinement::{Confinement, OF_MOUNTS};
use super::enter::Identity;
use crate::tools;

/// The devices that `DevicePolicy=closed` lets through.
const PSEUDO_DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Where distributions have what programs need to start.
const SYSTEM: [&str; 4] = ["usr/lib", "usr/lib32", "usr/lib64", "sys"];

/// Mounts everything; afterwards `root` can be changed to. The package's files under `/usr/lib` are
/// hidden behind the system's from then on.
///
/// # Errors
///
/// When the system refuses, or the unit leaves out what every service should have.
pub(super) fn mount_all(
    root: &Path,
    asked: &Confinement,
    identity: &Identity,
) -> anyhow::Result<()> {
    // With none of these the sandbox would be stricter than the unit.
    for switch in OF_MOUNTS {
        ensure!(
            asked.has(switch),
            "the unit has no {switch:?}; the sandbox always has"
        );
    }
    bind(root, root)?;
    let mut read_only = system(root)?;
    own_folders(root, asked, identity)?;
    let own = asked.folders.iter().map(|folder| &folder.path);
    for path in own.chain(&asked.writable) {
        let path = inside(root, path);
        // On a mount of its own it stays writable.
        bind(&path, &path)?;
    }
    devices(root, asked)?;
    for (folder, kind, options) in [
        ("tmp", "tmpfs", "nosuid,mode=1777".to_owned()),
        (
            "proc",
            "proc",
            [&["nosuid"][..], &asked.proc_options].concat().join(","),
        ),
    ] {
        let path = inside(root, folder);
        fs::create_dir_all(&path)?;
        mount(&["-t", kind, "-o", &options, kind], &path)?;
    }
    // Of /proc and /sys a service may read the tunables and not set them.
    let tunables = inside(root, "proc/sys");
    if tunables.exists() {
        bind(&tunables, &tunables)?;
        read_only.push(tunables);
    }
    read_only.push(root.to_path_buf());
    for path in read_only {
        mount(&["-o", "remount,bind,ro"], &path)?;
    }
    Ok(())
}

/// Of a service that sees the machine's own file system, its folders: they lie below `root`, and the machine's hold nothing
/// of the test.
///
/// # Errors
///
/// When the system refuses, or it has folders elsewhere than below `/var/lib`.
pub(super) fn mount_own(
    root: &Path,
    asked: &Confinement,
    identity: &Identity,
) -> anyhow::Result<()> {
    const STATE: &str = "/var/lib";
    let are_state = asked.folders.iter().all(|own| own.path.starts_with(STATE));
    ensure!(are_state, "a folder that is not below {STATE}");
    own_folders(root, asked, identity)?;
    bind(&inside(root, STATE), Path::new(STATE))
}

fn own_folders(root: &Path, asked: &Confinement, identity: &Identity) -> anyhow::Result<()> {
    for folder in &asked.folders {
        let path = inside(root, &folder.path);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(folder.mode))?;
        chown(&path, Some(identity.user), Some(identity.group))?;
    }
    Ok(())
}

/// The system's libraries. Gives what has been mounted.
fn system(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut mounted = Vec::new();
    for name in SYSTEM {
        let source = Path::new("/").join(name);
        if !source.is_dir() {
            continue;
        }
        let target = inside(root, name);
        fs::create_dir_all(&target)?;
        bind(&source, &target)?;
        mounted.push(target);
    }
    Ok(mounted)
}

fn devices(root: &Path, asked: &Confinement) -> anyhow::Result<()> {
    let folder = inside(root, "dev");
    fs::create_dir_all(&folder)?;
    mount(&["-t", "tmpfs", "-o", "nosuid,mode=755", "tmpfs"], &folder)?;
    let pseudo = PSEUDO_DEVICES.map(|name| format!("/dev/{name}"));
    for device in pseudo.iter().chain(&asked.devices) {
        if Path::new(device).exists() {
            let target = inside(root, device);
            File::create(&target)?;
            bind(Path::new(device), &target)?;
        }
    }
    Ok(())
}

fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn bind(source: &Path, target: &Path) -> anyhow::Result<()> {
    let source = source.to_str().context("a path in Unicode")?;
    mount(&["--rbind", source], target)
}

fn mount(words: &[&str], target: &Path) -> anyhow::Result<()> {
    tools::run(Command::new("mount").args(words).arg(target)).map(drop)
}
