//! Arguments of `hearth recover`.

use crate::cli::disks::args::parse_origin;
use at_rest::KeySource;
use clap::{Args, Subcommand, ValueHint};
use configuration::{EncryptionConfig, OriginConfig};
use std::path::PathBuf;

/// Get at writes that wait on flash for their origin, without the daemon.
#[derive(Debug, Subcommand)]
pub enum Recover {
    /// List the disks whose origins lack bytes that are on a flash
    ///
    /// For each: how much, in which period it was written, and where it stands against the owner's
    /// record: `waiting` (the next start brings it to the origin), `locked` (something is wrong with
    /// it), `void` (the origin has it, or it was given up), `elsewhere` (another cache may have newer
    /// bytes), `unrecorded` (no record says that the origin lacks it), `kept` (the disk roams and another
    /// host has it: this was kept for a move, or left by one), `leaving` (this host gives the disk away).
    List {
        /// The flash: a file or block device that no daemon uses
        #[arg(value_hint = ValueHint::FilePath)]
        flash: PathBuf,
        /// Where disks and their origins are found.
        #[command(flatten)]
        places: Places,
    },
    /// Read what waits on a flash, and compare it with its checksums
    ///
    /// Damage is exit code 5.
    Verify {
        /// The flash: a file or block device that no daemon uses
        #[arg(value_hint = ValueHint::FilePath)]
        flash: PathBuf,
        /// Only this disk: its name, or its identity
        #[arg(long, value_name = "DISK")]
        disk: Option<String>,
        /// Where disks and their origins are found.
        #[command(flatten)]
        places: Places,
    },
    /// Bring a disk's bytes to its origin, in the order in which they were written
    ///
    /// What came before a flush of the guest is durable at the origin before anything that came after
    /// it; it may be broken off and repeated. When all is there the owner's record is closed, and what
    /// is on flash is void. Refused if anything is wrong with the bytes, unless forced.
    Destage {
        /// The flash: a file or block device that no daemon uses
        #[arg(value_hint = ValueHint::FilePath)]
        flash: PathBuf,
        /// The disk: its name, or its identity
        #[arg(long, value_name = "DISK")]
        disk: String,
        /// Where disks and their origins are found.
        #[command(flatten)]
        places: Places,
        /// Where the disk's key comes from.
        #[command(flatten)]
        key: KeyArgs,
        /// Bring what is whole although something is missing: check the file system afterwards
        #[arg(long, requires = "yes_lose_data")]
        force: bool,
        /// Say that --force is meant
        #[arg(long, requires = "force")]
        yes_lose_data: bool,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Write a disk's bytes to a file, and leave flash and origin alone
    Export {
        /// The flash: a file or block device that no daemon uses
        #[arg(value_hint = ValueHint::FilePath)]
        flash: PathBuf,
        /// The disk: its name, or its identity
        #[arg(long, value_name = "DISK")]
        disk: String,
        /// Make a sparse file with only these bytes, and beside it FILE.map with their places
        #[arg(
            long,
            value_name = "FILE",
            conflicts_with = "onto",
            required_unless_present = "onto"
        )]
        to: Option<PathBuf>,
        /// Bring a copy of the origin up to date
        #[arg(long, value_name = "FILE")]
        onto: Option<PathBuf>,
        /// Where disks and their origins are found.
        #[command(flatten)]
        places: Places,
        /// Where the disk's key comes from.
        #[command(flatten)]
        key: KeyArgs,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Give up a disk's bytes that its origin lacks: they are lost
    ///
    /// The owner's record is closed in a later period, so whatever any flash has of the disk is void.
    /// That needs no flash: it is what is left to do when the flash is gone for good.
    Drop {
        /// The flash that has them, if it is there: its bytes are counted, and no daemon may use it
        #[arg(value_hint = ValueHint::FilePath)]
        flash: Option<PathBuf>,
        /// The disk: its name, or its identity
        #[arg(long, value_name = "DISK")]
        disk: String,
        /// Where disks and their origins are found.
        #[command(flatten)]
        places: Places,
        /// Say that it is meant
        #[arg(long, required_unless_present = "dry_run")]
        yes_lose_data: bool,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Where disks and their origins are found.
#[derive(Clone, Debug, Args)]
pub struct Places {
    /// The daemon's configuration: origins, state directory and the memory of a killed daemon are
    /// found by it; /etc/hearth/hearth.toml if that is there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// The disk's origin instead of the configuration's: a path or an NBD address
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin)]
    pub origin: Option<OriginConfig>,
    /// The daemon's state directory instead of the configuration's
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
}

/// Where the key of an encrypted disk comes from, instead of the configuration's place.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub struct KeyArgs {
    /// A file that has the key of an encrypted disk, instead of the configuration's place for it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,
    /// A credential of the service that is the key, by its name
    #[arg(long, value_name = "NAME")]
    pub key_credential: Option<String>,
    /// A program and its arguments; what it prints is the key
    #[arg(long, value_name = "PROGRAM", num_args = 1..)]
    pub key_command: Option<Vec<String>>,
}

impl KeyArgs {
    /// Where the key comes from, if it was said.
    pub(super) fn source(&self) -> Option<KeySource> {
        let Self {
            key_file,
            key_credential,
            key_command,
        } = self.clone();
        let named = EncryptionConfig {
            key_file,
            key_credential,
            key_command,
        };
        named.source()
    }
}
