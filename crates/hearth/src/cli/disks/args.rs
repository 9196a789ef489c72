//! Arguments of `hearth disk`.

use super::origin_keys::OriginKey;
use api::write_back::OfDirty;
use clap::{Args, Subcommand};
use configuration::{
    Auto, BytesPerSecond, ClientName, DestageOrder, FileOrigin, ISCSI_SCHEME, Iops, IscsiOrigin,
    IscsiUri, LimitsChange, Mode, Name, NbdOrigin, NbdUri, OriginConfig, PerSecond, RBD_SCHEME,
    RbdOrigin, RbdUri, SocketPath, Switch, Text, WriteBackChange, WritePolicy,
};
use std::path::{Path, PathBuf};
use units::{Bytes, DiskId, Duration};

/// List, attach and steer disks.
#[derive(Debug, Subcommand)]
pub enum Disk {
    /// List the disks
    List,
    /// Show one disk in full
    Show {
        /// The disk's name
        name: Name,
    },
    /// Attach a disk while the daemon runs
    ///
    /// The disk is remembered in the state directory and attached again after a restart, until
    /// it is detached. A disk of the configuration file that is detached comes back with the next
    /// restart.
    Attach(Box<Attach>),
    /// Detach a disk: its VM loses it; its blocks stay on flash until they are reclaimed
    ///
    /// A disk of the configuration file comes back with the next restart; take it out of the file too.
    ///
    /// Refused while its origin lacks bytes that wait on flash, unless told what becomes of them.
    ///
    /// A disk that waits is only forgotten: what the flash has of it, its owner's record and its data key
    /// stay, and --flush, --drop-dirty and --erase are refused.
    Detach(Detach),
    /// Forget the cached blocks of a disk; it stays attached and its origin is untouched
    Drop {
        /// The disk's name
        name: Name,
    },
    /// Give a disk all of its origin, which has become longer
    ///
    /// Make the origin longer first (truncate, qemu-img resize, lvextend, the storage's own command). What is
    /// cached of the disk stays, and so does what waits for its origin. A VM over vhost-user sees the new size
    /// at once; a client over NBD when it connects again. A disk that is to become shorter is detached first.
    Resize {
        /// The disk's name
        name: Name,
    },
    /// Change the settings of a disk
    ///
    /// What is not given stays as it is. The change is remembered over restarts and holds over the
    /// configuration file until it is taken back with --reset; of a disk that was attached at run time
    /// until it is detached. A change from `back` waits until the origin has everything, and ends under
    /// any load.
    Set(Box<Set>),
    /// Bring every write that was answered to the origin, durably
    ///
    /// For a disk under `back` that only begins, at full speed, unless --wait is given.
    Flush {
        /// The disk's name
        name: Name,
        /// End when the origin has everything
        #[arg(long)]
        wait: bool,
    },
    /// Make the origin consistent as of now, for a snapshot or a backup of it
    ///
    /// Ends with exit code 0 when every write that was answered before is at the origin. What is written
    /// after that reaches it in the order of the guest's flushes, so a copy of the origin is a disk that
    /// the guest could have left behind at any moment later, too. Refused for `--order unordered`.
    Barrier {
        /// The disk's name
        name: Name,
    },
}

/// Arguments of `disk detach`.
#[derive(Debug, Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[command(group = clap::ArgGroup::new("of_dirty"))]
pub struct Detach {
    /// The disk's name
    pub name: Name,
    /// Detach although clients are connected
    #[arg(long)]
    pub force: bool,
    /// Bring bytes that the origin lacks to it first
    #[arg(long, group = "of_dirty")]
    pub flush: bool,
    /// Leave bytes that the origin lacks on flash: until they are brought to it no other cache may
    /// have the disk
    #[arg(long, group = "of_dirty")]
    pub keep: bool,
    /// Lose bytes that the origin lacks, although guests were promised that they are durable
    #[arg(long, group = "of_dirty", requires = "yes_lose_data")]
    pub drop_dirty: bool,
    /// Say that --drop-dirty is meant
    #[arg(long, requires = "drop_dirty")]
    pub yes_lose_data: bool,
    /// Erase the data key of an encrypted disk: what is on flash of it can be read by nobody any
    /// more
    #[arg(long, conflicts_with = "keep")]
    pub erase: bool,
}

impl Detach {
    /// What becomes of bytes that the origin lacks.
    pub(super) fn of_dirty(&self) -> OfDirty {
        if self.flush {
            OfDirty::Flush
        } else if self.keep {
            OfDirty::Keep
        } else if self.drop_dirty {
            OfDirty::Drop
        } else {
            OfDirty::Refuse
        }
    }
}

/// Arguments of `disk set`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(
    ["write_policy", "order", "dirty_max", "age_max", "idle_after", "rate", "stall_max",
    "iops", "bytes_per_second", "burst", "reset"]))]
#[command(override_usage = "hearth disk set [OPTIONS] <NAME>")]
pub struct Set {
    /// The disk's name
    pub name: Name,
    /// What writes do from now on
    #[arg(long, value_name = "POLICY", visible_alias = "policy")]
    pub write_policy: Option<WritePolicy>,
    /// How writes reach the origin under `back`.
    #[command(flatten)]
    pub write_back: WriteBackArgs,
    /// What its guests may ask in a second.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Take back all that was set while the daemon ran: the configuration file's word holds again
    #[arg(long, conflicts_with_all = ["write_policy", "order", "dirty_max", "age_max", "idle_after", "rate", "stall_max", "iops", "bytes_per_second", "burst"])]
    pub reset: bool,
}

/// How writes reach the origin if the write policy is `back`.
#[derive(Debug, Args)]
pub struct WriteBackArgs {
    /// In which order writes reach the origin under `back`
    #[arg(long, value_name = "ORDER")]
    pub order: Option<DestageOrder>,
    /// The longest that the dirty log may be under `back`, or `auto`
    #[arg(long, value_name = "SIZE|auto")]
    pub dirty_max: Option<Auto<Bytes>>,
    /// The longest that bytes may wait for the origin under `back`
    #[arg(long, value_name = "TIME")]
    pub age_max: Option<Duration>,
    /// How long no guest must have asked for anything before bytes go to the origin under `back`
    #[arg(long, value_name = "TIME")]
    pub idle_after: Option<Duration>,
    /// The most that goes to the origin under `back`, such as 50MiB/s, or `off`
    #[arg(long, value_name = "RATE|off")]
    pub rate: Option<Switch<PerSecond>>,
    /// How long a write may wait for room under `back` before it is an error
    #[arg(long, value_name = "TIME")]
    pub stall_max: Option<Duration>,
}

impl WriteBackArgs {
    /// What they change.
    pub(super) fn change(&self) -> WriteBackChange {
        WriteBackChange {
            order: self.order,
            dirty_max: self.dirty_max.map(Text),
            age_max: self.age_max.map(Text),
            idle_after: self.idle_after.map(Text),
            rate: self.rate.clone().map(Text),
            stall_max: self.stall_max.map(Text),
        }
    }
}

/// What the guests of a disk may ask in a second, reads and writes together.
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// The most requests a second that the disk's guests are served, such as 500, or `none`
    #[arg(long, value_name = "N|none")]
    pub iops: Option<Iops>,
    /// The most bytes a second that the disk's guests read and write, such as 50MiB, or `none`
    #[arg(long, value_name = "SIZE|none")]
    pub bytes_per_second: Option<BytesPerSecond>,
    /// How long a disk that was idle may exceed its limits, as time at its limits, such as 2s
    #[arg(long, value_name = "TIME")]
    pub burst: Option<Duration>,
}

impl LimitArgs {
    /// What they change.
    pub(super) fn change(&self) -> LimitsChange {
        LimitsChange {
            iops: self.iops.map(Text),
            bytes_per_second: self.bytes_per_second.map(Text),
            burst: self.burst.map(Text),
        }
    }
}

/// Arguments of `disk attach`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("of_a_new_disk").multiple(true).requires("origin").args([
    "vm", "cache", "write_policy", "order", "dirty_max", "age_max", "idle_after", "rate", "stall_max", "iops", "bytes_per_second", "burst", "read_only", "shared",
    "size", "id", "origin_keys", "raw", "connections", "request_timeout", "nbd_socket", "nbd_clients", "vhost_socket", "sector_size", "serial"]))]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Attach {
    /// The disk's name, which is its NBD export name
    pub name: Name,
    /// Where its bytes live: a path, `nbd://host:port/export`, `nbd+unix:///export?socket=/path`, `nbds://host/export`,
    /// `rbd:pool/image` or `iscsi://portal/target/unit`
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin, required_unless_present = "without_store")]
    pub origin: Option<OriginConfig>,
    /// Say that no other host has the disk, while the store of the cluster does not answer
    ///
    /// For a disk on an NBD export or a device that this host did not have last; alone, for a disk of the configuration that
    /// waits. What is cached of it does not count, its writes go through until the store answers, and so long it cannot be
    /// detached. If another host does have it, both write it.
    #[arg(long)]
    pub without_store: bool,
    /// Whose disk it is; its own name if not given
    #[arg(long, value_name = "NAME")]
    pub vm: Option<Name>,
    /// Which cache keeps it warm; needed if there are several
    #[arg(long, value_name = "NAME")]
    pub cache: Option<Name>,
    /// What writes do
    #[arg(long, value_name = "POLICY", default_value_t)]
    pub write_policy: WritePolicy,
    /// How writes reach the origin under `back`.
    #[command(flatten)]
    pub write_back: WriteBackArgs,
    /// What its guests may ask in a second.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
    /// A base image: never written, read by several VMs, cached once for all of them
    ///
    /// Each VM attaches to it as NAME@VM, if its settings name it: hearth vm set VM --image NAME.
    #[arg(long, conflicts_with_all = ["vm", "read_only", "write_policy"])]
    pub shared: bool,
    /// The size that the origin must have
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Its identity instead of one made of name and origin: 32 hexadecimal digits, or a UUID
    #[arg(long, value_name = "ID")]
    pub id: Option<DiskId>,
    /// A key of the origin as the configuration has it, such as `chap_user=web`; repeat it for more
    ///
    /// By these it is told of certificates and keys of NBD over TLS (`tls_authority`, `tls_psk_file`, ...) and of names and
    /// secrets of iSCSI (`chap_user`, `chap_secret_file`, ...). hearth.toml(5) has all of each kind.
    #[arg(long = "origin-key", value_name = "KEY=VALUE")]
    pub origin_keys: Vec<OriginKey>,
    /// Take a file for the disk's bytes although it begins like an image of another format
    #[arg(long)]
    pub raw: bool,
    /// Connections to an NBD origin
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub connections: Option<u8>,
    /// How long a request of the origin may take before it fails, such as `30s`; a minute if not given
    #[arg(long, value_name = "TIME", value_parser = parse_positive)]
    pub request_timeout: Option<Duration>,
    /// An NBD socket of its own, where who can connect may open this disk and no other
    #[arg(long, value_name = "PATH", value_parser = parse_path, conflicts_with = "shared")]
    pub nbd_socket: Option<PathBuf>,
    /// That socket's permissions in octal, instead of `nbd.unix_socket_mode`
    #[arg(long, value_name = "MODE", requires = "nbd_socket")]
    pub nbd_socket_mode: Option<Mode>,
    /// The group that owns it, instead of `nbd.unix_socket_group`
    #[arg(long, value_name = "GROUP", requires = "nbd_socket")]
    pub nbd_socket_group: Option<String>,
    /// Who may open it on the server's sockets, instead of `nbd.clients`: `cert:NAME` or `psk:NAME`;
    /// repeat it for more
    #[arg(long = "nbd-client", value_name = "CLIENT")]
    pub nbd_clients: Vec<ClientName>,
    /// Its vhost-user socket instead of one by its name in `vhost_user.directory`; `off` for none
    #[arg(long, value_name = "PATH", value_parser = parse_vhost_socket)]
    pub vhost_socket: Option<Switch<SocketPath>>,
    /// The smallest unit that a guest is offered over vhost-user: 512B or 4KiB
    #[arg(long, value_name = "SIZE", default_value = "512B")]
    pub sector_size: Bytes,
    /// The serial number that a guest sees over vhost-user; its name if not given
    #[arg(long, value_name = "TEXT")]
    pub serial: Option<String>,
}

fn parse_vhost_socket(text: &str) -> Result<Switch<SocketPath>, String> {
    let socket = text.parse().unwrap_or_else(|never| match never {});
    match socket {
        Switch::Off => Ok(Switch::Off),
        Switch::On(SocketPath(path)) => absolute(&path).map(|path| Switch::On(SocketPath(path))),
    }
}

fn parse_positive(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Duration::ZERO) => Err("a request needs time".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}")),
    }
}

fn parse_path(text: &str) -> Result<PathBuf, String> {
    absolute(Path::new(text))
}

/// The daemon has another working directory, so paths are made absolute here.
fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| error.to_string())
}

pub(in crate::cli) fn parse_origin(text: &str) -> Result<OriginConfig, String> {
    if text.starts_with("nbd") && text.contains("://") {
        let uri: NbdUri = text.parse().map_err(|error| format!("{error}"))?;
        return Ok(NbdOrigin::new(uri).into());
    }
    if text.starts_with(RBD_SCHEME) {
        let uri: RbdUri = text.parse().map_err(|error| format!("{error}"))?;
        return Ok(RbdOrigin::new(uri).into());
    }
    if text.starts_with(ISCSI_SCHEME) {
        let uri: IscsiUri = text.parse().map_err(|error| format!("{error}"))?;
        return Ok(IscsiOrigin::new(uri).into());
    }
    if let Some((scheme, _)) = text.split_once("://")
        && scheme != "file"
    {
        return Err(format!(
            "an origin at {scheme}:// cannot be used: write a path, nbd://host:port/export, nbd+unix:///export?socket=/path, rbd:pool/image or iscsi://portal/target/unit; nbdkit and qemu-nbd offer other storage over NBD"
        ));
    }
    let path = text
        .strip_prefix("file://")
        .or_else(|| text.strip_prefix("file:"));
    let path = PathBuf::from(path.unwrap_or(text));
    // The daemon has another working directory, so the path is made absolute here.
    match std::path::absolute(&path) {
        Ok(path) => Ok(FileOrigin::new(path).into()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use clap::Parser;

    #[test]
    fn an_origin_is_a_path_or_an_nbd_address() {
        let file: OriginConfig = FileOrigin::new("/o".into()).into();
        assert_eq!(parse_origin("/o"), Ok(file.clone()));
        assert_eq!(parse_origin("file:/o"), Ok(file.clone()));
        assert_eq!(
            parse_origin("nbd://H/e"),
            Ok(NbdOrigin::new("nbd://h:10809/e".parse().unwrap()).into())
        );
        assert_eq!(parse_origin("file:///o"), Ok(file));
        assert!(parse_origin("nbd://").is_err());
        let image = RbdOrigin::new("rbd:pool/image".parse().unwrap());
        assert_eq!(parse_origin("rbd:pool/image"), Ok(image.into()));
        let unit = "iscsi://store/iqn.2026-01.org.example:vms/1";
        let of_unit = IscsiOrigin::new(unit.parse().unwrap());
        assert_eq!(parse_origin(unit), Ok(of_unit.into()));
        for wrong in ["rbd://pool/image", "rbd:image", "iscsi://store"] {
            assert!(parse_origin(wrong).is_err(), "{wrong}");
        }
        for text in [
            "http://host/image.raw",
            "sheepdog://pool/image",
            "https://host/x",
        ] {
            let error = parse_origin(text).unwrap_err();
            assert!(error.contains("nbd://host:port/export"), "{error}");
        }
    }

    #[test]
    fn dirty_bytes_are_lost_only_by_a_word_of_its_own() {
        let parse = |words: &str| {
            let words = format!("hearth disk detach d {words}");
            Cli::try_parse_from(words.split_whitespace())
        };
        assert!(parse("").is_ok());
        assert!(parse("--flush").is_ok());
        assert!(parse("--drop-dirty --yes-lose-data").is_ok());
        for words in ["--drop-dirty", "--yes-lose-data", "--keep --flush"] {
            assert!(parse(words).is_err(), "{words}");
        }
    }

    #[test]
    fn settings_are_of_a_disk_that_is_new() {
        let parse = |words: &str| {
            let words = format!("hearth disk attach d {words}");
            Cli::try_parse_from(words.split_whitespace())
        };
        assert!(parse("--origin /o").is_ok());
        assert!(parse("--origin nbd://h/e --without-store --size 1GiB --rate off").is_ok());
        assert!(parse("--without-store").is_ok());
        let others = [
            "",
            "--without-store --size 1GiB",
            "--without-store --rate off",
        ];
        for words in others {
            assert!(parse(words).is_err(), "{words}");
        }
    }

    #[test]
    fn a_change_says_what_it_changes() {
        let parse = |words: &str| {
            let words = format!("hearth disk set d {words}");
            Cli::try_parse_from(words.split_whitespace())
        };
        assert!(parse("").is_err());
        assert!(parse("--policy back --dirty-max 2GiB --rate off").is_ok());
        assert!(parse("--reset --rate off").is_err());
        assert!(parse("--rate 50MiB").is_err());
        assert!(parse("--iops 500 --bytes-per-second none --burst 2s").is_ok());
        for words in [
            "--iops 0",
            "--bytes-per-second 50MiB/s",
            "--reset --burst 2s",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
