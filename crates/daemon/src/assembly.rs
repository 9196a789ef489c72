//! The parts of a daemon, put together from a configuration and a state directory.

use super::cluster::{Cluster, Driven, MoveBook, Observed, View};
use super::control::Control;
use super::disk_book::DiskBook;
use super::disk_sockets::{DiskSockets, NbdSockets};
use super::error::ServeError;
use super::exports::DiskExports;
use super::guest_sockets::GuestSockets;
use super::lock_watch::Watch;
use super::observer::Observer;
use super::opening::Opener;
use super::policies::PolicyBook;
use super::recording::Recordings;
use super::registry::{Entry, Registry};
use super::remembered::Remembered;
use super::roaming_answers::RoamingAnswers;
use super::shards::{Shard, Shards};
use super::sockets::Sockets;
use super::state::StateDir;
use super::tenancies::Tenancies;
use super::vms::VmBook;
use super::{loads, moving, settings, starting};
use configuration::Config;
use nbd_server::Server;
use std::sync::Arc;
use telemetry::Tracer;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A daemon whose caches are being opened, and that has no disks yet.
pub(super) struct Daemon {
    /// What an operator can do.
    pub(super) control: Arc<Control>,
    /// What NBD clients can ask for.
    pub(super) exports: Arc<DiskExports>,
    /// What serves them.
    pub(super) server: Server,
    /// The locks of the disks that are attached, to be watched.
    pub(super) new_locks: UnboundedReceiver<(Entry, Watch)>,
    /// Where the agents in guests speak.
    pub(super) guests: Arc<GuestSockets>,
    /// The cluster that this host is in.
    pub(super) seen: Option<Seen>,
}

/// The cluster that this host is in, for an operator.
#[derive(Clone)]
pub(super) struct Seen {
    /// Its hosts and disks.
    pub(super) view: Arc<View>,
    /// Its moves.
    pub(super) moves: Arc<MoveBook>,
    /// What this host has observed of it.
    pub(super) observed: Arc<Observed>,
}

/// Starts the shards, and puts around them what an operator and clients need.
///
/// # Errors
/// If a shard cannot be started, or the state directory cannot be read.
pub(super) async fn assemble(
    config: &Config,
    sockets: &Arc<Sockets>,
    state: StateDir,
    roaming: Option<RoamingAnswers>,
    cluster: Option<Cluster>,
    tracer: &Tracer,
) -> Result<Daemon, ServeError> {
    let changed = state
        .settings()
        .map_err(|error| ServeError::failed(&error))?;
    let policies = Arc::new(PolicyBook::new(&config.caches, changed.caches));
    let shards = Arc::new(start_shards(config, &policies, &state).await?);
    let registry = Arc::new(Registry::of(&config.nbd));
    let vms = Arc::new(VmBook::new(&config.vms, changed.vms));
    let disk_book = DiskBook::new(&config.disks, changed.disks);
    let (exports, server, disk_sockets) = front_ends(config, sockets, &registry, &shards, &vms);
    let disk_sockets = Arc::new(disk_sockets);
    let recordings: Arc<Recordings> = Arc::default();
    let remembered = Arc::new(Remembered::new(
        Arc::clone(&vms),
        policies,
        disk_book,
        state,
    ));
    let (tell_lock, new_locks) = unbounded_channel();
    let tenancies = Tenancies::new(Arc::clone(&registry), Arc::clone(&shards), vms);
    let opener = Opener::new(
        Arc::clone(&registry),
        Arc::clone(&shards),
        Arc::clone(&remembered),
        Arc::clone(&recordings),
        tell_lock,
    );
    let guests = Arc::new(GuestSockets::new(
        config.guest.clone(),
        Arc::clone(&registry),
        Arc::clone(&shards),
        Arc::clone(sockets),
    ));
    tokio::spawn(Arc::clone(&guests).keep());
    let observer = Observer::new(
        Arc::clone(&registry),
        Arc::clone(&shards),
        Arc::clone(&disk_sockets),
        Arc::clone(&remembered),
        Arc::clone(&recordings),
        roaming,
        Arc::clone(&guests),
    );
    if let Some(cluster) = cluster.clone() {
        tokio::spawn(cluster.keep_present(Arc::clone(&registry), Arc::clone(&shards)));
    }
    let parts = (tenancies, opener, observer);
    let control = Control::new(
        registry,
        shards,
        disk_sockets,
        recordings,
        remembered,
        parts,
    );
    let control = Arc::new(control);
    let seen = match &cluster {
        Some(cluster) => Some(take_part(cluster, &control, config, tracer)?),
        None => None,
    };
    Ok(Daemon {
        control,
        exports,
        server,
        new_locks,
        guests,
        seen,
    })
}

/// Says what this host's VMs want, and takes part in moves of the cluster.
///
/// # Errors
/// If this host's name cannot be one in a cluster.
fn take_part(
    cluster: &Cluster,
    control: &Arc<Control>,
    config: &Config,
    tracer: &Tracer,
) -> Result<Seen, ServeError> {
    let me = cluster.me().map_err(|error| ServeError::failed(&error))?;
    let driven = Arc::new(Driven::new(me.clone(), tracer.clone()));
    let observed = Arc::new(Observed::new(me.clone(), Arc::clone(&driven)));
    let board = cluster.load_board();
    let loads = loads::publish(Arc::clone(control), board, Arc::clone(&observed));
    tokio::spawn(loads);
    let hypervisor = &config.hypervisor;
    let here = (Arc::clone(control), tracer.clone());
    moving::start(cluster, &me, here, hypervisor, &observed);
    let view = Arc::new(cluster.view());
    let moves = Arc::new(cluster.move_book(me, Arc::clone(&view), driven));
    Ok(Seen {
        view,
        moves,
        observed,
    })
}

/// How clients come to disks: the exports, the NBD server that has them, and the disks' own sockets.
fn front_ends(
    config: &Config,
    sockets: &Arc<Sockets>,
    registry: &Arc<Registry>,
    shards: &Arc<Shards>,
    vms: &Arc<VmBook>,
) -> (Arc<DiskExports>, Server, DiskSockets) {
    let exports = Arc::new(DiskExports::new(
        Arc::clone(registry),
        Arc::clone(shards),
        Arc::clone(vms),
        Arc::default(),
        config.nbd.clients.clone(),
    ));
    let server = Server::new(exports.clone(), settings::server(&config.nbd));
    let nbd = NbdSockets {
        config: config.nbd.clone(),
        server: server.clone(),
        exports: Arc::clone(&exports),
    };
    let disk_sockets = DiskSockets::new(
        (
            config.vhost_user.clone(),
            settings::guest_memory(&config.vhost_user),
        ),
        nbd,
        Arc::clone(registry),
        Arc::clone(shards),
        Arc::clone(vms),
        Arc::clone(sockets),
    );
    (exports, server, disk_sockets)
}

async fn start_shards(
    config: &Config,
    policies: &PolicyBook,
    state: &StateDir,
) -> Result<Shards, ServeError> {
    let mut shards = Shards::default();
    for cache in &config.caches {
        let policy = policies.settings(&cache.name);
        let common = settings::Common {
            nbd: &config.nbd,
            request_memory: config.request_memory_of_cache(),
            state_dir: state.path(),
            runtime_dir: settings::runtime_dir(config),
            lend_timeout: config.link.lend_timeout.0,
        };
        let settings = settings::shard(cache, &policy, &common);
        let handle = starting::start_shard(settings).await?;
        shards.add(Shard::new(handle, cache.clone()));
    }
    Ok(shards)
}
