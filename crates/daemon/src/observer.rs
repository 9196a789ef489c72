//! What there is to see: the daemon, its caches, disks and VMs. Nothing here changes any of them.

mod check;
mod glance;

pub(crate) use glance::AtAGlance;

use super::advice::{Divided, advise};
use super::answers;
use super::disk_sockets::DiskSockets;
use super::guest_sockets::GuestSockets;
use super::ledger::Ledger;
use super::problems::does_not_roam;
use super::recording::Recordings;
use super::registry::{Entry, Phase, Registry};
use super::remembered::Remembered;
use super::roaming_answers::RoamingAnswers;
use super::shards::{Pulse, Pulses, Shard, Shards, states};
use super::vm_answers::{Seen, accounts, policy};
use api::advice::HostAdvice;
use api::problem::ProblemKind;
use api::roaming::{RoamingDisk, RoamingDisks};
use api::types::{CacheStatus, DiskSource, DiskStatus, Disks, Listener, Problem, Status};
use api::vms::{ImageStatus, VmStatus, Vms};
use configuration::Name;
use shard::ShardStatus;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The daemon as an operator sees it.
pub struct Observer {
    started: Instant,
    registry: Arc<Registry>,
    shards: Arc<Shards>,
    disk_sockets: Arc<DiskSockets>,
    remembered: Arc<Remembered>,
    recordings: Arc<Recordings>,
    /// `None`: no disk roams.
    roaming: Option<RoamingAnswers>,
    guests: Arc<GuestSockets>,
    /// What was written to flash, and when.
    ledger: Mutex<Ledger>,
    listeners: Mutex<Vec<Listener>>,
}

impl Observer {
    pub(super) fn new(
        registry: Arc<Registry>,
        shards: Arc<Shards>,
        disk_sockets: Arc<DiskSockets>,
        remembered: Arc<Remembered>,
        recordings: Arc<Recordings>,
        roaming: Option<RoamingAnswers>,
        guests: Arc<GuestSockets>,
    ) -> Self {
        Self {
            started: Instant::now(),
            registry,
            shards,
            disk_sockets,
            remembered,
            recordings,
            roaming,
            guests,
            ledger: Mutex::default(),
            listeners: Mutex::default(),
        }
    }

    pub(super) fn set_listeners(&self, listeners: Vec<Listener>) {
        *self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = listeners;
    }

    /// The daemon, its listeners and its caches.
    pub async fn status(&self) -> Status {
        self.status_of(&self.shards.pulses().await)
    }

    pub(super) fn status_of(&self, pulses: &Pulses<'_>) -> Status {
        let (mut caches, mut nbd_connections, mut vhost_user_connections) = (Vec::new(), 0, 0);
        for (shard, pulse) in pulses {
            if let Pulse::Status(status) = pulse {
                for disk in &status.disks {
                    let over = |front_end| disk.over(front_end).connections as u64;
                    vhost_user_connections += over(vhost_user::FRONT_END);
                    nbd_connections += over(nbd_server::FRONT_END);
                }
            }
            caches.push(self.cache(shard, pulse));
        }
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            disks: self.registry.len(),
            nbd_connections,
            vhost_user_connections,
            listeners,
            caches,
            recording: self.recordings.show(),
            requests_traced: self.recordings.requests(),
        }
    }

    /// One disk.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn disk(&self, name: &Name) -> Result<DiskStatus, Problem> {
        let entry = self.registry.entry(name)?;
        Ok(self.look(&entry).await)
    }

    pub(super) async fn look(&self, entry: &Entry) -> DiskStatus {
        let status = match self.shards.get(&entry.cache) {
            Some(shard) => match shard.pulse().await {
                Pulse::Status(status) => Some(status),
                Pulse::Opening | Pulse::Silent => None,
            },
            None => None,
        };
        self.shown(entry, status.as_deref())
    }

    pub(super) fn shown(&self, entry: &Entry, shard: Option<&ShardStatus>) -> DiskStatus {
        let served = shard.and_then(|shard| {
            let disk = shard.disks.iter().find(|disk| disk.id == entry.id)?;
            Some((disk, shard.now))
        });
        let mut status = answers::disk(entry, served);
        if let Phase::Waiting { .. } | Phase::Forgetting { .. } = entry.phase {
            let folders = self.remembered.dir().folders();
            status.kept = shard.and_then(|shard| answers::kept(entry, shard, &folders));
        }
        status.vhost_user.sockets = self.disk_sockets.of(&entry.config.name);
        status.nbd_socket = self.disk_sockets.nbd_of(&entry.config.name);
        if entry.source == DiskSource::Config {
            status.changed = self.remembered.disks().change_of(&entry.config.name).keys();
        }
        status
    }

    /// Every VM and base image.
    pub async fn vms(&self) -> Vms {
        self.vms_of(&self.shard_states().await)
    }

    pub(super) fn vms_of(&self, shards: &BTreeMap<Name, Box<ShardStatus>>) -> Vms {
        let ledger = self.ledger();
        self.seen(&self.registry.all(), shards, &ledger).all()
    }

    async fn shard_states(&self) -> BTreeMap<Name, Box<ShardStatus>> {
        states(self.shards.pulses().await)
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A panic elsewhere leaves the notes whole, or one too few.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was written to flash.
    pub(super) async fn note_written(&self) {
        let shards = self.shard_states().await;
        let of_each = shards
            .iter()
            .flat_map(|(cache, shard)| accounts(cache, shard));
        let counters: BTreeMap<_, _> = of_each.collect();
        self.ledger().note(Instant::now(), &counters);
    }

    /// How a cache does.
    pub(super) fn cache(&self, shard: &Shard, pulse: &Pulse) -> CacheStatus {
        let mut status = answers::cache(shard, pulse);
        let scrubs = self.remembered.scrubs();
        scrubs.complete(&shard.config().name, &mut status.scrub);
        if let Pulse::Status(of) = pulse {
            let ledger = self.ledger();
            status.policy = Some(policy(
                &shard.config().name,
                of,
                shard.flash(),
                self.remembered.policies(),
                &ledger,
            ));
        }
        status
    }

    fn seen<'a>(
        &'a self,
        entries: &'a [Entry],
        shards: &'a BTreeMap<Name, Box<ShardStatus>>,
        ledger: &'a Ledger,
    ) -> Seen<'a> {
        let book = self.remembered.vms();
        Seen {
            entries,
            shards,
            book,
            ledger,
            guests: &self.guests,
        }
    }

    /// One VM.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn vm(&self, name: &Name) -> Result<VmStatus, Problem> {
        let is_own = |entry: &Entry| entry.is_of(name);
        let has_settings = self.remembered.vms().names().contains(name);
        if !has_settings && !self.registry.all().iter().any(is_own) {
            return Err(self.no_such_vm(name));
        }
        Ok(self.vm_or_newcomer(name).await)
    }

    /// One VM, which may have neither settings nor a disk yet.
    pub(super) async fn vm_or_newcomer(&self, name: &Name) -> VmStatus {
        let shards = self.shard_states().await;
        let ledger = self.ledger();
        self.seen(&self.registry.all(), &shards, &ledger).vm(name)
    }

    /// Every VM and image that has settings or a disk.
    pub(super) fn known_vms(&self) -> Vec<Name> {
        let mut known = self.remembered.vms().names();
        known.extend(self.registry.all().iter().map(Entry::vm));
        known.sort();
        known.dedup();
        known
    }

    /// There is no VM and no image of this name, but perhaps of one much like it.
    pub(super) fn no_such_vm(&self, name: &Name) -> Problem {
        let known = self.known_vms();
        let meant = configuration::meant(name, known.iter().map(Name::as_str));
        let mut problem = Problem::no_such_vm(name.as_str());
        problem.detail = format!("{}; {meant}", problem.detail);
        problem
    }

    /// One base image.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn image(&self, name: &Name) -> Result<ImageStatus, Problem> {
        let mut images = AtAGlance::of(self).images().await.images.into_iter();
        let found = images.find(|image| image.name == *name);
        found.ok_or_else(|| self.no_such_vm(name))
    }

    /// Everything that metrics tell of, as it was at one moment of each cache: what disks have adds up
    /// to what their cache has.
    pub async fn snapshot(&self) -> (Status, Disks, Vms, RoamingDisks) {
        let pulses = self.shards.pulses().await;
        let (status, disks) = (self.status_of(&pulses), self.disks_of(&pulses));
        let roaming = self.roaming_of(&disks);
        (status, disks, self.vms_of(&states(pulses)), roaming)
    }

    /// Every disk that roams, by name.
    pub async fn roaming(&self) -> RoamingDisks {
        self.roaming_of(&self.disks().await)
    }

    fn roaming_of(&self, disks: &Disks) -> RoamingDisks {
        let Some(roaming) = &self.roaming else {
            return RoamingDisks::default();
        };
        let shown = disks.disks.iter().filter_map(|status| {
            let entry = self.registry.get(&status.name)?;
            entry.config.moves().then(|| roaming.disk(&entry, status))
        });
        let entries = self.registry.all();
        let images = entries.iter().filter(|entry| entry.config.follows());
        let images = images.filter_map(|entry| roaming.image(entry)).collect();
        roaming.all(shown.collect(), images)
    }

    /// One disk that roams.
    ///
    /// # Errors
    /// If there is none of this name, or it does not roam.
    pub async fn roaming_disk(&self, name: &Name) -> Result<RoamingDisk, Problem> {
        let (entry, roaming) = self.roams(name)?;
        Ok(roaming.disk(&entry, &self.look(&entry).await))
    }

    /// A disk that roams, and where it is seen and told.
    ///
    /// # Errors
    /// If there is none of this name, or it does not roam.
    pub(super) fn roams(&self, name: &Name) -> Result<(Entry, &RoamingAnswers), Problem> {
        let entry = self.registry.entry(name)?;
        match &self.roaming {
            Some(roaming) if entry.config.moves() => Ok((entry, roaming)),
            _ => Err(does_not_roam(name)),
        }
    }

    /// Adds the disks that move with these.
    fn add_what_moves_with(&self, entries: &mut Vec<Entry>) {
        let Some(roaming) = &self.roaming else {
            return;
        };
        let others = entries.iter().flat_map(|entry| roaming.others(entry));
        let others: Vec<_> = others.filter_map(|name| self.registry.get(name)).collect();
        for other in others {
            if entries.iter().all(|entry| entry.id != other.id) {
                entries.push(other);
            }
        }
    }

    /// The disk that a VM with all its disks is taken by; a disk's name does if it moves alone.
    ///
    /// # Errors
    /// If there is none, one of them does not roam, or the disk moves with others.
    pub(super) fn taken_by(&self, name: &Name) -> Result<(Entry, &RoamingAnswers), Problem> {
        let (entries, roaming) = self.roam_all(name)?;
        let (first, others) = (&entries[0], &entries[1..]);
        let vm = first.vm();
        if !others.is_empty() && vm != *name {
            let others = others.iter().map(|other| other.config.name.as_str());
            let others = others.collect::<Vec<_>>().join("', '");
            let detail = format!(
                "the disk '{name}' moves with '{others}': all of VM '{vm}' are taken, or none"
            );
            let problem = Problem::new(ProblemKind::Refused, detail);
            return Err(problem.with_remedy(format!("name the VM: hearth migrate take {vm}")));
        }
        Ok((first.clone(), roaming))
    }

    /// The disks of this name, or of a VM of this name, that roam, and where they are told.
    ///
    /// # Errors
    /// If there is none, or one of them does not roam; base images and disks that are only read need not.
    pub(super) fn roam_all(&self, name: &Name) -> Result<(Vec<Entry>, &RoamingAnswers), Problem> {
        let mut entries = self.registry.all();
        entries.retain(|entry| entry.config.name == *name || entry.vm() == *name);
        entries.retain(|entry| !entry.config.shared && !entry.config.read_only);
        let other = entries.iter().find(|entry| !entry.config.roams);
        if let Some(other) = other {
            return Err(does_not_roam(&other.config.name));
        }
        self.add_what_moves_with(&mut entries);
        match &self.roaming {
            Some(roaming) if !entries.is_empty() => Ok((entries, roaming)),
            _ => {
                let detail = format!("there is no disk and no VM '{name}' with disks that roam");
                let problem = Problem::new(ProblemKind::NoSuchDisk, detail);
                Err(problem.with_remedy("hearth migrate list"))
            }
        }
    }

    /// Every disk, by name.
    pub async fn disks(&self) -> Disks {
        self.disks_of(&self.shards.pulses().await)
    }

    fn disks_of(&self, pulses: &Pulses<'_>) -> Disks {
        let mut statuses = BTreeMap::new();
        for (shard, pulse) in pulses {
            if let Pulse::Status(status) = pulse {
                statuses.insert(&shard.config().name, status.as_ref());
            }
        }
        let entries = self.registry.all();
        let shown = |entry: &Entry| self.shown(entry, statuses.get(&entry.cache).copied());
        Disks {
            disks: entries.iter().map(shown).collect(),
        }
    }

    /// Advice on this host.
    pub async fn advice(&self) -> HostAdvice {
        let status = self.status().await;
        let divided = status.caches.into_iter().filter_map(|cache| {
            let policy = cache.policy?;
            let divides = policy.settings.enabled == Some(true) && policy.error.is_none();
            divides.then_some(Divided {
                cache: cache.name,
                capacity_blocks: policy.capacity_blocks,
                load: policy.load,
            })
        });
        let divided: Vec<Divided> = divided.collect();
        advise(&divided, &self.vms().await)
    }
}
