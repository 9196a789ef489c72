//! Whether a live migration would be right now: what is in the way of handing a disk over, on this host and on its peer.
//!
//! Both hosts look at the same things; the host that is asked asks its peer, and compares.

mod dirty;
mod image;

use super::Observer;
use crate::looks::NoLook;
use crate::peering::Peering;
use crate::registry::{Entry, Phase};
use crate::roaming_answers::RoamingAnswers;
use crate::settings;
use api::problem::ProblemKind;
use api::roaming::{CheckReason, DirtyCheck, DiskCheck, MigrationCheck, RoamingDisk, RoamingRole};
use api::types::{CacheState, CacheStatus, DiskStatus, Problem};
use api::write_back::DestageState;
use configuration::Name;
use link_protocol::{DiskLook, DiskRole, Holder, OBSTACLES_MAX, Obstacle};
use shard::OwnerFile;
use std::time::Duration;
use units::Bytes;
use units::errors::chain;

/// How long an origin may take to say how long it is.
const ORIGIN_TIME_MAX: Duration = Duration::from_secs(3);
const AGAIN: &str = "repeat the command in a moment";

/// What the origin and the record beside it say.
type AtOrigin = (Bytes, Option<Holder>);

impl Observer {
    /// Whether a VM, or a disk, of this name can be migrated now: to the peer that is called so, or from the peer to this
    /// host. Changes nothing.
    ///
    /// # Errors
    /// If there is no such disk, VM or peer.
    pub async fn check(&self, name: &Name, to: Option<&str>) -> Result<MigrationCheck, Problem> {
        let mut entries = self.registry.all();
        let images = self.images_of(name, &entries);
        entries.retain(|entry| entry.config.name == *name || entry.vm() == *name);
        self.add_what_moves_with(&mut entries);
        entries.extend(images);
        if entries.is_empty() {
            let detail = format!("there is no disk and no VM '{name}' with disks");
            let problem = Problem::new(ProblemKind::NoSuchDisk, detail);
            return Err(problem.with_remedy("hearth disk list"));
        }
        let peering = self.roaming.as_ref().map(RoamingAnswers::peering);
        self.knows_peer(to)?;
        let mut disks = Vec::new();
        for entry in &entries {
            disks.push(self.disk_check(entry, to).await);
        }
        Ok(MigrationCheck {
            name: name.to_string(),
            to: to.or_else(|| Some(peering?.here())).map(str::to_owned),
            is_right: disks.iter().all(|disk| disk.reasons.is_empty()),
            disks,
        })
    }

    /// # Errors
    /// If this host has no peer that is called so.
    pub(crate) fn knows_peer(&self, to: Option<&str>) -> Result<(), Problem> {
        let peering = self.roaming.as_ref().map(RoamingAnswers::peering);
        match to {
            Some(to) if peering.is_none_or(|peering| peering.named(to).is_none()) => {
                Err(no_such_peer(to, peering))
            }
            _ => Ok(()),
        }
    }

    async fn disk_check(&self, entry: &Entry, to: Option<&str>) -> DiskCheck {
        let mut check = DiskCheck {
            name: entry.config.name.to_string(),
            id: entry.id.to_string(),
            reasons: Vec::new(),
            dirty: None,
            image: None,
        };
        if entry.config.follows() {
            (check.reasons, check.image) = self.image_check(entry, to).await;
        } else if !entry.config.shared && !entry.config.read_only {
            (check.reasons, check.dirty) = self.moves(entry, to).await;
        }
        // Several hosts may read any other at a time.
        check
    }

    /// What is in the way of a disk that is written, and what becomes of its dirty data.
    async fn moves(
        &self,
        entry: &Entry,
        to: Option<&str>,
    ) -> (Vec<CheckReason>, Option<DirtyCheck>) {
        let config = &entry.config;
        let roaming = self.roaming.as_ref().filter(|_| config.roams);
        if let (Some(roaming), None) = (roaming, to) {
            // Who is in doubt is told so below.
            let _ = roaming.find(entry).await;
        }
        let Some(peering) = roaming.map(|roaming| asked(roaming, entry, to)) else {
            let problem = crate::problems::does_not_roam(&config.name);
            let reason = CheckReason {
                code: "does-not-roam".to_owned(),
                host: None,
                detail: problem.detail,
                remedy: problem.remedy,
            };
            return (vec![reason], None);
        };
        let here = self.disk_look(entry).await;
        let mut reasons = told(&here.obstacles, peering.here());
        let is_partner =
            |roaming: &&RoamingAnswers| roaming.peering_of(entry).peer() == peering.peer();
        let partner = roaming.filter(is_partner);
        if let Some(differs) = partner.and_then(|roaming| roaming.differs(entry)) {
            let remedy = "list the same disks with roams = true and the same vm on both hosts, and restart the daemons";
            reasons.push(reason("disks-differ", differs, remedy));
        }
        let mut becomes = None;
        match peering.ask_look(entry.id).await {
            Ok(there) => {
                reasons.extend(told(&there.obstacles, peering.there()));
                reasons.extend(compared(&here, &there, &peering));
                becomes = dirty::becomes(&here, &there, &peering);
            }
            Err(why) => reasons.push(unanswered(why, entry, &peering)),
        }
        (reasons, becomes)
    }

    /// What a disk that roams is to this host, and what is in the way of a hand-over here.
    pub(crate) async fn disk_look(&self, entry: &Entry) -> DiskLook {
        let now = self.registry.get(&entry.config.name);
        let entry = now.as_ref().unwrap_or(entry);
        if entry.config.follows() {
            return self.image_look(entry).await;
        }
        let status = self.look(entry).await;
        let shown = self.roaming.as_ref();
        let shown = shown.map(|roaming| roaming.disk(entry, &status));
        let role = shown
            .as_ref()
            .map_or(RoamingRole::InDoubt, |shown| shown.role);
        let mut obstacles: Vec<Obstacle> = Vec::new();
        obstacles.extend(shown.as_ref().and_then(of_role));
        obstacles.extend(of_write_back(&status));
        obstacles.extend(of_late_writes(&status));
        if let Some(shard) = self.shards.get(&entry.cache) {
            let pulse = shard.pulse().await;
            obstacles.extend(of_cache(&self.cache(shard, &pulse)));
        }
        let size = size_of(entry, &status);
        let dirty = self.dirty_look(entry, &status, shown.as_ref());
        let mut holder = None;
        match self.at_origin(entry).await {
            Ok((origin, recorded)) => {
                holder = recorded;
                obstacles.extend(of_size(size, origin));
            }
            // It is in doubt for the same reason.
            Err(_) if role == RoamingRole::InDoubt => {}
            Err(why) => obstacles.push(Obstacle::new(
                "origin",
                &why,
                "restore the origin, and see that the daemon may write it",
            )),
        }
        obstacles.truncate(OBSTACLES_MAX);
        DiskLook {
            size: size.map(Bytes::get),
            is_encrypted: entry.config.encryption.source().is_some(),
            role: match role {
                RoamingRole::Owner => DiskRole::Owner,
                RoamingRole::Standby | RoamingRole::Split => DiskRole::Standby,
                _ => DiskRole::Between,
            },
            holder,
            obstacles,
            image: None,
            dirty,
        }
    }

    /// How long the origin is, and whom the record beside it names.
    async fn at_origin(&self, entry: &Entry) -> Result<AtOrigin, String> {
        let spec = settings::origin(&entry.config.origin);
        let folders = self.remembered.dir().folders();
        let (disk, cache) = (entry.id, entry.cache.to_string());
        let looking = tokio::task::spawn_blocking(move || {
            let geometry = origin::measure(&spec).map_err(|error| chain(&error))?;
            let owner = OwnerFile::new(disk, &spec, &folders, &cache).load();
            let owner = owner.map_err(|error| chain(&error))?;
            let holder = owner.and_then(|owner| owner.holder);
            Ok((
                geometry.size,
                holder.map(|shard::Holder { host, epoch }| Holder { host, epoch }),
            ))
        });
        match tokio::time::timeout(ORIGIN_TIME_MAX, looking).await {
            Ok(Ok(looked)) => looked,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the origin does not answer".to_owned()),
        }
    }
}

fn size_of(entry: &Entry, status: &DiskStatus) -> Option<Bytes> {
    match &entry.phase {
        Phase::Attached { geometry } | Phase::Standby { geometry } => Some(geometry.size),
        _ => status.size_bytes.map(Bytes::new),
    }
}

fn of_role(disk: &RoamingDisk) -> Option<Obstacle> {
    let problem = disk.problem.as_deref();
    match disk.role {
        RoamingRole::Owner | RoamingRole::Standby => None,
        RoamingRole::Split => Some(Obstacle::new(
            "split",
            problem.unwrap_or("the VM's disks are at different hosts"),
            disk.remedy.as_deref().unwrap_or(AGAIN),
        )),
        RoamingRole::InDoubt => Some(Obstacle::new(
            "in-doubt",
            problem.unwrap_or("who has the disk is not known yet"),
            "restore the origin, or repeat the command in a moment",
        )),
        role => Some(Obstacle::new(
            "busy",
            &format!(
                "a hand-over is under way ({}){}{}",
                role.word(),
                if problem.is_some() { ": " } else { "" },
                problem.unwrap_or_default()
            ),
            AGAIN,
        )),
    }
}

fn of_write_back(status: &DiskStatus) -> Option<Obstacle> {
    let lacks = status.write_back.as_ref()?;
    let reason = lacks.reason.as_deref().unwrap_or_default();
    let name = &status.name;
    match lacks.state {
        DestageState::Locked => Some(Obstacle::new(
            "locked",
            reason,
            &format!("stop the daemon and look: hearth recover verify FLASH --disk {name}"),
        )),
        DestageState::Failing => Some(Obstacle::new("destage-fails", reason, "restore the origin")),
        _ => None,
    }
}

fn of_late_writes(status: &DiskStatus) -> Option<Obstacle> {
    let bytes = Bytes::new(status.late_write_bytes);
    (!bytes.is_zero()).then(|| {
        Obstacle::new(
            "late-writes",
            &format!(
                "the origin's server may still carry out writes of {bytes} of this host, over what the peer would write"
            ),
            "wait until the server has answered them, or settle_time of the origin has passed since the connection ended",
        )
    })
}

fn of_cache(cache: &CacheStatus) -> Option<Obstacle> {
    let (name, reason) = (&cache.name, cache.reason.as_deref().unwrap_or_default());
    let (code, is, remedy) = match cache.state {
        CacheState::Serving => return None,
        CacheState::Opening => ("cache-opens", "is being opened", AGAIN),
        CacheState::Silent => ("cache-silent", "does not answer", "restart the daemon"),
        CacheState::Bypassed => (
            "bypassed",
            "is bypassed: the VM would run without it",
            "replace or format the flash, and restart the daemon",
        ),
    };
    let detail = format!("the cache '{name}' {is}: {reason}");
    Some(Obstacle::new(code, detail.trim_end_matches(": "), remedy))
}

fn of_size(size: Option<Bytes>, origin: Bytes) -> Option<Obstacle> {
    let size = size.filter(|size| *size != origin)?;
    Some(Obstacle::new(
        "resized",
        &format!("the origin has {origin} now, and the disk is offered with {size}"),
        "restart the daemons of both hosts, so that both offer the new size",
    ))
}

fn told<'a>(obstacles: &'a [Obstacle], host: &'a str) -> Vec<CheckReason> {
    let told = |obstacle: &Obstacle| CheckReason {
        code: obstacle.code().to_owned(),
        host: Some(host.to_owned()),
        detail: obstacle.detail().to_owned(),
        remedy: Some(obstacle.remedy().to_owned()),
    };
    obstacles.iter().map(told).collect()
}

fn reason(code: &str, detail: String, remedy: &str) -> CheckReason {
    CheckReason {
        code: code.to_owned(),
        host: None,
        detail,
        remedy: Some(remedy.to_owned()),
    }
}

/// This host and the peer that is asked about a disk: the one that it is to go to, or else the one that it comes from.
fn asked(roaming: &RoamingAnswers, entry: &Entry, to: Option<&str>) -> Peering {
    let of_disk = roaming.peering_of(entry);
    let peer = to.and_then(|to| of_disk.named(to));
    of_disk.with(peer.unwrap_or_else(|| of_disk.peer()))
}

/// What is in the way although neither host sees it alone.
fn compared(here: &DiskLook, there: &DiskLook, peering: &Peering) -> Vec<CheckReason> {
    let names = (peering.here(), peering.there());
    let mut reasons = Vec::new();
    if let (Some(ours), Some(theirs)) = (here.size, there.size)
        && ours != theirs
    {
        let (ours, theirs) = (Bytes::new(ours), Bytes::new(theirs));
        let detail = format!(
            "the disk has {ours} at {}, and {theirs} at {}",
            names.0, names.1
        );
        let remedy = "see that both configurations name the same origin, and restart both daemons";
        reasons.push(reason("sizes-differ", detail, remedy));
    }
    if here.is_encrypted != there.is_encrypted {
        let (sealed, plain) = if here.is_encrypted {
            names
        } else {
            (names.1, names.0)
        };
        let detail =
            format!("the disk is encrypted on the flash of {sealed}, and plain on that of {plain}");
        let remedy = format!(
            "give the disk an encryption key in the configuration of {plain}, and restart its daemon"
        );
        reasons.push(reason("encryption-differs", detail, &remedy));
    }
    let is_read = |look: &DiskLook| {
        let mut codes = look.obstacles.iter().map(Obstacle::code);
        !codes.any(|code| ["origin", "in-doubt"].contains(&code))
    };
    if here.holder != there.holder && is_read(here) && is_read(there) {
        let says = |holder: &Option<Holder>| {
            holder.as_ref().map_or_else(
                || "names nobody".to_owned(),
                |holder| format!("says '{}' in epoch {}", holder.host, holder.epoch),
            )
        };
        let detail = format!(
            "the owner's record {} at {}, and {} at {}",
            says(&here.holder),
            names.0,
            says(&there.holder),
            names.1
        );
        let remedy = "see that both hosts reach the same file as the disk's origin";
        reasons.push(reason("records-differ", detail, remedy));
    }
    let is_split = |look: &DiskLook| {
        let mut codes = look.obstacles.iter().map(Obstacle::code);
        codes.any(|code| code == "split")
    };
    if is_split(here) || is_split(there) {
        return reasons;
    }
    let owner = match (here.role, there.role) {
        (DiskRole::Owner, DiskRole::Owner) => "both hosts have the disk",
        (DiskRole::Standby, DiskRole::Standby) => "neither host has the disk",
        _ => return reasons,
    };
    let named = here.holder.as_ref();
    let named = named.map_or_else(String::new, |holder| {
        format!("; the owner's record names '{}'", holder.host)
    });
    let remedy =
        "see which host the owner's record names, and that both hosts reach the same origin";
    reasons.push(reason("no-one-owner", format!("{owner}{named}"), remedy));
    reasons
}

/// Why the peer says nothing of a disk.
fn unanswered(why: NoLook, entry: &Entry, peering: &Peering) -> CheckReason {
    let there = peering.there();
    match why {
        NoLook::NotLinked => {
            let session = peering.session();
            let problem = session
                .problem
                .map_or_else(String::new, |why| format!(": {why}"));
            let detail = format!("there is no session with {there}{problem}");
            let remedy = session.remedy.unwrap_or_else(|| AGAIN.to_owned());
            reason("link-down", detail, &remedy)
        }
        NoLook::Unknown => reason(
            "unknown-at-peer",
            format!("{there} has no disk with the id {} that roams", entry.id),
            "give the disk the same id and roams = true in the configuration of both hosts, and restart the daemons",
        ),
        NoLook::NotReady => reason("peer-not-ready", format!("{there} cannot say yet"), AGAIN),
        NoLook::Silent => reason(
            "peer-silent",
            format!("{there} does not answer in time"),
            "look at the daemon there: hearth status",
        ),
    }
}

fn no_such_peer(name: &str, peering: Option<&Peering>) -> Problem {
    let known = match peering {
        Some(peering) => {
            let names = peering.all().map(|peer| format!("'{}'", peer.there()));
            match &names.collect::<Vec<_>>()[..] {
                [name] => format!("its peer is {name}"),
                names => format!("its peers are {}", names.join(", ")),
            }
        }
        None => "no disk of this host roams".to_owned(),
    };
    let detail = format!("this host has no peer '{name}': {known}");
    Problem::new(ProblemKind::NoSuchPeer, detail).with_remedy("hearth migrate list")
}
