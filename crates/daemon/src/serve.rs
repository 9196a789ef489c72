//! `hearth serve`: from a configuration to a running daemon, and to its clean end.
//!
//! ```text
//!  configuration ─► state directory (lock) ─► shards ─► admin socket ─► disks ─► NBD sockets
//!                                                                                   │ READY
//!  end ◄─ admin socket ◄─ shards: detach, settle the flash ◄─ sockets ◄─── SIGTERM, SIGINT
//! ```
//!
//! A disk's vhost-user socket comes with the disk: see `disk_sockets.rs`.
//!
//! NBD clients are accepted when every disk was tried once, or after a moment: a client that
//! comes earlier finds no listener and tries again, one that finds a listener without its
//! disk gives up.

use super::admin::Shown;
use super::admin_listeners::serve_admin;
use super::assembly::{Daemon, Seen, assemble};
use super::attach_at_start::attach_at_start;
use super::background::{keep_history, keep_watch};
use super::cluster::Cluster;
use super::control::Control;
use super::drive_watch::DriveWatch;
use super::error::{ServeError, ServeErrorKind};
use super::event_log::{EventLog, Lines};
use super::guest_sockets::GuestSockets;
use super::keep_ledger::keep_ledger;
use super::listen::{self, ListenError, NbdListener};
use super::log;
use super::own_process::OwnProcess;
use super::page_access::PageAccess;
use super::page_tls::PageTls;
use super::reload::Reloader;
use super::renewal::Renewal;
use super::roaming::Roaming;
use super::service::{self, Inherited};
use super::settings::runtime_dir;
use super::shards::Pulse;
use super::signals::{End, Signals};
use super::sockets::Sockets;
use super::state::{StateDir, StateError};
use super::traces::Traces;
use api::types::DiskSource;
use configuration::{Config, DiskConfig, LogFormat, Switch};
use events::EventKind;
use nbd_server::Server;
use shard::ShardHandle;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long the NBD sockets wait for disks whose origins take their time.
const ATTACH_PATIENCE: Duration = Duration::from_secs(5);
/// How long the NBD sockets wait for caches to be opened; 1 TiB takes about 10 s.
const OPENING_TIME_MAX: Duration = Duration::from_mins(10);
/// How much more time systemd is asked for at a time.
const OPENING_TIME_STEP: units::Duration = units::Duration::from_secs(30);
/// How long open admin requests may take after everything else has ended.
const ADMIN_FAREWELL: Duration = Duration::from_secs(1);
/// How long recording may take which writes origins' servers may still carry out.
const ORIGINS_FAREWELL: Duration = Duration::from_secs(2);
/// How long threads of control may take to end before the process ends, or becomes another one.
const CONTROL_FAREWELL: Duration = Duration::from_millis(500);
/// How long those wait who connected to a disk's vhost-user socket before its disk was attached. A
/// QEMU that has connected stands still as a whole until it is answered; one that is refused runs
/// on, without this disk.
const QUEUE_PATIENCE: Duration = Duration::from_secs(5);
/// Threads for control, handshakes and TLS; guests' requests have their shards' own.
const CONTROL_THREADS: usize = 2;

/// Runs the daemon until it is told to stop. `log` and `log_format` stand instead of the
/// configuration's, which was read from `path` and is read again there when an operator says so.
///
/// # Errors
/// If it cannot start, or did not stop cleanly.
pub fn serve(
    (config, path): (&Config, &Path),
    log: Option<&str>,
    log_format: Option<LogFormat>,
) -> Result<(), ServeError> {
    // Before any thread is started: it changes the environment.
    let sockets = Sockets::new(Inherited::take());
    let renewal = Renewal::new().map_err(|error| ServeError::failed(&error))?;
    let daemon = &config.daemon;
    let filter = log.unwrap_or(&daemon.log);
    let format = log_format.unwrap_or(daemon.log_format);
    let events = Arc::new(EventLog::new());
    let log_filter = log::start(
        filter,
        format,
        daemon.log_target,
        Lines(Arc::clone(&events)),
    )
    .map_err(|error| ServeError::of(ServeErrorKind::Usage, &error))?;
    let page = Arc::new(PageAccess::of(&config.web));
    let page_tls = PageTls::of(&config.web).map(Arc::new);
    let reloader = Reloader::new(path.to_owned(), config.clone(), (log_filter, log.is_some()))
        .with_page(page_tls.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .map_err(|error| ServeError::failed(&error))?;
    let outcome = runtime.block_on(run(config, &sockets, &renewal, (&events, reloader, page)));
    // A thread that still opens an origin is not waited for.
    runtime.shutdown_timeout(CONTROL_FAREWELL);
    if let Err(error) = &outcome {
        tracing::error!(reason = error.message, "ending");
    }
    if matches!(outcome, Ok(End::Renewed)) {
        let error = renewal.become_it(sockets.heirs());
        tracing::error!(%error, "this process could not become another one");
        return Err(ServeError::failed(&error));
    }
    outcome.map(|_| ())
}

fn open_state(config: &Config, sockets: &Arc<Sockets>) -> Result<StateDir, ServeError> {
    let state = StateDir::open(&config.daemon.state_dir).map_err(|error| match error {
        StateError::InUse { .. } => ServeError::of(ServeErrorKind::Refused, &error)
            .with_remedy("each daemon needs a state directory of its own: daemon.state_dir"),
        StateError::Io { .. } | StateError::Foreign { .. } => ServeError::failed(&error)
            .with_remedy("make room in daemon.state_dir, or let the daemon write it: what protects the bytes of disks is written there before they are served"),
    })?;
    let state = state.sharing(config.daemon.owners_dir.clone());
    Ok(state.keeping_in(runtime_dir(config), Arc::<Sockets>::clone(sockets)))
}

fn cluster_of(config: &Config) -> Result<Option<Cluster>, ServeError> {
    Cluster::of(config).map_err(|error| {
        ServeError::of(ServeErrorKind::Failed, &error)
            .with_remedy("correct [store] in the configuration")
    })
}

async fn start_roaming(config: &Config, traces: &Traces) -> Result<Option<Roaming>, ServeError> {
    Roaming::start(config, &traces.tracer)
        .await
        .map_err(|error| {
            ServeError::of(ServeErrorKind::Failed, &*error)
                .with_remedy("correct [link] and [[peer]] in the configuration")
        })
}

async fn run(
    config: &Config,
    sockets: &Arc<Sockets>,
    renewal: &Renewal,
    (events, reloader, page): (&Arc<EventLog>, Reloader, Arc<PageAccess>),
) -> Result<End, ServeError> {
    let mut signals = Signals::new().map_err(|error| ServeError::failed(&error))?;
    let cluster = cluster_of(config)?;
    let state = open_state(config, sockets)?.in_cluster(cluster.as_ref().map(Cluster::records));
    let disks_before = state.disks().map_err(|error| ServeError::failed(&error))?;
    let traces = Traces::start(config).map_err(|error| ServeError::failed(&error))?;
    let roaming = start_roaming(config, &traces).await?;
    let Daemon {
        control,
        exports,
        server,
        new_locks,
        guests,
        seen,
    } = assemble(
        config,
        sockets,
        state,
        roaming.as_ref().map(Roaming::answers),
        cluster,
        &traces.tracer,
    )
    .await?;
    let ledger = tokio::spawn(keep_ledger(Arc::clone(&control)));
    keep_watch(&control, new_locks);
    let_go_of_sockets(&control, sockets, nbd_socket(config));
    let (end_admin, admin_ends) = watch::channel(false);
    let about = (seen, Arc::clone(&guests), Arc::clone(events));
    let shown = shown(config, &control, about, (reloader, page), &traces);
    let admin = serve_admin(config, sockets, (&control, shown), admin_ends)
        .map_err(|error| error.told())?;
    let (end_nbd, nbd_ends) = watch::channel(false);
    let mut nbd = JoinSet::new();
    let told_early = tokio::select! {
        () = attach_disks(&control, config, disks_before, roaming) => false,
        () = signals.stop() => true,
    };
    let mut end = End::Stopped;
    if !told_early {
        let serving = serve_nbd(config, sockets, &control, server, nbd_ends);
        nbd = serving.await.map_err(|error| error.told())?;
        let watchdog = tokio::spawn(watchdog(Arc::clone(&control)));
        tell_of_start();
        end = signals.end(renewal).await;
        watchdog.abort();
    }
    tell_of_end(end, config);
    sockets.leave(matches!(end, End::Renewed));
    ledger.abort();
    control.stop();
    guests.close();
    exports.stop();
    let stopped = tokio::select! {
        stopped = settle(&control, config, end_nbd, nbd) => stopped,
        () = signals.impatience(&mut end) => {
            Err(ServeError::new(ServeErrorKind::Failed, "told to stop twice: ended at once"))
        }
    };
    // The admin socket goes last, so that `hearth status` shows a slow stop.
    events.close();
    let _ = end_admin.send(true);
    let _ = tokio::time::timeout(ADMIN_FAREWELL, admin.join_all()).await;
    traces.finish().await;
    stopped_as(end, stopped).map(|()| end)
}

/// What operators see and use beside the control.
fn shown(
    config: &Config,
    control: &Arc<Control>,
    (seen, guests, events): (Option<Seen>, Arc<GuestSockets>, Arc<EventLog>),
    (reloader, page): (Reloader, Arc<PageAccess>),
    traces: &Traces,
) -> Shown {
    Shown {
        seen,
        guests,
        events,
        history: keep_history(config, control),
        process: OwnProcess::new(),
        drives: DriveWatch::start(config, control),
        reloader: Arc::new(reloader),
        page,
        tracer: traces.tracer.clone(),
        spans: traces.counts(),
        disk_details: config.daemon.metrics_disk_details,
    }
}

fn tell_of_start() {
    tracing::info!(
        event = EventKind::DaemonStarted.word(),
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
    service::ready("serving");
}

fn tell_of_end(end: End, config: &Config) {
    match end {
        End::Renewed => service::renewing(),
        End::Stopped => service::stopping(config.daemon.stop_timeout.0),
    }
    tracing::info!(
        event = EventKind::DaemonStops.word(),
        is_renewed = matches!(end, End::Renewed),
        "stopping"
    );
}

/// What comes of a stop that was not clean.
fn stopped_as(end: End, stopped: Result<(), ServeError>) -> Result<(), ServeError> {
    match stopped {
        Ok(()) => tracing::info!("stopped"),
        // The guests wait for the next one, which recovers.
        Err(error) if matches!(end, End::Renewed) => {
            tracing::error!(reason = error.message, "not stopped cleanly");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn nbd_socket(config: &Config) -> Option<PathBuf> {
    match &config.nbd.unix_socket.0 {
        Switch::On(path) => Some(path.0.clone()),
        Switch::Off => None,
    }
}

/// Closes the inherited sockets of disks that are not attached in time.
fn let_go_of_sockets(control: &Arc<Control>, sockets: &Arc<Sockets>, nbd: Option<PathBuf>) {
    let (control, sockets) = (Arc::clone(control), Arc::clone(sockets));
    tokio::spawn(async move {
        tokio::time::sleep(QUEUE_PATIENCE).await;
        sockets.let_go(nbd.as_deref());
        sockets.let_go_of_origins(&control.opener().origins_wanted());
    });
}

/// Records which writes origins' servers may still carry out.
async fn record_late_writes(control: &Control) {
    let recording = tokio::time::timeout(ORIGINS_FAREWELL, control.opener().settle_origins());
    if recording.await.is_err() {
        tracing::error!("the state directory does not answer: late writes are not recorded");
    }
}

async fn serve_nbd(
    config: &Config,
    sockets: &Arc<Sockets>,
    control: &Control,
    server: Server,
    ends: watch::Receiver<bool>,
) -> Result<JoinSet<()>, ListenError> {
    let listeners = listen::nbd(config, sockets).await?;
    let unclaimed = sockets.close_foreign();
    if unclaimed > 0 {
        tracing::warn!(
            count = unclaimed,
            "sockets of the service manager that the configuration does not name"
        );
    }
    control
        .observer()
        .set_listeners(listeners.iter().map(|one| one.shown.clone()).collect());
    let mut tasks = JoinSet::new();
    for NbdListener {
        listener,
        offer,
        place,
        ..
    } in listeners
    {
        let (server, ends) = (server.clone(), ends.clone());
        tasks.spawn(async move {
            let _place = place;
            server.serve(listener, offer, ends).await;
        });
    }
    Ok(tasks)
}

/// Attaches the disks of the configuration and the remembered ones. Returns when the caches are
/// open and each disk was tried once, or [`ATTACH_PATIENCE`] later; the rest goes on.
async fn attach_disks(
    control: &Arc<Control>,
    config: &Config,
    remembered: Vec<DiskConfig>,
    roaming: Option<Roaming>,
) {
    // First, so that no block of a VM is judged by other settings than its own.
    control.tenancies().tell_all().await;
    let configured = config
        .disks
        .iter()
        .map(|disk| control.remembered().disks().over(disk));
    let configured = configured.map(|disk| (disk, DiskSource::Config));
    let remembered = remembered.into_iter().filter(|disk| {
        let in_file = config.disks.iter().any(|other| other.name == disk.name);
        if in_file {
            tracing::info!(disk = %disk.name, "the configuration file has this disk now");
        }
        !in_file
    });
    let remembered = remembered.map(|disk| (disk, DiskSource::Runtime));
    let mut attaching = JoinSet::new();
    for (disk, source) in configured.chain(remembered) {
        let name = disk.name.clone();
        let (moves, follows) = (disk.moves(), disk.follows());
        // In their order, so that two that claim the same come out alike at every start.
        let reserved = control.reserve(disk, source);
        control.disk_sockets().settle_disk(&name);
        match reserved {
            Ok(entry) if moves => {
                let Some(roaming) = roaming.clone() else {
                    continue;
                };
                let control = Arc::clone(control);
                tokio::spawn(async move {
                    control
                        .tenancies()
                        .tell_of(&entry.config, &entry.cache)
                        .await;
                    roaming.enter(control, entry).await;
                });
            }
            Ok(entry) => {
                if let (Some(roaming), true) = (&roaming, follows) {
                    roaming.follow(control, &entry);
                }
                attaching.spawn(attach_at_start(Arc::clone(control), entry));
            }
            Err(problem) => {
                tracing::error!(event = EventKind::DiskWaits.word(),
                    disk = %name, reason = problem.detail, "disk not attached");
            }
        }
    }
    wait_for_caches(control).await;
    let all = async { while attaching.join_next().await.is_some() {} };
    if tokio::time::timeout(ATTACH_PATIENCE, all).await.is_err() {
        tracing::warn!("some disks are not attached yet");
    }
    control.tenancies().warn_of_promises();
    attaching.detach_all();
}

/// Waits until every cache has looked at its flash, and tells systemd that this may take its
/// time.
async fn wait_for_caches(control: &Control) {
    let deadline = Instant::now() + OPENING_TIME_MAX;
    for shard in control.shards().all() {
        while matches!(shard.pulse().await, Pulse::Opening) {
            if Instant::now() >= deadline {
                tracing::warn!(cache = %shard.config().name, "the flash is not open yet");
                return;
            }
            service::starting("opening the caches", OPENING_TIME_STEP);
        }
    }
}

/// Ends the NBD sockets and then the shards, within the time that a stop may take.
async fn settle(
    control: &Arc<Control>,
    config: &Config,
    end_nbd: watch::Sender<bool>,
    nbd: JoinSet<()>,
) -> Result<(), ServeError> {
    let settling = async {
        let _ = end_nbd.send(true);
        nbd.join_all().await;
        // Nothing is asked any more; that nothing was recorded is no fault.
        let _ = Arc::clone(control.recordings()).stop().await;
        for shard in control.shards().all() {
            let name = &shard.config().name;
            if let Err(error) = shard.ask(ShardHandle::stop).await {
                tracing::warn!(cache = %name, %error, "the cache did not stop cleanly");
            }
        }
    };
    let limit = config.daemon.stop_timeout.0;
    let settled = tokio::time::timeout(limit.to_std(), settling).await;
    record_late_writes(control).await;
    match settled {
        Ok(()) => Ok(()),
        Err(_) => Err(ServeError::new(
            ServeErrorKind::Failed,
            format!("not stopped within {limit}; the next start recovers the caches"),
        )),
    }
}

/// Tells systemd that every shard's thread is alive, as often as it wants to know.
async fn watchdog(control: Arc<Control>) {
    let Some(interval) = service::watchdog_interval() else {
        return;
    };
    loop {
        let mut healthy = true;
        for shard in control.shards().all() {
            healthy &= !matches!(shard.pulse().await, Pulse::Silent);
        }
        if healthy {
            service::alive();
        } else {
            tracing::error!("a cache's thread does not answer");
        }
        tokio::time::sleep(interval).await;
    }
}
