//! How a disk begins to roam: once it is known how large it is, and whose.

use super::register::Register;
use super::steps::{RETRY_PAUSE, Steps};
use super::task::Roamer;
use super::{Happens, Told};
use crate::control::Control;
use crate::hand_overs::Seen;
use crate::peering::Peering;
use crate::registry::Entry;
use api::problem::ProblemKind;
use api::types::Problem;
use block_io::OriginGeometry;
use handoff::{Found, Ownership};
use shard::Offer;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// After how long a key that cannot be had is asked for again: a program may be run for it.
const KEY_PAUSE: Duration = Duration::from_secs(2);

/// What a disk has from before it entered.
pub(super) struct Entered {
    /// Tells its reads from those of other disks.
    pub(super) number: u32,
    pub(super) tell: UnboundedSender<Happens>,
    pub(super) told: Told,
    pub(super) seen: Arc<Seen>,
}

/// Carries a disk that roams until the daemon stops.
pub(super) async fn run(
    control: Arc<Control>,
    entry: Entry,
    peering: Peering,
    Entered {
        number,
        tell,
        mut told,
        seen,
    }: Entered,
) {
    let Some(shard) = control.shards().get(&entry.cache) else {
        return;
    };
    let handle = shard.handle().clone();
    let register = Register::new(&control, &entry, &peering);
    let (geometry, found) = loop {
        let (problem, pause) = match look(&control, &entry, &register).await {
            Ok(found) => break found,
            Err(problem) => problem,
        };
        control.registry().wait(&entry, problem);
        tokio::time::sleep(pause).await;
        if control.refuse_when_stopping().is_err() {
            return;
        }
    };
    let offer = Offer {
        name: entry.config.name.to_string(),
        size: geometry.size,
        read_only: false,
        can_discard: geometry.can_discard,
    };
    let needing = tell.clone();
    let needed = Arc::new(move |notice| {
        // A task that has ended has no clients.
        let _ = needing.send(Happens::Needed(notice));
    });
    handle.roam(entry.id, offer, needed);
    let steps = Steps::new(control, entry, (handle, peering), register, geometry);
    steps.show_standby();
    let (ownership, actions) = Ownership::found(found);
    let recorded = found.record.map(|record| record.epoch);
    let epoch = ownership.epoch().or(recorded);
    seen.note((ownership.role(), epoch), None, None);
    let roamer = Roamer::new(steps, ownership, number, tell, seen);
    roamer.run(actions, &mut told).await;
}

/// Looks what a disk is like, and whose, once its key can be had: a host without the key claims nothing. What is in the
/// way otherwise, and after how long to look again.
async fn look(
    control: &Control,
    entry: &Entry,
    register: &Register,
) -> Result<(OriginGeometry, Found), (Problem, Duration)> {
    let key = control.opener().key_of(entry).await;
    key.map_err(|problem| (problem, KEY_PAUSE))?;
    let register = register.clone();
    let looking = tokio::task::spawn_blocking(move || register.look());
    let why = match looking.await {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(why)) => why,
        Err(error) => error.to_string(),
    };
    Err((Problem::new(ProblemKind::Origin, why), RETRY_PAUSE))
}
