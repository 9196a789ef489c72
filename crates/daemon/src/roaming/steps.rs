//! The steps of a hand-over that take time: each is under way on its own while the task listens on.

use super::origin_lock::OriginLocked;
use super::plan::Plan;
use super::register::Register;
use super::shipping::Shipping;
use super::standing::Preparation;
use super::{Error, demand};
use crate::control::Control;
use crate::peering::Peering;
use crate::problems::handed_alone;
use crate::registry::{Entry, Phase};
use crate::shards;
use api::types::Problem;
use block_io::OriginGeometry;
use cache::{OfDirty, Tenure};
use configuration::{Dirty, WritePolicy};
use events::EventKind;
use handoff::{Hold, Kept, Record, TakeError};
use link_protocol::Frame;
use shard::{Reply, ShardHandle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use units::Bytes;

/// After how long what failed or was refused is tried again.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// How long a VM waits at most for what it wants to be looked up.
const DEMAND_TIME_MAX: Duration = Duration::from_millis(50);

/// What a disk's hand-over is carried out with.
pub(super) struct Steps {
    pub(super) control: Arc<Control>,
    pub(super) entry: Entry,
    pub(super) handle: ShardHandle,
    pub(super) peering: Peering,
    pub(super) register: Register,
    /// What its origin is like, whoever has the disk.
    geometry: OriginGeometry,
    pub(super) size: Bytes,
    pub(super) plan: Arc<Plan>,
    /// What keeps the origin locked while its record is written.
    locked: Mutex<Option<OriginLocked>>,
    /// The last failure that was logged: it is not said again until something has gone well.
    failure: Mutex<Option<String>>,
    /// With which epoch the disk comes of which the cache was copied ahead.
    copied: AtomicU64,
    /// What of the disk's dirty data goes to the other host, or comes from there.
    pub(super) shipping: Arc<Shipping>,
    /// Whether a VM here waits for the disk.
    pub(super) claims: watch::Sender<bool>,
    /// Who has what the origin lacks, when the disk is settled and not drained.
    kept: Mutex<Option<Kept>>,
    /// Why it could not be settled.
    stays: Mutex<Option<String>>,
    /// The epoch that it is open here with; 0: it is not.
    open_in: AtomicU64,
}

impl Steps {
    /// For a disk with this geometry, with the shard that serves it and the peer.
    pub(super) fn new(
        control: Arc<Control>,
        entry: Entry,
        (handle, peering): (ShardHandle, Peering),
        register: Register,
        geometry: OriginGeometry,
    ) -> Self {
        let plan = Arc::new(Plan::new(&entry.config.migration, peering.pace()));
        Self {
            control,
            plan,
            entry,
            handle,
            peering,
            register,
            geometry,
            size: geometry.size,
            locked: Mutex::new(None),
            failure: Mutex::new(None),
            copied: AtomicU64::new(0),
            shipping: Arc::default(),
            claims: watch::Sender::new(false),
            kept: Mutex::new(None),
            stays: Mutex::new(None),
            open_in: AtomicU64::new(0),
        }
    }

    /// Lets the clients' requests wait. False if that is not right any more.
    pub(super) async fn hold(&self, why: Hold) -> bool {
        let id = self.entry.id;
        self.set_kept(None);
        self.ask(|shard, reply| shard.hold(id, why, reply)).await
    }

    /// Whether the disk can be handed over now. Asked before requests wait, and before anything is decided.
    pub(super) async fn may_hand_over(self: Arc<Self>) -> bool {
        let register = self.register.clone();
        let reached = blocking(move || register.may_hand_over()).await;
        let can_go = self.has_gone_well(reached, "the disk stays here");
        if !can_go {
            *self.stays.lock().unwrap_or_else(PoisonError::into_inner) = self.failure();
        }
        can_go
    }

    /// Brings what is dirty to the other host, or to the origin. Requests wait meanwhile. False if that has failed.
    pub(super) async fn settle(self: Arc<Self>) -> bool {
        let kept = self.ship_rest().await;
        self.set_kept(kept);
        let is_settled = kept.is_some() || self.destage().await;
        if !is_settled {
            *self.stays.lock().unwrap_or_else(PoisonError::into_inner) = self.failure();
        }
        is_settled
    }

    /// Tells the other host what the VM wants of this one's flash. What it is not told it finds out.
    pub(super) async fn tell_demand(self: Arc<Self>) -> bool {
        let vm = self.entry.vm();
        let asked = shards::ask(&self.handle, ShardHandle::status);
        if let Ok(Ok(status)) = tokio::time::timeout(DEMAND_TIME_MAX, asked).await {
            let mut tenants = status.tenants.iter();
            let tenant = tenants.find(|tenant| tenant.name == vm.as_str());
            let mut reports = status.reports.iter();
            let report =
                tenant.and_then(|tenant| reports.find(|report| report.tenant == tenant.slot));
            if let Some(report) = report {
                let demand = demand::of_report(self.entry.id, report);
                let _ = self.peering.say(Frame::notice(demand)).await;
            }
        }
        true
    }

    /// Why the disk could not go, since this was asked last.
    pub(super) fn why_it_stays(&self) -> Option<String> {
        let mut stays = self.stays.lock().unwrap_or_else(PoisonError::into_inner);
        stays.take()
    }

    fn set_kept(&self, kept: Option<Kept>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    /// Who has what the origin lacks, if the disk was settled so.
    pub(super) fn kept(&self) -> Option<Kept> {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what the origin lacks goes along with the disk, as far as this host is asked.
    pub(super) fn ships(&self) -> bool {
        self.may_ship() && self.is_written_back()
    }

    /// The same, whether anything is written back now or not.
    pub(super) fn may_ship(&self) -> bool {
        self.entry.config.migration.dirty() == Dirty::Ship
    }

    /// Whether the origin may lack what was written.
    pub(super) fn is_written_back(&self) -> bool {
        let now = self.control.registry().get(&self.entry.config.name);
        now.unwrap_or_else(|| self.entry.clone())
            .config
            .write_policy
            == WritePolicy::Back
    }

    /// Brings what is dirty to the origin. False if that has failed.
    pub(super) async fn destage(&self) -> bool {
        let id = self.entry.id;
        self.ask(|shard, reply| shard.destage(id, reply)).await
    }

    /// Lets go of the origin's lock.
    pub(super) fn unlock(&self) {
        *self.locked.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let (disk, to) = (&self.entry.config.name, self.peering.there());
        tracing::info!(event = EventKind::DiskGiven.word(), %disk, to, "the disk is given away");
    }

    /// Does what is to be done before the disk is opened with this epoch; requests wait until then at most.
    pub(super) async fn prepare(
        self: Arc<Self>,
        preparation: Preparation,
        epoch: u64,
        until: Instant,
    ) -> bool {
        if preparation.finish(epoch, until).await {
            self.copied.store(epoch, Ordering::Relaxed);
        }
        true
    }

    /// Takes the peer's word that the disk is here with this epoch, where the record foresaw that.
    pub(super) async fn receive(&self, epoch: u64) -> Result<(), TakeError> {
        let register = self.register.clone();
        let received = blocking(move || register.receive(epoch)).await;
        if self.has_gone_well(received, "the disk cannot be taken yet") {
            Ok(())
        } else {
            Err(TakeError::Failed)
        }
    }

    /// What its record says; `None`: it cannot be read now.
    pub(super) async fn recorded(&self) -> Option<Record> {
        let register = self.register.clone();
        let outcome = blocking(move || register.recorded()).await;
        match outcome {
            Ok(record) => Some(record),
            Err(error) => {
                self.log_failure(
                    units::errors::chain(&*error),
                    "the disk cannot be taken yet",
                );
                None
            }
        }
    }

    /// The record names another host while those of other disks of the VM name this one.
    pub(super) fn tell_of_other_owner(&self) {
        let why = "its owner's record names another host than those of other disks of its VM";
        self.log_failure(why.to_owned(), "the VM's disks cannot be taken");
    }

    /// Whether it is open here with this epoch.
    pub(super) fn is_open_in(&self, epoch: u64) -> bool {
        self.open_in.load(Ordering::Relaxed) == epoch
    }

    /// Closes the origin; its lock is another matter.
    pub(super) async fn close(self: Arc<Self>) -> bool {
        let id = self.entry.id;
        // What another host has it destages.
        let dirty = match self.kept() {
            Some(_) => OfDirty::Keep,
            None => OfDirty::Flush,
        };
        while !self.ask(|shard, reply| shard.give(id, dirty, reply)).await {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        if self.control.refuse_when_stopping().is_err() {
            // The disk may have left with writes that can still land: the next daemon waits for those.
            std::future::pending::<()>().await;
        }
        self.control
            .opener()
            .settle_origin(&self.entry, false)
            .await;
        self.control.registry().give_origin_back(&self.entry);
        self.plan.set_copied(None);
        self.open_in.store(0, Ordering::Relaxed);
        self.show_standby();
        true
    }

    /// Lets the record name the peer; the origin stays locked.
    pub(super) async fn record(self: Arc<Self>, epoch: u64) -> bool {
        let register = self.register.clone();
        let recording =
            blocking(move || Ok::<_, String>((register.record(epoch)?, register.owes())));
        let outcome = recording.await.map(|(opened, owes)| {
            *self.locked.lock().unwrap_or_else(PoisonError::into_inner) = opened;
            let why = owes.then(|| handed_alone(&self.entry.config.name));
            self.control.registry().owe(&self.entry, why);
        });
        self.has_gone_well(outcome, "who has the disk now is not recorded yet")
    }

    /// Locks and opens the disk with this epoch, if its record names this host.
    pub(super) async fn take(&self, epoch: u64) -> Result<(), TakeError> {
        if self.is_open_in(epoch) {
            return Ok(());
        }
        let holder = shard::Holder {
            host: self.peering.here().to_owned(),
            epoch,
        };
        // An operator may have given it another policy since it was here last.
        let now = self.control.registry().get(&self.entry.config.name);
        let entry = now.as_ref().unwrap_or(&self.entry);
        let policy = entry.config.write_policy;
        let opener = self.control.opener();
        let tenure = if self.copied.load(Ordering::Relaxed) == epoch {
            Tenure::Successor
        } else {
            Tenure::Owner
        };
        let taking = opener.take_roaming(entry, policy, holder, tenure, self.size);
        match taking.await {
            Ok(Some(phase)) => {
                self.control.registry().set_phase(&self.entry, phase);
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let disk = &self.entry.config.name;
                tracing::info!(event = EventKind::DiskTaken.word(),
                    %disk, epoch, "the disk is here");
                self.open_in.store(epoch, Ordering::Relaxed);
                Ok(())
            }
            Ok(None) => {
                self.show_standby();
                Err(TakeError::NotOurs)
            }
            Err(problem) => {
                self.log_failure(Problem::in_a_line(&problem), "the disk cannot be taken yet");
                self.show_standby();
                Err(TakeError::Failed)
            }
        }
    }

    /// Clients find the disk, which is elsewhere.
    pub(super) fn show_standby(&self) {
        let phase = Phase::Standby {
            geometry: self.geometry,
        };
        self.control.registry().set_phase(&self.entry, phase);
        let name = &self.entry.config.name;
        self.control.disk_sockets().settle_disk(name);
    }

    async fn ask(&self, send: impl FnOnce(&ShardHandle, Reply<()>)) -> bool {
        let outcome = shards::ask(&self.handle, send).await;
        self.has_gone_well(outcome, "the disk stays here")
    }

    pub(super) fn has_gone_well<T>(
        &self,
        outcome: Result<T, impl Into<Error>>,
        consequence: &str,
    ) -> bool {
        match outcome {
            Ok(_) => true,
            Err(error) => {
                let error: Error = error.into();
                self.log_failure(units::errors::chain(&*error), consequence);
                false
            }
        }
    }

    /// The last failure, until something has gone well.
    pub(super) fn failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone()
    }

    fn log_failure(&self, reason: String, consequence: &str) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref() != Some(&reason) {
            let disk = &self.entry.config.name;
            tracing::warn!(event = EventKind::HandOverFailed.word(),
                %disk, reason, "{consequence}");
            *failure = Some(reason);
        }
    }
}

async fn blocking<T: Send + 'static, E: Into<Error> + Send + 'static>(
    what: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(what).await?.map_err(Into::into)
}
