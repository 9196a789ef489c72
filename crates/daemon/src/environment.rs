//! What a configuration needs from the machine, looked at without changing anything.

use super::flash_size::{FlashSize, block_storage, superblock};
use super::page_tls::PageTls;
use super::state::is_running;
use super::{origin_checks, roaming, settings, tenants};
use configuration::{
    CacheConfig, Config, DiskConfig, Fault, Switch, Text, VmConfig, cache_of, identity, room_faults,
};
use operators::OperatorsFile;
use rustix::fs::Access;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt as _};
use std::path::Path;
use units::errors::chain;

/// All that this machine lacks for a configuration: paths that are missing or cannot be
/// used, sizes that do not fit, files that two disks would write. Unless a daemon uses the state
/// directory, which then has sockets and flash already: sockets that others listen on, flash that
/// others use, origins that do not answer. Writes nothing.
pub fn environment(config: &Config) -> Vec<Fault> {
    let mut faults = Vec::new();
    let daemon = &config.daemon;
    kept(&daemon.state_dir, "daemon.state_dir", &mut faults);
    if let Some(shared) = &daemon.owners_dir {
        faults.extend(kept_on_share(shared, "daemon.owners_dir"));
    }
    socket(&daemon.admin_socket, "daemon.admin_socket", &mut faults);
    if let Switch::On(path) = &config.nbd.unix_socket.0 {
        socket(&path.0, "nbd.unix_socket", &mut faults);
    }
    if let Switch::On(made) = &config.vhost_user.directory.0 {
        // It is made if it is missing.
        let look = if made.0.exists() { directory } else { parent };
        look(&made.0, "vhost_user.directory", &mut faults);
    }
    for (at, disk) in config.disks.iter().enumerate() {
        if let Some(Text(Switch::On(path))) = &disk.vhost_user.socket {
            let key = format!("disk[{at}].vhost_user.socket");
            socket(&path.0, &key, &mut faults);
        }
        if let Some(path) = &disk.nbd.socket {
            socket(path, &format!("disk[{at}].nbd.socket"), &mut faults);
        }
    }
    let common = [
        ("daemon.admin_group", &daemon.admin_group),
        ("nbd.unix_socket_group", &config.nbd.unix_socket_group),
        ("vhost_user.socket_group", &config.vhost_user.socket_group),
    ];
    let common = common.map(|(key, group)| (key.to_owned(), group));
    let disks = config.disks.iter().enumerate();
    let own = disks.map(|(at, disk)| {
        (
            format!("disk[{at}].nbd.socket_group"),
            &disk.nbd.socket_group,
        )
    });
    for (key, group) in common.into_iter().chain(own) {
        if let Some(group) = group
            && let Err(message) = super::system::group_id(group)
        {
            faults.push(Fault::new(key, message.to_string()));
        }
    }
    tls(config, &mut faults);
    page(config, &mut faults);
    caches(config, &mut faults);
    faults.extend(origin_checks::faults(config));
    promises(config, &mut faults);
    if !is_running(&config.daemon.state_dir) {
        faults.extend(super::occupied::faults(config));
    }
    faults
}

/// Whether the daemon would not start with this fault, or not serve any disk as it did. With others some
/// disks wait until they are mended, or some promise is not kept, and all else is served.
pub fn stops_a_start(fault: &Fault) -> bool {
    let concerns = |part| fault.key.starts_with(part);
    !(concerns("disk[")
        || concerns("vm[")
        || concerns("daemon.metrics_address")
        || concerns("web."))
}

/// Certificates and keys are read and understood, not only found.
fn tls(config: &Config, faults: &mut Vec<Fault>) {
    if let Err(error) = settings::tls(&config.nbd) {
        faults.push(Fault::new("nbd.tls", chain(&error)));
    }
    let roams = config.disks.iter().any(|disk| disk.roams);
    if let (Some(name), true) = (&config.link.name, roams)
        && let Err(error) = roaming::identity(name, &config.link)
    {
        faults.push(Fault::new("link", chain(&error)));
    }
}

/// The page's certificate and operators can be used. That there are no operators yet is no fault.
fn page(config: &Config, faults: &mut Vec<Fault>) {
    let web = &config.web;
    if let Some(tls) = PageTls::of(web)
        && let Err(error) = tls.reread(true)
    {
        faults.push(Fault::new("web.tls_certificate", chain(&error)));
    }
    if let Some(path) = &web.operators
        && path.exists()
        && let Err(error) = operators_file(config, path).read()
    {
        let message = format!("{}; {}", chain(&error), error.remedy());
        faults.push(Fault::new("web.operators", message));
    }
}

/// The file of the page's operators, for a process that may be another user's than the daemon: that is whoever has its
/// state directory.
pub fn operators_file(config: &Config, path: &Path) -> OperatorsFile {
    let state = std::fs::metadata(&config.daemon.state_dir);
    let daemon = state.ok().map(|of| (of.uid(), of.gid()));
    OperatorsFile::new(path, daemon)
}

/// Each flash is there, formatted by this version, and no other cache's.
fn caches(config: &Config, faults: &mut Vec<Fault>) {
    let mut seen: Vec<((u64, u64), usize)> = Vec::new();
    for (at, cache) in config.caches.iter().enumerate() {
        let key = format!("cache[{at}].path");
        let path = &cache.path;
        let (metadata, size) = match block_storage(path) {
            Ok(found) => found,
            Err(error) => {
                let remedy = if error.kind() == io::ErrorKind::NotFound {
                    let path = path.display();
                    format!("; create it with: hearth cache format {path} --size 10GiB")
                } else {
                    String::new()
                };
                faults.push(Fault::new(
                    key,
                    format!("{}: {error}{remedy}", path.display()),
                ));
                continue;
            }
        };
        let identity = identity(&metadata);
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == identity) {
            let message = format!("is the flash of cache[{first}] already, by another path");
            faults.push(Fault::new(key.clone(), message));
        }
        seen.push((identity, at));
        match superblock(path, size) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => faults.push(Fault::new(key, error.to_string())),
            Err(error) => faults.push(Fault::new(key, error.to_string())),
        }
    }
}

/// What VMs are promised, and what may be written, goes with the flash that there is.
fn promises(config: &Config, faults: &mut Vec<Fault>) {
    faults.extend(room_faults(config, |name| {
        let cache = config.caches.iter().find(|cache| cache.name == *name)?;
        Some(FlashSize::of(&cache.path)?.device)
    }));
    let only = config.caches.len() == 1;
    let mut flashes = Vec::new();
    for (at, cache) in config.caches.iter().enumerate() {
        let Some(flash) = FlashSize::of(&cache.path) else {
            // Said already.
            continue;
        };
        let on = |vm: &VmConfig| {
            let mut own = disks_of(config, vm);
            own.any(|disk| is_on(config, disk, cache)) || (only && is_awaited(config, vm))
        };
        let vms: Vec<VmConfig> = config.vms.iter().filter(|vm| on(vm)).cloned().collect();
        if let Some(message) = tenants::floors(&cache.name, flash.capacity, &vms) {
            let first = config
                .vms
                .iter()
                .position(|vm| on(vm) && !vm.floor.0.is_zero());
            let key = format!("vm[{}].floor", first.unwrap_or(0));
            faults.push(Fault::new(key, message + &awaited(config, &vms)));
        } else if let Err(message) = tenants::refused(&cache.policy, flash, &vms) {
            faults.push(Fault::new(format!("cache[{at}].policy"), message));
        }
        flashes.push((cache, flash, vms));
    }
    // What a readable flash cannot keep, one that is not might.
    if !only && flashes.len() == config.caches.len() {
        homeless(config, &flashes, faults);
    }
}

/// The disks that are a VM's own, wherever they are kept.
fn disks_of<'a>(config: &'a Config, vm: &'a VmConfig) -> impl Iterator<Item = &'a DiskConfig> {
    let own = config.disks.iter().filter(|disk| !disk.shared);
    own.filter(|disk| disk.tenant() == &vm.name)
}

/// Whether a VM is promised something and has no disk yet: what it is promised it must be able to have.
fn is_awaited(config: &Config, vm: &VmConfig) -> bool {
    !vm.floor.0.is_zero() && disks_of(config, vm).next().is_none()
}

/// Which of these VMs count without a disk, to be said behind a sum that they are part of.
fn awaited(config: &Config, vms: &[VmConfig]) -> String {
    let awaited = vms.iter().filter(|vm| is_awaited(config, vm));
    let names: Vec<&str> = awaited.map(|vm| vm.name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        " ({} counts although it has no disk yet: its first one would be refused)",
        names.join(", ")
    )
}

/// VMs without a disk whose floor fits on none of several caches, beside the floors that are there.
fn homeless(
    config: &Config,
    flashes: &[(&CacheConfig, FlashSize, Vec<VmConfig>)],
    faults: &mut Vec<Fault>,
) {
    for (at, vm) in config.vms.iter().enumerate() {
        if !is_awaited(config, vm) {
            continue;
        }
        let refusals = flashes.iter().map(|(cache, flash, vms)| {
            let mut vms = vms.clone();
            vms.push(vm.clone());
            tenants::floors(&cache.name, flash.capacity, &vms)
        });
        if let Some(refusals) = refusals.collect::<Option<Vec<String>>>()
            && !refusals.is_empty()
        {
            let message = format!(
                "{} has no disk yet, and no cache could keep its floor: {}",
                vm.name,
                refusals.join("; ")
            );
            faults.push(Fault::new(format!("vm[{at}].floor"), message));
        }
    }
}

fn is_on(config: &Config, disk: &DiskConfig, cache: &CacheConfig) -> bool {
    cache_of(config, disk).is_ok_and(|of| of.name == cache.name)
}

/// A place for a socket: in a directory that is there, and with nothing else in it. A socket that
/// somebody has left is replaced.
fn socket(path: &Path, key: &str, faults: &mut Vec<Fault>) {
    parent(path, key, faults);
    let present = std::fs::symlink_metadata(path);
    if present.is_ok_and(|metadata| !metadata.file_type().is_socket()) {
        let message = format!(
            "{} is there and is no socket; remove it, or choose another path",
            path.display()
        );
        faults.push(Fault::new(key, message));
    }
}

fn parent(path: &Path, key: &str, faults: &mut Vec<Fault>) {
    if let Some(parent) = path.parent() {
        directory(parent, key, faults);
    }
}

/// A directory for records, on a file system that has room for them.
fn kept(path: &Path, key: &str, faults: &mut Vec<Fault>) {
    directory(path, key, faults);
    if rustix::fs::statvfs(path).is_ok_and(|system| system.f_bavail == 0) {
        let message = format!("{}: its file system is full; make room", path.display());
        faults.push(Fault::new(key, message));
    }
}

/// The same of a directory whose file system may not answer.
fn kept_on_share(path: &Path, key: &'static str) -> Vec<Fault> {
    let asked = path.to_owned();
    let looked = origin_checks::within_time(path, move || {
        let mut faults = Vec::new();
        kept(&asked, key, &mut faults);
        faults
    });
    looked.unwrap_or_else(|error| vec![Fault::new(key, chain(&error))])
}

fn directory(path: &Path, key: &str, faults: &mut Vec<Fault>) {
    let is_writable = || rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK);
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            if let Err(errno) = is_writable() {
                let error = io::Error::from(errno);
                let message = format!("{} cannot be written: {error}", path.display());
                faults.push(Fault::new(key, message));
            }
        }
        Ok(_) => faults.push(Fault::new(
            key,
            format!("{} is not a directory", path.display()),
        )),
        Err(error) => faults.push(Fault::new(
            key,
            format!(
                "{}: {error}; create it with: mkdir -p {}",
                path.display(),
                path.display()
            ),
        )),
    }
}
