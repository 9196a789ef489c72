//! Contradictions within a configuration, found without touching anything.

mod hypervisor;
mod limits;
mod link;
mod nbd_clients;
mod store;
mod telemetry;
mod vhost;
mod vms;
mod web;
mod write_back;

pub use link::MOVE_TOGETHER_MAX;
pub use vms::{too_many_tenants, vm_faults};
pub use write_back::{DIRTY_LEAST, dirty_max, room_faults, settings_faults};

use crate::fault::{Fault, absolute};
use crate::identity::disk_id;
use crate::likeness::nearest;
use crate::log_filter::check_log_filter;
use crate::model::{CacheConfig, Config, DiskConfig, NbdConfig, TlsConfig};
use crate::origins::OriginConfig;
use crate::policy::PolicyConfig;
use crate::text::Switch;
use crate::uri::NbdUriAddress;
use crate::words::{Name, TlsMode};
use policy::demand::Reuses;
use std::collections::BTreeMap;
use std::path::Path;
use units::{Bytes, Duration, SECTOR_BYTES};

/// Bytes in the longest path of a socket: the system takes 107, and a socket is first bound
/// under a longer name beside its own.
const SOCKET_PATH_BYTES_MAX: usize = 96;

/// The least memory for requests that a cache may have: a request of the largest size has to fit into
/// half of it.
pub const REQUEST_MEMORY_LEAST: Bytes = Bytes::mib(64);

/// All contradictions of a configuration. Lines are not known here.
pub fn faults(config: &Config) -> Vec<Fault> {
    let mut faults = Vec::new();
    daemon(config, &mut faults);
    nbd(&config.nbd, &mut faults);
    tls(&config.nbd, &mut faults);
    caches(&config.caches, &mut faults);
    disks(config, &mut faults);
    vms::faults(config, &mut faults);
    nbd_clients::faults(config, &mut faults);
    vhost::faults(config, &mut faults);
    link::faults(config, &mut faults);
    store::faults(config, &mut faults);
    hypervisor::faults(config, &mut faults);
    web::faults(config, &mut faults);
    telemetry::faults(config, &mut faults);
    faults
}

fn daemon(config: &Config, faults: &mut Vec<Fault>) {
    let daemon = &config.daemon;
    socket(&daemon.admin_socket, "daemon.admin_socket", faults);
    absolute(&daemon.state_dir, "daemon.state_dir", faults);
    if let Some(shared) = &daemon.owners_dir {
        absolute(shared, "daemon.owners_dir", faults);
    }
    if let Err(message) = check_log_filter(&daemon.log) {
        faults.push(Fault::new("daemon.log", message));
    }
    if config.request_memory_of_cache() < REQUEST_MEMORY_LEAST {
        let least = REQUEST_MEMORY_LEAST.get() * config.caches.len().max(1) as u64;
        let message = format!(
            "must be at least {}: {} for each cache, so that the largest request fits",
            Bytes::new(least),
            REQUEST_MEMORY_LEAST
        );
        faults.push(Fault::new("daemon.request_memory_max", message));
    }
    if daemon.stop_timeout.0 == Duration::ZERO {
        faults.push(Fault::new("daemon.stop_timeout", "must not be zero"));
    }
    if let Switch::On(socket) = &config.nbd.unix_socket.0
        && socket.0 == daemon.admin_socket
    {
        faults.push(Fault::new(
            "nbd.unix_socket",
            "is the admin socket too; give each its own path",
        ));
    }
}

fn nbd(nbd: &NbdConfig, faults: &mut Vec<Fault>) {
    if let Switch::On(socket) = &nbd.unix_socket.0 {
        self::socket(&socket.0, "nbd.unix_socket", faults);
    }
    for (key, value) in [
        ("nbd.connections_max", nbd.connections_max),
        ("nbd.connections_per_disk_max", nbd.connections_per_disk_max),
        ("nbd.requests_in_flight_max", nbd.requests_in_flight_max),
    ] {
        if value == 0 {
            faults.push(Fault::new(key, "must not be zero"));
        }
    }
    if nbd.handshake_timeout.0 == Duration::ZERO {
        faults.push(Fault::new("nbd.handshake_timeout", "must not be zero"));
    }
    if nbd.bytes_in_flight_max.0.is_zero() {
        faults.push(Fault::new("nbd.bytes_in_flight_max", "must not be zero"));
    }
}

fn tls(nbd: &NbdConfig, faults: &mut Vec<Fault>) {
    let TlsConfig {
        mode,
        certificate,
        key,
        client_authority,
        psk_file,
        unix_socket: _,
    } = &nbd.tls;
    for (name, path) in [
        ("nbd.tls.certificate", certificate),
        ("nbd.tls.key", key),
        ("nbd.tls.client_authority", client_authority),
        ("nbd.tls.psk_file", psk_file),
    ] {
        if let Some(path) = path {
            absolute(path, name, faults);
        }
    }
    let mut refuse = |key: &str, message: &str| faults.push(Fault::new(key, message));
    if certificate.is_some() != key.is_some() {
        refuse(
            "nbd.tls",
            "certificate and key are given together or not at all",
        );
    }
    if certificate.is_some() && psk_file.is_some() {
        refuse(
            "nbd.tls",
            "give either a certificate with its key or a psk_file, not both",
        );
    }
    if client_authority.is_some() && certificate.is_none() {
        refuse(
            "nbd.tls.client_authority",
            "needs a certificate and a key of the server",
        );
    }
    if *mode != TlsMode::Off && certificate.is_none() && psk_file.is_none() {
        refuse(
            "nbd.tls.mode",
            "needs a certificate with its key, or a psk_file",
        );
    }
}

fn caches(caches: &[CacheConfig], faults: &mut Vec<Fault>) {
    let mut names: BTreeMap<&Name, usize> = BTreeMap::new();
    let mut paths: BTreeMap<&Path, usize> = BTreeMap::new();
    for (at, cache) in caches.iter().enumerate() {
        if let Some(first) = names.insert(&cache.name, at) {
            faults.push(Fault::new(
                format!("cache[{at}].name"),
                format!("'{}' is the name of cache[{first}] already", cache.name),
            ));
        }
        if let Some(first) = paths.insert(&cache.path, at) {
            faults.push(Fault::new(
                format!("cache[{at}].path"),
                format!("is the flash of cache[{first}] already; two caches cannot share one"),
            ));
        }
        absolute(&cache.path, &format!("cache[{at}].path"), faults);
        for (key, zero) in [
            ("write_delay", cache.write_delay.0 == Duration::ZERO),
            ("flash_timeout", cache.flash_timeout.0 == Duration::ZERO),
            ("write_buffer", cache.write_buffer.0.is_zero()),
        ] {
            if zero {
                faults.push(Fault::new(format!("cache[{at}].{key}"), "must not be zero"));
            }
        }
        faults.extend(policy_faults(&cache.policy).into_iter().map(|fault| Fault {
            key: format!("cache[{at}].policy.{}", fault.key),
            ..fault
        }));
    }
}

/// What is wrong with a cache's policy on its own; keys are relative to it.
pub fn policy_faults(policy: &PolicyConfig) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Switch::On(rate) = policy.write_budget.0
        && vms::is_nothing(rate)
    {
        faults.push(Fault::new("write_budget", vms::NO_BUDGET));
    }
    if Reuses::new(policy.reuses.into()).is_err() {
        faults.push(Fault::new("reuses", "must be 0, 1, 2 or 3"));
    }
    if !(0.0..=1.0).contains(&policy.hysteresis) {
        faults.push(Fault::new("hysteresis", "must be between 0 and 1"));
    }
    faults
}

fn disks(config: &Config, faults: &mut Vec<Fault>) {
    let mut names: BTreeMap<&Name, usize> = BTreeMap::new();
    let mut ids = BTreeMap::new();
    for (at, disk) in config.disks.iter().enumerate() {
        let key = format!("disk[{at}]");
        let before = faults.len();
        if let Some(first) = names.insert(&disk.name, at) {
            faults.push(Fault::new(
                format!("{key}.name"),
                format!("'{}' is the name of disk[{first}] already", disk.name),
            ));
        }
        if is_own_export(config, disk) {
            faults.push(Fault::new(
                format!("{key}.origin.nbd"),
                "is Hearth's own socket; a disk cannot be its own origin",
            ));
        }
        if let Err(message) = cache_of(config, disk) {
            faults.push(Fault::new(format!("{key}.cache"), message));
        }
        faults.extend(disk_faults(disk).into_iter().map(|fault| Fault {
            key: format!("{key}.{}", fault.key),
            ..fault
        }));
        if faults.len() == before
            && let Some(first) = ids.insert(disk_id(disk), at)
        {
            faults.push(Fault::new(
                format!("{key}.id"),
                format!("is the id of disk[{first}] already; two disks cannot share one"),
            ));
        }
    }
}

/// The cache that keeps a disk warm: the one it names, or the only one there is.
///
/// # Errors
/// What to write, if that is not exactly one cache.
pub fn cache_of<'a>(config: &'a Config, disk: &DiskConfig) -> Result<&'a CacheConfig, String> {
    match (&disk.cache, config.caches.as_slice()) {
        (Some(name), caches) => caches
            .iter()
            .find(|cache| cache.name == *name)
            .ok_or_else(|| {
                let known = caches.iter().map(|c| c.name.as_str());
                format!("there is no cache '{name}'; {}", meant(name, known))
            }),
        (None, [only]) => Ok(only),
        (None, []) => Err("there is no [[cache]] section; a disk needs one".to_owned()),
        (None, _) => Err("missing; there are several caches, so name one".to_owned()),
    }
}

/// What is wrong with a disk on its own; keys are relative to it.
pub fn disk_faults(disk: &DiskConfig) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(size) = disk.size
        && (size.0.is_zero() || !size.0.is_multiple_of(SECTOR_BYTES))
    {
        let message = format!("{} is not a positive multiple of 512B", size.0);
        faults.push(Fault::new("size", message));
    }
    if disk.shared && disk.vm.is_some() {
        faults.push(Fault::new(
            "vm",
            "a shared disk is no VM's own: remove this, and name the disk in `images` of each [[vm]] that reads it",
        ));
    }
    if disk.encryption.sources() > 1 {
        faults.push(Fault::new(
            "encryption",
            "give one of key_file, key_credential and key_command",
        ));
    }
    faults.extend(nbd_clients::disk_faults(disk));
    faults.extend(vhost::disk_faults(disk));
    faults.extend(write_back::disk_faults(disk));
    faults.extend(limits::disk_faults(disk));
    faults.extend(disk.origin.faults().into_iter().map(|fault| Fault {
        key: format!("origin{}", fault.key),
        ..fault
    }));
    faults
}

/// Whether a disk's origin is the socket on which this daemon will serve it.
fn is_own_export(config: &Config, disk: &DiskConfig) -> bool {
    let OriginConfig::Nbd(origin) = &disk.origin else {
        return false;
    };
    match (&origin.nbd.0.address, config.nbd.unix_socket.0.as_ref()) {
        (NbdUriAddress::Unix(path), Some(ours)) => *path == ours.0,
        _ => false,
    }
}

/// What to write instead of a name that nothing has.
pub fn meant<'a>(name: &Name, known: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(one) = nearest(name.as_str(), known.clone()) {
        return format!("did you mean '{one}'?");
    }
    let known: Vec<&str> = known.collect();
    if known.is_empty() {
        return "there is none".to_owned();
    }
    format!("there are: {}", known.join(", "))
}

fn socket(path: &Path, key: &str, faults: &mut Vec<Fault>) {
    absolute(path, key, faults);
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        let message = format!("a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes");
        faults.push(Fault::new(key, message));
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn found(text: &str) -> Vec<(Option<usize>, String)> {
        let faults = parse(text).unwrap_err();
        faults.into_iter().map(|f| (f.line, f.key)).collect()
    }

    fn expect(text: &str, line: usize, key: &str) {
        assert_eq!(found(text), [(Some(line), key.to_owned())], "{text}");
    }

    const CACHES: &str = "[[cache]]\nname = 'a'\npath = '/a'\n[[cache]]\nname = 'b'\npath = '/b'\n";

    #[test]
    fn names_paths_and_ids_are_unique() {
        let twice = CACHES.replace("'b'", "'a'");
        expect(&twice, 5, "cache[1].name");
        let shared = CACHES.replace("'/b'", "'/a'");
        expect(&shared, 6, "cache[1].path");
        let disk = "[[disk]]\nname = 'd'\ncache = 'a'\norigin = { file = '/o' }\n";
        expect(&format!("{CACHES}{disk}{disk}"), 12, "disk[1].name");
        let id = "id = '00000000000000000000000000000001'\n";
        let other = disk.replace("'d'", "'e'");
        expect(&format!("{CACHES}{disk}{id}{other}{id}"), 16, "disk[1].id");
    }

    #[test]
    fn a_disk_names_its_cache_unless_there_is_only_one() {
        let disk = "[[disk]]\nname = 'd'\norigin = { file = '/o' }\n";
        expect(disk, 1, "disk[0].cache");
        expect(&format!("{CACHES}{disk}"), 7, "disk[0].cache");
        expect(&format!("{CACHES}{disk}cache = 'c'\n"), 10, "disk[0].cache");
        assert!(parse(&format!("[[cache]]\nname = 'a'\npath = '/a'\n{disk}")).is_ok());
    }

    #[test]
    fn an_origin_is_one_file_or_one_export() {
        let with = |origin: &str| {
            format!("{CACHES}[[disk]]\nname = 'd'\ncache = 'a'\norigin = {origin}\n")
        };
        expect(&with("{}"), 10, "disk[0].origin");
        expect(
            &with("{ file = '/o', nbd = 'nbd://h/' }"),
            10,
            "disk[0].origin",
        );
        expect(&with("{ file = 'o' }"), 10, "disk[0].origin.file");
        expect(&with("{ nbd = 'http://h/' }"), 10, "disk[0].origin.nbd");
        expect(
            &with("{ nbd = 'nbd://h/', connections = 17 }"),
            10,
            "disk[0].origin.connections",
        );
        assert!(parse(&with("{ nbd = 'nbd://h/e', connections = 2 }")).is_ok());
    }

    #[test]
    fn a_disk_is_not_its_own_origin() {
        let disk = "[[disk]]\nname = 'd'\ncache = 'a'\n\
                    origin = { nbd = 'nbd+unix:///d?socket=/run/hearth/nbd.sock' }\n";
        expect(&format!("{CACHES}{disk}"), 10, "disk[0].origin.nbd");
    }

    #[test]
    fn a_socket_has_a_path_that_the_system_takes() {
        let long = "/".repeat(97);
        expect(
            &format!("[daemon]\nadmin_socket = '{long}'\n"),
            2,
            "daemon.admin_socket",
        );
        expect("[nbd]\nunix_socket = 'nbd.sock'\n", 2, "nbd.unix_socket");
    }

    #[test]
    fn tls_needs_what_its_mode_needs() {
        expect("[nbd.tls]\nmode = 'require'\n", 2, "nbd.tls.mode");
        expect("[nbd.tls]\nkey = '/k'\n", 1, "nbd.tls");
        expect(
            "[nbd.tls]\nkey = '/k'\ncertificate = '/c'\npsk_file = '/p'\n",
            1,
            "nbd.tls",
        );
        assert!(parse("[nbd.tls]\nmode = 'require'\npsk_file = '/p'\n").is_ok());
    }

    #[test]
    fn sizes_and_filters_make_sense() {
        expect("[daemon]\nlog = 'loud=,,='\n", 2, "daemon.log");
        expect(
            "[nbd]\nbytes_in_flight_max = '0'\n",
            2,
            "nbd.bytes_in_flight_max",
        );
        let disk = "[[disk]]\nname = 'd'\ncache = 'a'\norigin = { file = '/o' }\nsize = '1000'\n";
        expect(&format!("{CACHES}{disk}"), 11, "disk[0].size");
    }
}
