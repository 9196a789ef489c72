//! The disks that roam, as the admin API tells of them.

use super::answers;
use super::hand_overs::{Seen, View};
use super::image_view::ImageLooks;
use super::orders::{Obeyed, Order};
use super::peering::Peering;
use super::problems::not_ready;
use super::registry::Entry;
use api::problem::ProblemKind;
use api::roaming::{
    FollowingImage, HandOver, HandOverCount, HandOverOutcome, HeldTime, RoamingDisk, RoamingDisks,
    RoamingRole,
};
use api::types::{DiskStatus, Problem};
use configuration::{Name, Text};
use handoff::Role;
use link_protocol::DiskRole;
use shard::Histogram;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use telemetry::Parent;
use tokio::sync::oneshot;
use units::DiskId;

/// How long an operator waits for each step of a disk that is taken over.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks whether it is here.
const PAUSE: Duration = Duration::from_millis(20);

/// Tells a disk's task what an operator says.
type Tell = Box<dyn Fn(Order) + Send + Sync>;

/// Where a disk that roams is seen, and told.
pub(super) struct RoamingPlace {
    seen: Arc<Seen>,
    /// The peer that its VM goes to or comes from.
    peering: Peering,
    /// The disks that move with it.
    others: Vec<Name>,
    tell: Tell,
}

impl RoamingPlace {
    /// Of a unit that notes what happens in `seen`, and has these others.
    pub(super) fn new(
        (seen, peering): (Arc<Seen>, Peering),
        others: Vec<Name>,
        tell: Tell,
    ) -> Self {
        Self {
            seen,
            peering,
            others,
            tell,
        }
    }
}

/// Where operators look at disks that roam, and say that an owner is gone.
pub(super) struct RoamingAnswers {
    peering: Peering,
    disks: BTreeMap<DiskId, RoamingPlace>,
    images: BTreeMap<DiskId, (Arc<ImageLooks>, Peering)>,
}

impl RoamingAnswers {
    /// Of these disks, which roam, and of these images, whose caches follow their VMs; each has a peer of its own at a time.
    pub(super) fn new(
        peering: Peering,
        disks: BTreeMap<DiskId, RoamingPlace>,
        images: BTreeMap<DiskId, (Arc<ImageLooks>, Peering)>,
    ) -> Self {
        Self {
            peering,
            disks,
            images,
        }
    }

    /// What is known of an image whose cache follows its VMs.
    pub(super) fn image_looks(&self, entry: &Entry) -> Option<&ImageLooks> {
        self.images.get(&entry.id).map(|(looks, _)| &**looks)
    }

    /// The same, as operators see it.
    pub(super) fn image(&self, entry: &Entry) -> Option<FollowingImage> {
        let (looks, peering) = self.images.get(&entry.id)?;
        let (view, figures, problem) = looks.view()?;
        Some(FollowingImage {
            name: entry.config.name.clone(),
            id: entry.id.to_string(),
            cache: entry.cache.clone(),
            peer: peering.session(),
            phase: view.phase,
            coming: view.coming,
            problem,
            rate: Text(figures.rate),
            came_bytes: figures.came_bytes,
            lent_bytes: figures.lent_bytes,
            expected_hit_ratio: figures.expected_hit_ratio,
        })
    }

    /// This host, with any of its peers.
    pub(super) fn peering(&self) -> &Peering {
        &self.peering
    }

    /// This host and the peer that a disk goes to or comes from.
    pub(super) fn peering_of(&self, entry: &Entry) -> &Peering {
        let of_image = || self.images.get(&entry.id).map(|(_, peering)| peering);
        let of_disk = self.disks.get(&entry.id).map(|at| &at.peering);
        of_disk.or_else(of_image).unwrap_or(&self.peering)
    }

    /// The disks that move with one.
    pub(super) fn others(&self, entry: &Entry) -> &[Name] {
        let at = self.disks.get(&entry.id);
        at.map_or(&[], |at| &at.others)
    }

    /// What the peer's VM has otherwise, if it does not move the same disks together.
    pub(super) fn differs(&self, entry: &Entry) -> Option<String> {
        self.view(entry).differs().map(str::to_owned)
    }

    fn view(&self, entry: &Entry) -> View {
        let at = self.disks.get(&entry.id);
        at.map_or_else(View::default, |at| at.seen.view())
    }

    /// Takes a disk over from an owner that is gone for good. Ends when it is here.
    ///
    /// # Errors
    /// If the owner is there, may have bytes that the origin lacks and are not given up with `lose_dirty`, or the disk
    /// cannot be taken.
    pub(super) async fn take_over(&self, entry: &Entry, lose_dirty: bool) -> Result<(), Problem> {
        let name = &entry.config.name;
        let refused = |detail: String| Problem::new(ProblemKind::Refused, detail);
        if self.view(entry).role() == Some(Role::Owner) {
            return Err(
                refused(format!("the disk '{name}' is here already")).with_remedy("nothing")
            );
        }
        self.find(entry).await?;
        if self.peering_of(entry).stands() {
            self.may_take_from_peer(entry).await?;
        }
        let order = |reply| Order::TakeOver {
            lose_dirty,
            above: Parent::here(),
            reply,
        };
        self.order(entry, order).await?;
        let until = tokio::time::Instant::now() + PATIENCE;
        while self.view(entry).role() != Some(Role::Owner) {
            if tokio::time::Instant::now() >= until {
                let detail =
                    format!("the disk '{name}' is this host's now, and cannot be opened yet");
                let problem = Problem::new(ProblemKind::NotReady, detail);
                return Err(problem
                    .with_remedy("hearth migrate show says why; it is tried again by itself"));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Lets a disk's task look which peer has the disk, if there are several.
    ///
    /// # Errors
    /// As [`Self::order`].
    pub(super) async fn find(&self, entry: &Entry) -> Result<(), Problem> {
        if self.peering.has_others() {
            self.order(entry, Order::Find).await?;
        }
        Ok(())
    }

    /// Whether the disks of a VM may be taken although the peer is there: neither host serves them, since they are at
    /// different ones.
    async fn may_take_from_peer(&self, entry: &Entry) -> Result<(), Problem> {
        let peering = self.peering_of(entry);
        let there = peering.there();
        let refused = |detail: String| Problem::new(ProblemKind::Refused, detail);
        if self.view(entry).split().is_none() {
            let detail = format!("'{there}' is there: a session with it stands");
            return Err(
                refused(detail).with_remedy("move the VM: the disk follows its first write")
            );
        }
        match peering.ask_look(entry.id).await {
            Ok(look) if look.role == DiskRole::Standby => Ok(()),
            Ok(_) => {
                let detail = format!("a hand-over of the disk is under way at '{there}'");
                Err(refused(detail).with_remedy("repeat the command in a moment"))
            }
            Err(_) => {
                let detail = format!("'{there}' does not say what the disk is to it");
                Err(refused(detail).with_remedy("repeat the command in a moment"))
            }
        }
    }

    /// Tells a disk's task what an operator says. Ends when that is done.
    ///
    /// # Errors
    /// If the disk's task refuses, or does not listen yet.
    pub(super) async fn order(
        &self,
        entry: &Entry,
        order: impl FnOnce(Obeyed) -> Order,
    ) -> Result<(), Problem> {
        let stopping = || Problem::new(ProblemKind::Stopping, "the daemon is stopping");
        let (reply, obeyed) = oneshot::channel();
        let at = self.disks.get(&entry.id).ok_or_else(stopping)?;
        (at.tell)(order(reply));
        // The task of a disk that is in doubt does not listen yet.
        let asked = tokio::time::timeout(PATIENCE, obeyed).await;
        let not_ready = || {
            let why = Problem::new(ProblemKind::Origin, "its record cannot be read");
            not_ready(&entry.config.name, &why)
        };
        asked.map_err(|_| not_ready())?.map_err(|_| stopping())?
    }

    /// How a disk roams that does; `status` is how it is served.
    pub(super) fn disk(&self, entry: &Entry, status: &DiskStatus) -> RoamingDisk {
        let (view, peering) = (self.view(entry), self.peering_of(entry));
        let is_idle = matches!(view.role(), Some(Role::Standby | Role::Claiming));
        let split = view.split().filter(|_| is_idle);
        let role = match (view.role(), split) {
            (_, Some(_)) => RoamingRole::Split,
            (role, None) => role.map_or(RoamingRole::InDoubt, shown),
        };
        let remedy = split.map(|_| take_remedy(&status.vm));
        let is_here = matches!(role, RoamingRole::Owner | RoamingRole::Granting);
        let lacks = status.write_back.as_ref();
        let left = || lacks.map_or(0, |lacks| lacks.dirty_bytes);
        let problem = match role {
            RoamingRole::InDoubt => status.reason.clone(),
            RoamingRole::Split => split.map(str::to_owned),
            _ => view.problem().map(str::to_owned),
        };
        let count = |outcome| HandOverCount {
            outcome,
            count: view.held(outcome).count(),
        };
        RoamingDisk {
            name: status.name.clone(),
            id: status.id.clone(),
            vm: status.vm.clone(),
            moves_with: self.others(entry).to_vec(),
            cache: status.cache.clone(),
            role,
            epoch: view.epoch(),
            peer: peering.session(),
            problem,
            remedy,
            left_bytes: is_here.then(left),
            cache_move: view.cache_move().cloned(),
            held_seconds: view
                .holds_since()
                .map(|since| since.elapsed().as_secs_f64()),
            last_hand_over: view.last().map(|last| HandOver {
                outcome: last.outcome,
                peer: last.peer.clone(),
                ago_seconds: last.at.elapsed().as_secs_f64(),
                held_seconds: last.held.as_secs_f64(),
            }),
            hand_overs: HandOverOutcome::ALL.map(count).to_vec(),
        }
    }

    /// This host, its peers, these disks and images, and the hand-overs of all.
    pub(super) fn all(&self, disks: Vec<RoamingDisk>, images: Vec<FollowingImage>) -> RoamingDisks {
        let views: Vec<View> = self.disks.values().map(|at| at.seen.view()).collect();
        let held = HandOverOutcome::ALL.map(|outcome| {
            let mut held = Histogram::default();
            for view in &views {
                held.add(view.held(outcome));
            }
            HeldTime {
                outcome,
                held: answers::latency(&held),
            }
        });
        RoamingDisks {
            host: Some(self.peering.here().to_owned()),
            peers: self.peering.all().map(|peer| peer.session()).collect(),
            disks,
            images,
            held: held.to_vec(),
        }
    }
}

/// What to do about the disks of a VM that are at different hosts.
fn take_remedy(vm: &Name) -> String {
    format!(
        "hearth migrate take {vm} --yes-its-owner-is-dead, at the host where the VM is to run; after a hand-over amid which \
         a daemon was killed start that first: it goes on"
    )
}

fn shown(role: Role) -> RoamingRole {
    match role {
        Role::Owner => RoamingRole::Owner,
        Role::Standby => RoamingRole::Standby,
        Role::Claiming => RoamingRole::Claiming,
        Role::Taking => RoamingRole::Taking,
        Role::Granting => RoamingRole::Granting,
        Role::Giving => RoamingRole::Giving,
    }
}
