//! How the disks of a VM begin to roam: once it is known how large each is, and whose.

use super::images::Images;
use super::member::Member;
use super::places::Entered;
use super::register::Register;
use super::steps::{RETRY_PAUSE, Steps};
use super::task::Roamer;
use super::{Happens, Told};
use crate::control::Control;
use crate::peering::Peering;
use crate::registry::Entry;
use api::problem::ProblemKind;
use api::types::Problem;
use block_io::OriginGeometry;
use handoff::{Ownership, Record};
use shard::Offer;
use std::sync::Arc;
use std::time::Duration;
use telemetry::Tracer;

/// After how long a key that cannot be had is asked for again: a program may be run for it.
const KEY_PAUSE: Duration = Duration::from_secs(2);

/// What a disk is like, what its record and the decision of its unit say, and which host they make the partner.
type Found = (OriginGeometry, handoff::Found, Option<String>);
/// What is in the way of a look, and after how long to look again.
type NotFound = (Problem, Duration);

/// Carries the disks of a VM that roam until the daemon stops.
pub(super) async fn run(disks: Vec<Entered>, images: Images, mut told: Told, tracer: Tracer) {
    let mut registers = Vec::new();
    let Some(first) = disks.first() else {
        return;
    };
    let (leader, peering) = (first.entry.id, first.peering.clone());
    for disk in &disks {
        registers.push(Register::new(&disk.control, &disk.entry, &peering, leader));
    }
    let Some(found) = look_until_found(&disks, &registers).await else {
        return;
    };
    let record = Record::of_unit(found.iter().filter_map(|(_, found, _)| found.record));
    let partner = found.iter().find_map(|(_, _, partner)| partner.as_deref());
    if let Some(peer) = partner.and_then(|name| peering.named(name)) {
        peering.turn(peer);
    }
    // One that is not about all of these disks was made when others were the VM's.
    let mut decisions = found.iter().map(|(_, found, _)| found.decision);
    let decision = decisions.next().flatten();
    let decision = decision.filter(|_| decisions.all(|other| other == decision));
    let (ownership, actions) = Ownership::found(handoff::Found { record, decision });
    let epoch = ownership.epoch().or(record.map(|record| record.epoch));
    let mut members = Vec::new();
    for ((disk, register), (geometry, _, _)) in disks.into_iter().zip(registers).zip(found) {
        disk.seen.note((ownership.role(), epoch), None, None);
        let Some(member) = member(disk, register, geometry, &peering) else {
            return;
        };
        members.push(member);
    }
    Roamer::new(members, (ownership, peering), images, tracer)
        .run(actions, &mut told)
        .await;
}

fn member(
    disk: Entered,
    register: Register,
    geometry: OriginGeometry,
    peering: &Peering,
) -> Option<Member> {
    let shard = disk.control.shards().get(&disk.entry.cache)?;
    let handle = shard.handle().clone();
    let offer = Offer {
        name: disk.entry.config.name.to_string(),
        size: geometry.size,
        read_only: false,
        can_discard: geometry.can_discard,
    };
    let needing = disk.tell.clone();
    let needed = Arc::new(move |notice| {
        // A unit that has ended has no clients.
        let _ = needing.send(Happens::Needed(notice));
    });
    handle.roam(disk.entry.id, offer, needed);
    let (control, entry) = (disk.control, disk.entry);
    let steps = Steps::new(
        control,
        entry,
        (handle, peering.clone()),
        register,
        geometry,
    );
    steps.show_standby();
    Some(Member::new(steps, disk.number, disk.tell, disk.seen))
}

/// Looks at all disks of a unit until each is found. `None`: the daemon stops.
async fn look_until_found(disks: &[Entered], registers: &[Register]) -> Option<Vec<Found>> {
    loop {
        let mut looks: Vec<Result<Found, NotFound>> = Vec::new();
        for (disk, register) in disks.iter().zip(registers) {
            looks.push(look(&disk.control, &disk.entry, register).await);
        }
        let first = disks.iter().zip(&looks).find_map(|(disk, look)| {
            let (problem, _) = look.as_ref().err()?;
            Some((disk.entry.config.name.clone(), problem.detail.clone()))
        });
        let Some((name, why)) = first else {
            return looks.into_iter().collect::<Result<_, _>>().ok();
        };
        let mut pause = RETRY_PAUSE;
        for (disk, look) in disks.iter().zip(looks) {
            let problem = match look {
                Ok(_) => {
                    let detail =
                        format!("it moves with its VM's disk '{name}', which is not ready: {why}");
                    Problem::new(ProblemKind::Origin, detail)
                }
                Err((problem, its)) => {
                    pause = pause.max(its);
                    problem
                }
            };
            disk.control.registry().wait(&disk.entry, problem);
        }
        tokio::time::sleep(pause).await;
        let is_stopping = |disk: &Entered| disk.control.refuse_when_stopping().is_err();
        if disks.iter().any(is_stopping) {
            return None;
        }
    }
}

/// Looks what a disk is like, and whose, once its key can be had: a host without the key claims nothing. What is in the
/// way otherwise, and after how long to look again.
async fn look(control: &Control, entry: &Entry, register: &Register) -> Result<Found, NotFound> {
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
