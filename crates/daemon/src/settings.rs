//! From the configuration's words to those of the crates below.

use super::flash_size::FlashSize;
use super::initiator;
use super::tenants;
use at_rest::DataKey;
use cache::Tenure;
use configuration::{
    Auto, CacheConfig, Config, DiskConfig, IscsiOrigin, NbdConfig, NbdOrigin, NbdUri,
    NbdUriAddress, OriginConfig, OriginFormat, PolicyConfig, REQUEST_MEMORY_LEAST, RbdOrigin,
    RbdUri, ReclaimPolicy, TlsMode, VhostUserConfig, disk_id,
};
use frontend::budget::MemoryBudget;
use frontend::limits::ConnectionLimits;
use nbd_server::limits::ServerLimits;
use nbd_server::{Tls, TlsError, TlsOffer};
use origin::{
    Chap, FileSpec, ImageFormat, IscsiSpec, NbdAddress, NbdSpec, Opened, OriginSpec, RbdSpec,
    TlsSpec,
};
use policy::reclaim::Kind;
use shard::{DiskSpec, Owner, OwnerFile, ShardConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Bytes, Duration};
use vhost_user::MappingLimits;

// The configuration's check refuses what the budget would panic at.
const _: () = assert!(REQUEST_MEMORY_LEAST.get() == MemoryBudget::LEAST.get());

/// Where retained memory is kept.
pub fn runtime_dir(config: &Config) -> &Path {
    let parent = config.daemon.admin_socket.parent();
    parent.unwrap_or(&config.daemon.state_dir)
}

/// What holds for every cache of a daemon.
pub(super) struct Common<'a> {
    pub(super) nbd: &'a NbdConfig,
    /// A cache's part of the memory for requests.
    pub(super) request_memory: Bytes,
    pub(super) state_dir: &'a Path,
    pub(super) runtime_dir: &'a Path,
    /// How long a read waits for the host that lends its blocks.
    pub(super) lend_timeout: Duration,
}

pub(super) fn shard(
    cache: &CacheConfig,
    policy: &PolicyConfig,
    common: &Common<'_>,
) -> ShardConfig {
    let nbd = common.nbd;
    let flash = FlashSize::of(&cache.path);
    // Without flash nothing is let in anyway; what cannot be set is told by the configuration's check.
    let tenancy = flash.and_then(|flash| tenants::settings(policy, flash).ok().flatten());
    ShardConfig {
        name: cache.name.to_string(),
        flash: cache.path.clone(),
        state_dir: common.state_dir.to_owned(),
        runtime_dir: common.runtime_dir.to_owned(),
        cache: cache::Config {
            write_delay: cache.write_delay.0,
            trust_delay: cache.trust_delay.0,
            flash_timeout: cache.flash_timeout.0,
            write_buffer: cache.write_buffer.0,
            reclaim: match cache.reclaim {
                ReclaimPolicy::TwinClock => Kind::TwinClock,
                ReclaimPolicy::Clock => Kind::Clock,
                ReclaimPolicy::Fifo => Kind::Fifo,
            },
            tenancy,
            allocate_writes: cache.allocate_writes,
            ..cache::Config::default()
        },
        connection: ConnectionLimits {
            requests: count(nbd.requests_in_flight_max),
            bytes: nbd.bytes_in_flight_max.0,
        },
        request_memory: common.request_memory,
        // Over the sockets that all disks share, and as many over its own.
        connections_per_disk_max: count(nbd.connections_per_disk_max).saturating_mul(2),
        lend_timeout: common.lend_timeout,
    }
}

/// What may be mapped of guests' memory: unless it is said, what the host has for one VM.
pub(super) fn guest_memory(config: &VhostUserConfig) -> MappingLimits {
    let of_vm = match config.memory_per_vm_max.0 {
        Auto::Fixed(bytes) => bytes,
        Auto::Auto => crate::system::memory().unwrap_or(MAPPED_MAX),
    };
    let of_all = match config.memory_max.0 {
        Auto::Fixed(bytes) => bytes,
        Auto::Auto => Bytes::new(of_vm.get().saturating_mul(MAPPED_TIMES)).min(MAPPED_MAX),
    };
    MappingLimits::new(of_vm, of_all)
}

/// Half of the addresses that a process has.
const MAPPED_MAX: Bytes = Bytes::gib(64 << 10);

/// How often a host's memory may be mapped: a VM has a connection for each of its disks, and each maps
/// all of the VM's memory.
const MAPPED_TIMES: u64 = 64;

pub(super) fn server(nbd: &NbdConfig) -> ServerLimits {
    ServerLimits {
        connections: count(nbd.connections_max),
        connections_per_export: count(nbd.connections_per_disk_max),
        handshake: nbd.handshake_timeout.0,
    }
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A disk whose owner's record was found to say this, with so much for its dirty log.
pub(super) fn disk(
    disk: &DiskConfig,
    owner: OwnerFile,
    found: Option<&Owner>,
    key: Option<Arc<DataKey>>,
    dirty_max: Bytes,
) -> DiskSpec {
    DiskSpec {
        name: disk.name.to_string(),
        id: disk_id(disk),
        size: disk.size.map(|size| size.0),
        policy: disk.write_policy.into(),
        write_back: disk.write_back.settings(dirty_max),
        limits: disk.limits.settings(),
        owner,
        owned_by: found.map(|owner| owner.record),
        read_only: disk.is_only_read(),
        tenant: disk.tenant().to_string(),
        shared: disk.shared,
        key,
        tenure: Tenure::Owner,
    }
}

/// The origin, if its size is a whole number of the sectors that guests are offered.
pub(super) fn fits(disk: &DiskConfig, opened: Opened) -> Result<Opened, String> {
    let (size, sector) = (opened.geometry().size, disk.vhost_user.sector());
    if size.is_multiple_of(u64::from(sector)) {
        return Ok(opened);
    }
    Err(format!(
        "it has {size}, which is no whole number of sectors of 4KiB: write vhost_user.sector_size = \"512B\""
    ))
}

/// The file that is an image which must not be served as it lies, and its format. One that Hearth has written before is the
/// disk's own bytes: a guest can write there what it likes, and must not lose its disk by it.
pub(super) fn other_format<'a>(
    disk: &'a DiskConfig,
    opened: &Opened,
    was_served: bool,
) -> Option<(&'a Path, ImageFormat)> {
    let OriginConfig::File(origin) = &disk.origin else {
        return None;
    };
    let is_meant = origin.format == OriginFormat::Raw;
    let format = opened.image_format()?;
    (!is_meant && !was_served).then_some((&origin.file, format))
}

/// What is opened as a disk's origin.
pub fn origin(origin: &OriginConfig) -> OriginSpec {
    match origin {
        OriginConfig::File(origin) => OriginSpec::File(FileSpec {
            path: origin.file.clone(),
            direct: origin.direct,
            request_timeout: origin.request_timeout.0,
        }),
        OriginConfig::Nbd(origin) => OriginSpec::Nbd(nbd_origin(origin)),
        OriginConfig::Rbd(origin) => OriginSpec::Rbd(rbd_origin(origin)),
        OriginConfig::Iscsi(origin) => OriginSpec::Iscsi(iscsi_origin(origin)),
    }
}

fn iscsi_origin(origin: &IscsiOrigin) -> IscsiSpec {
    let uri = &origin.iscsi.0;
    let chap = |user: &Option<String>, file: &Option<PathBuf>| {
        let (user, secret_file) = (user.clone()?, file.clone()?);
        Some(Chap { user, secret_file })
    };
    IscsiSpec {
        name: uri.to_string(),
        portal: uri.portal(),
        target: uri.target.clone(),
        unit: uri.unit,
        initiator: origin.initiator.clone().unwrap_or_else(initiator::name),
        chap: chap(&origin.chap_user, &origin.chap_secret_file),
        target_chap: chap(&origin.target_chap_user, &origin.target_chap_secret_file),
        connect_timeout: origin.connect_timeout.0,
        reconnect_pause_max: origin.reconnect_pause_max.0,
        request_timeout: origin.request_timeout.0,
    }
}

fn rbd_origin(origin: &RbdOrigin) -> RbdSpec {
    let RbdUri {
        pool,
        namespace,
        image,
        snapshot,
        conf,
        user,
    } = origin.rbd.0.clone();
    RbdSpec {
        name: origin.rbd.0.to_string(),
        conf,
        user,
        pool,
        namespace,
        image,
        snapshot,
        connect_timeout: origin.connect_timeout.0,
        request_timeout: origin.request_timeout.0,
    }
}

fn nbd_origin(origin: &NbdOrigin) -> NbdSpec {
    let NbdUri {
        tls,
        address,
        export,
    } = origin.nbd.0.clone();
    NbdSpec {
        address: match address {
            NbdUriAddress::Unix(path) => NbdAddress::Unix(path),
            NbdUriAddress::Tcp { host, port } => NbdAddress::Tcp { host, port },
        },
        export,
        connections: origin.connections,
        connect_timeout: origin.connect_timeout.0,
        reconnect_pause_max: origin.reconnect_pause_max.0,
        request_timeout: origin.request_timeout.0,
        settle_time: origin.settle_time.0,
        tls: tls.then(|| tls_of(origin)),
    }
}

fn tls_of(origin: &NbdOrigin) -> TlsSpec {
    let key = (&origin.tls_psk_name, &origin.tls_psk_file);
    if let (Some(name), Some(file)) = key {
        let (name, file) = (name.clone(), file.clone());
        return TlsSpec::Key { name, file };
    }
    let own = origin.tls_certificate.clone();
    TlsSpec::Certificates {
        authority: origin.tls_authority.clone(),
        own: own.zip(origin.tls_key.clone()),
        server_name: origin.tls_server_name.clone(),
    }
}

/// What the TCP listener, and the unix one if it is to, offers.
pub(crate) fn tls(nbd: &NbdConfig) -> Result<TlsOffer, TlsError> {
    let config = &nbd.tls;
    if config.mode == TlsMode::Off {
        return Ok(TlsOffer::Off);
    }
    let tls = match (&config.certificate, &config.key, &config.psk_file) {
        (Some(certificate), Some(key), _) => {
            Tls::certificates(certificate, key, config.client_authority.as_deref())?
        }
        (_, _, Some(keys)) => Tls::keys(keys)?,
        // The configuration's check asks for one of them.
        (_, _, None) => return Ok(TlsOffer::Off),
    };
    Ok(if config.mode == TlsMode::Require {
        TlsOffer::Require(tls)
    } else {
        TlsOffer::Allow(tls)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use configuration::WritePolicy;

    #[test]
    fn defaults_are_those_of_the_crates_below() {
        let cache = CacheConfig::new("c".parse().unwrap(), "/c".into());
        let policy = PolicyConfig::default();
        let common = Common {
            nbd: &NbdConfig::default(),
            request_memory: Bytes::gib(1),
            state_dir: Path::new("/s"),
            runtime_dir: Path::new("/r"),
            lend_timeout: configuration::LinkConfig::default().lend_timeout.0,
        };
        let mapping = guest_memory(&VhostUserConfig::default());
        assert!(mapping.of_all() >= mapping.of_client());
        let shard = shard(&cache, &policy, &common);
        assert_eq!(shard.lend_timeout, borrowing::LOAN_TIME_MAX);
        assert_eq!(shard.cache, cache::Config::default());
        assert_eq!(shard.connection, ConnectionLimits::default());
        assert_eq!(server(&NbdConfig::default()), ServerLimits::default());
        assert_eq!(
            cache::WritePolicy::from(WritePolicy::default()),
            cache::WritePolicy::default()
        );
    }
}
