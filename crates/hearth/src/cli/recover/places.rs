//! Where a disk's origin and its owner's record are, from the configuration and the command line.

use super::args::Places;
use super::explain;
use crate::offline::recover::{LeftMemory, Standing};
use crate::terminal::exit::{CliError, Exit};
use ::cache::LogReport;
use at_rest::{KeySource, KeyStore};
use configuration::{CONFIG_DEFAULT, Config, DiskConfig, OriginConfig, disk_id};
use daemon::{NoDaemon, StateError};
use device::uring::{FlashFile, OpenError};
use origin::{Identity, Keeping, KeepsNone, OriginSpec};
use shard::{Folders, Owner, OwnerError, OwnerFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::DiskId;

/// What makes room for a command that works without the daemon.
pub(super) const STOP_THE_DAEMON: &str =
    "stop the daemon that uses it: systemctl stop hearth.socket hearth.service";
/// Who the record says has closed it.
const WRITER: &str = "hearth recover";

/// What is known of disks beside the flash. No daemon uses the state directory meanwhile: what it
/// would read and write there, and at origins that cannot be locked, is this command's.
pub(super) struct Known {
    config: Option<Config>,
    /// Those of the configuration and those that were attached at run time.
    disks: Vec<DiskConfig>,
    origin: Option<OriginConfig>,
    state_dir: PathBuf,
    _no_daemon: NoDaemon,
}

/// Where a disk is, and who had it last.
pub(super) struct Place {
    pub(super) origin: OriginSpec,
    pub(super) owner: OwnerFile,
    pub(super) found: Option<Owner>,
    /// Which file the origin is, if it was opened.
    identity: Option<Identity>,
    /// What this host is called on the link, if the configuration says so.
    here: Option<String>,
    /// Whether this host has decided to give the disk away, and the record does not name the other one yet.
    is_leaving: bool,
}

impl Place {
    /// The origin was opened and is this file. Refuses another one than that which lacks the bytes, unless
    /// forced.
    pub(super) fn is_file(&mut self, now: Option<Identity>, force: bool) -> Result<(), CliError> {
        let then = self.found.as_ref().and_then(|owner| owner.identity);
        if let Some((then, now)) = then.zip(now).filter(|(then, now)| then.differs_from(*now))
            && !force
        {
            let message = format!(
                "the origin {} is another file ({now}) than the one ({then}) that lacks the bytes",
                self.origin
            );
            return Err(CliError::new(Exit::Refused, message).with_remedy(
                "put that one back; if this is a copy of it: destage --force --yes-lose-data",
            ));
        }
        self.identity = now;
        Ok(())
    }

    /// Who has the disk afterwards is told by this.
    pub(super) fn record(&self) -> OwnerFile {
        self.owner.clone().of_file(self.identity)
    }

    /// The host that has the disk, if it roams and that is not this one.
    fn elsewhere(&self) -> Option<&str> {
        let holder = self.found.as_ref()?.holder.as_ref()?;
        let is_here = self.here.as_ref() == Some(&holder.host);
        (!is_here).then_some(&*holder.host)
    }

    /// Where the log of the cache `uuid` stands.
    pub(super) fn standing(&self, log: &LogReport, uuid: u128) -> Standing {
        let record = self.found.as_ref().map(|owner| owner.record);
        match Standing::of(log, uuid, record) {
            Standing::Elsewhere if self.elsewhere().is_some() => Standing::Kept,
            Standing::Waiting | Standing::Locked if self.is_leaving => Standing::Leaving,
            standing => standing,
        }
    }

    /// Refuses what would bring the origin, or give up, bytes of a disk that another host has, or is about to get. What
    /// the cache `uuid` has is this host's own as long as the record names that.
    pub(super) fn is_not_anothers(&self, disk: &str, uuid: Option<u128>) -> Result<(), CliError> {
        let refused = |message: String| CliError::new(Exit::Refused, message);
        if self.is_leaving {
            let message = format!(
                "this host has decided to give '{disk}' to another one, which may have all that its origin lacks"
            );
            return Err(refused(message).with_remedy(
                "start the daemon: it gives the disk away; then use hearth recover at the host that has it",
            ));
        }
        let record = self.found.as_ref().map(|owner| owner.record);
        let is_named = record.is_some_and(|record| record.open && Some(record.cache) == uuid);
        let Some(host) = self.elsewhere().filter(|_| !is_named) else {
            return Ok(());
        };
        if self.here.is_none() {
            let message = format!(
                "'{disk}' roams: '{host}' has it, and it is not known whether that is this host"
            );
            return Err(
                refused(message).with_remedy("name the daemon's configuration with --config")
            );
        }
        let message = format!(
            "what is here of '{disk}' is kept for another host: '{host}' has the disk, and what it goes on with counts"
        );
        Err(refused(message).with_remedy(format!(
            "start the daemon: it serves the disk if that comes here, and drops what does not count; hearth recover \
             export saves what is here; if '{host}' is gone for good: hearth migrate take {disk} --yes-its-owner-is-dead \
             --lose-dirty"
        )))
    }

    /// Takes the disk from every host that shares the folder of records, if there is one.
    pub(super) fn lock(&mut self) -> Result<(), CliError> {
        let refused = |error: OwnerError| CliError::of(Exit::Refused, &error);
        self.owner.lock(false).map_err(refused)?;
        if self.owner.load().map_err(refused)? == self.found {
            // Who has a disk that roams stays in its record.
            let holder = self.found.as_ref().and_then(|owner| owner.holder.clone());
            if let Some(holder) = holder {
                self.owner.hand_to(holder, |_| false).map_err(refused)?;
            }
            return Ok(());
        }
        let message = "the owner's record has changed meanwhile";
        Err(CliError::new(Exit::Refused, message).with_remedy("hearth recover list; then again"))
    }
}

impl Known {
    pub(super) fn of(places: &Places) -> Result<Self, CliError> {
        let default = Path::new(CONFIG_DEFAULT);
        let path = match &places.config {
            Some(path) => Some(path.as_path()),
            None => default.exists().then_some(default),
        };
        let config = path.map(configuration::load).transpose();
        let config = config.map_err(|error| CliError::of(Exit::Usage, &error))?;
        let state_dir = match (&places.state_dir, &config) {
            (Some(dir), _) => dir.clone(),
            (None, Some(config)) => config.daemon.state_dir.clone(),
            (None, None) => Config::default().daemon.state_dir,
        };
        let no_daemon = NoDaemon::on(&state_dir).map_err(|error| match error {
            StateError::InUse { .. } => {
                CliError::of(Exit::Refused, &error).with_remedy(STOP_THE_DAEMON)
            }
            error => CliError::of(Exit::Failed, &error),
        })?;
        let mut disks = config
            .as_ref()
            .map_or(Vec::new(), |known| known.disks.clone());
        let remembered = daemon::remembered_disks(&state_dir);
        disks.extend(remembered.map_err(|error| CliError::of(Exit::Failed, &error))?);
        Ok(Self {
            config,
            disks,
            origin: places.origin.clone(),
            state_dir,
            _no_daemon: no_daemon,
        })
    }

    /// Locks the flash of each cache of the configuration, as their daemon would. Flash that is not
    /// there is used by nobody.
    pub(super) fn lock_caches(&self) -> Result<Vec<FlashFile>, CliError> {
        let caches = self.config.as_ref().map_or(&[][..], |known| &known.caches);
        let mut locked = Vec::new();
        for cache in caches {
            match FlashFile::open(&cache.path) {
                Ok(flash) => locked.push(flash),
                Err(error @ OpenError::InUse { .. }) => return Err(explain(&error.into())),
                Err(_) => {}
            }
        }
        Ok(locked)
    }

    /// The flash of each cache of the configuration.
    pub(super) fn caches(&self) -> Vec<PathBuf> {
        let caches = self.config.iter().flat_map(|known| &known.caches);
        caches.map(|cache| cache.path.clone()).collect()
    }

    /// The memory of the daemon that served the cache on this flash.
    pub(super) fn memory(&self, flash: &Path) -> Option<LeftMemory> {
        let config = self.config.as_ref()?;
        let same = |path: &Path| {
            let real = |path: &Path| std::fs::canonicalize(path).ok();
            real(path).is_some() && real(path) == real(flash)
        };
        let cache = config.caches.iter().find(|cache| same(&cache.path))?;
        let folder = config.daemon.admin_socket.parent()?;
        Some(LeftMemory {
            path: folder.join(format!("{}.lasting", cache.name)),
            places: ::cache::Config::default().retained_places as usize,
        })
    }

    fn disk(&self, disk: &str, id: Option<DiskId>) -> Option<&DiskConfig> {
        let mut disks = self.disks.iter();
        disks.find(|known| {
            let known_id = disk_id(known);
            id.map_or(known.name.as_str() == disk, |id| id == known_id)
                || known_id.to_string() == disk
        })
    }

    /// The identity of a disk that is known by its name.
    pub(super) fn id(&self, disk: &str) -> Option<DiskId> {
        let written = disk.parse().ok();
        written.or_else(|| self.disk(disk, None).map(disk_id))
    }

    /// Where the wrapped data keys of the daemon's disks are.
    pub(super) fn keys(&self) -> KeyStore {
        daemon::key_store(&self.state_dir)
    }

    /// What outlives the daemon's sessions with origins' servers, and this command's. Nobody has the
    /// connections: a service manager gives them to the daemon only.
    pub(super) fn keeping(&self) -> Result<Keeping, CliError> {
        let runtime_dir = match &self.config {
            Some(config) => daemon::runtime_dir(config).to_owned(),
            None => daemon::runtime_dir(&Config::default()).to_owned(),
        };
        for folder in [&runtime_dir, &self.state_dir] {
            std::fs::create_dir_all(folder).map_err(|error| {
                CliError::new(Exit::Failed, format!("{}: {error}", folder.display()))
            })?;
        }
        Ok(Keeping {
            runtime_dir,
            state_dir: self.state_dir.clone(),
            sockets: Arc::new(KeepsNone),
        })
    }

    /// Where owner's records are that are not beside their origins.
    fn folders(&self) -> Folders {
        let config = self.config.as_ref();
        Folders {
            cluster: None,
            state: self.state_dir.clone(),
            shared: config.and_then(|config| config.daemon.owners_dir.clone()),
        }
    }

    /// Where the configuration says that a disk's key comes from.
    pub(super) fn key_source(&self, disk: &str, id: DiskId) -> Option<KeySource> {
        self.disk(disk, Some(id))?.encryption.source()
    }

    /// Where a disk is; none if nothing says what its origin is.
    pub(super) fn place(&self, disk: &str, id: DiskId) -> Result<Option<Place>, CliError> {
        let known = self.disk(disk, Some(id)).map(|known| &known.origin);
        let Some(origin) = self.origin.as_ref().or(known) else {
            return Ok(None);
        };
        let origin = daemon::origin_spec(origin);
        let owner = OwnerFile::new(id, &origin, &self.folders(), WRITER);
        let found = owner
            .load()
            .map_err(|error| CliError::of(Exit::Refused, &error))?;
        let given = daemon::given_in(&self.state_dir, id);
        let given = given.map_err(|error| CliError::new(Exit::Failed, error))?;
        let holder = found.as_ref().and_then(|owner| owner.holder.as_ref());
        let is_leaving = holder.is_some_and(|holder| given == Some(holder.epoch));
        let here = self.config.as_ref();
        Ok(Some(Place {
            origin,
            owner,
            found,
            identity: None,
            here: here.and_then(|config| config.link.name.clone()),
            is_leaving,
        }))
    }
}

/// Nothing says where the disk's origin is.
pub(super) fn no_origin(disk: &str) -> CliError {
    CliError::new(
        Exit::Usage,
        format!("it is not known what the origin of '{disk}' is"),
    )
    .with_remedy("name it with --origin, or the daemon's configuration with --config")
}
