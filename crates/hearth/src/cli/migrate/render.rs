//! Disks that roam as text.

use crate::terminal::quantity::{bytes, time};
use crate::terminal::{Side, Table, facts};
use api::roaming::{
    CacheMove, FollowingImage, HandOver, HandOverOutcome, MovePhase, PeerSession, RoamingDisk,
    RoamingDisks, RoamingRole,
};
use configuration::{Auto, Dirty};
use std::fmt::{self, Write};
use units::Bytes;

/// `hearth migrate list`.
pub(super) fn list(out: &mut String, all: &RoamingDisks) -> fmt::Result {
    let mut table = Table::new(&[
        ("disk", Side::Left),
        ("vm", Side::Left),
        ("role", Side::Left),
        ("epoch", Side::Right),
        ("peer", Side::Left),
        ("session", Side::Left),
        ("left", Side::Right),
        ("last", Side::Left),
    ]);
    for disk in &all.disks {
        table.row(vec![
            disk.name.to_string(),
            disk.vm.to_string(),
            disk.role.word().to_owned(),
            disk.epoch.map_or_else(dash, |epoch| epoch.to_string()),
            disk.peer.name.clone(),
            if disk.peer.stands { "stands" } else { "down" }.to_owned(),
            disk.left_bytes.map_or_else(dash, bytes),
            disk.last_hand_over.as_ref().map_or_else(dash, |last| {
                format!("{} {} ago", last.outcome.word(), time(last.ago_seconds))
            }),
        ]);
    }
    for image in &all.images {
        table.row(vec![
            image.name.to_string(),
            dash(),
            "image".to_owned(),
            dash(),
            image.peer.name.clone(),
            if image.peer.stands { "stands" } else { "down" }.to_owned(),
            dash(),
            dash(),
        ]);
    }
    write!(out, "{table}")
}

fn dash() -> String {
    "-".to_owned()
}

/// `hearth migrate show`.
pub(super) fn disk(out: &mut String, disk: &RoamingDisk) -> fmt::Result {
    let mut lines = vec![
        ("disk", format!("{} ({})", disk.name, disk.id)),
        ("vm", vm(disk)),
        ("here", here(disk).to_owned()),
    ];
    if let Some(problem) = &disk.problem {
        lines.push(("problem", problem.clone()));
    }
    if let Some(remedy) = &disk.remedy {
        lines.push(("", format!("try: {remedy}")));
    }
    lines.push((
        "epoch",
        disk.epoch.map_or_else(dash, |epoch| epoch.to_string()),
    ));
    lines.push((
        "peer",
        format!("{} at {}", disk.peer.name, disk.peer.address),
    ));
    lines.extend(session(&disk.peer));
    if let Some(left) = disk.left_bytes {
        let moves = disk.cache_move.as_ref();
        let goes_along = moves.is_some_and(|moves| moves.dirty == Dirty::Ship);
        let left = match left {
            left if left > 0 && goes_along => {
                format!("{} go to the origin, or along with the disk", bytes(left))
            }
            0 => "nothing has to reach the origin before it can be given away".to_owned(),
            left => format!(
                "{} have to reach the origin before it can be given away",
                bytes(left)
            ),
        };
        lines.push(("left", left));
    }
    if let Some(moves) = &disk.cache_move {
        lines.extend(cache_move(moves));
    }
    if let Some(held) = disk.held_seconds {
        lines.push(("held", format!("requests wait since {}", time(held))));
    }
    let last = disk.last_hand_over.as_ref();
    lines.push((
        "last",
        last.map_or_else(|| "no hand-over since the start".to_owned(), hand_over),
    ));
    let counts = disk.hand_overs.iter();
    let counts: Vec<String> = counts
        .map(|one| format!("{} {}", one.count, one.outcome.word()))
        .collect();
    lines.push(("hand-overs", counts.join(", ")));
    facts(out, &lines)
}

/// `hearth migrate show` of a base image.
pub(super) fn image(out: &mut String, image: &FollowingImage) -> fmt::Result {
    let phase = match image.phase {
        MovePhase::Idle | MovePhase::Expected => "no VM is expected".to_owned(),
        MovePhase::Ahead => format!("copied here ahead of {}", names(&image.coming)),
        MovePhase::Behind => "copied here behind a VM that has come".to_owned(),
    };
    let mut lines = vec![
        ("image", format!("{} ({})", image.name, image.id)),
        ("here", "served by both hosts: nobody owns it".to_owned()),
    ];
    if let Some(problem) = &image.problem {
        lines.push(("problem", problem.clone()));
    }
    lines.push((
        "peer",
        format!("{} at {}", image.peer.name, image.peer.address),
    ));
    lines.extend(session(&image.peer));
    lines.push(("cache", format!("{phase}: {}", rate(image.rate.0))));
    let (came, lent) = (bytes(image.came_bytes), bytes(image.lent_bytes));
    lines.push((
        "",
        format!("{came} came from the peer, {lent} were lent to it"),
    ));
    lines.extend(expected_hits(image.expected_hit_ratio));
    facts(out, &lines)
}

/// What may change of a base image, in a line.
pub(super) fn image_line(image: &FollowingImage) -> String {
    let stands = if image.peer.stands {
        "stands"
    } else {
        "is down"
    };
    let mut line = format!(
        "{}: image; session with {} {stands}; cache {}, {} came, {} lent",
        image.name,
        image.peer.name,
        image.phase.word(),
        bytes(image.came_bytes),
        bytes(image.lent_bytes)
    );
    if let Some(problem) = image.problem.as_ref().or(image.peer.problem.as_ref()) {
        // Writing to a string does not fail.
        let _ = write!(line, "; {problem}");
    }
    line
}

fn names(names: &[configuration::Name]) -> String {
    let names = names.iter().map(configuration::Name::as_str);
    names.collect::<Vec<_>>().join(", ")
}

/// Several disks, each in full.
pub(super) fn disks(out: &mut String, all: &RoamingDisks) -> fmt::Result {
    for (at, one) in all.disks.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        disk(out, one)?;
    }
    Ok(())
}

/// Whose disk it is, and what moves with it.
fn vm(disk: &RoamingDisk) -> String {
    let others = names(&disk.moves_with);
    if others.is_empty() {
        disk.vm.to_string()
    } else {
        format!("{}, moves with {others}", disk.vm)
    }
}

/// What this host is to the disk.
fn here(disk: &RoamingDisk) -> &'static str {
    match disk.role {
        RoamingRole::Owner => "owner: VMs are served from this host's cache",
        RoamingRole::Standby => {
            "stands by: a VM can attach, and gets the disk with its first write"
        }
        RoamingRole::Claiming => "stands by, and claims the disk for a VM that waits",
        RoamingRole::Taking => "takes the disk: it is locked and opened here",
        RoamingRole::Granting => "owner: the peer has claimed the disk, and requests wait",
        RoamingRole::Giving => "gives the disk away: that is decided",
        RoamingRole::InDoubt => "IN DOUBT: who has the disk is not known yet",
        RoamingRole::Split => {
            "SPLIT: the VM's disks are at different hosts, and nobody serves them"
        }
    }
}

fn cache_move(moves: &CacheMove) -> Vec<(&'static str, String)> {
    let phase = match moves.phase {
        MovePhase::Idle => "no move is expected",
        MovePhase::Expected => "a move is expected",
        MovePhase::Ahead => "copied here ahead of the disk",
        MovePhase::Behind => "comes here behind the disk",
    };
    let (came, lent) = (bytes(moves.came_bytes), bytes(moves.lent_bytes));
    let rate = rate(moves.rate.0);
    let mut lines = vec![
        ("cache", format!("{phase}: {}, {rate}", moves.strategy)),
        (
            "",
            format!("{came} came from the peer, {lent} were lent to it"),
        ),
    ];
    lines.extend(expected_hits(moves.expected_hit_ratio));
    lines.extend(dirty_data(moves));
    lines
}

fn rate(rate: Auto<Bytes>) -> String {
    match rate {
        Auto::Auto => "half of the time".to_owned(),
        Auto::Fixed(rate) => format!("at most {} a second", bytes(rate.get())),
    }
}

fn expected_hits(ratio: Option<f64>) -> Option<(&'static str, String)> {
    let percent = 100.0 * ratio?;
    Some((
        "",
        format!("{percent:.0} % of the peer's hits are expected to hit here"),
    ))
}

/// What becomes of what the origin lacks, if it goes along.
fn dirty_data(moves: &CacheMove) -> Vec<(&'static str, String)> {
    if moves.dirty == Dirty::Drain {
        return Vec::new();
    }
    let now = match moves.behind_bytes {
        None => "goes along with the disk".to_owned(),
        Some(0) => "goes to the host that stands by: it has everything".to_owned(),
        Some(behind) => {
            let behind = bytes(behind);
            format!("goes to the host that stands by: it lacks {behind} of the log")
        }
    };
    let (shipped, kept) = (bytes(moves.shipped_bytes), bytes(moves.kept_bytes));
    vec![
        ("dirty", now),
        (
            "",
            format!("{shipped} went to the peer, {kept} came from it"),
        ),
    ]
}

fn session(peer: &PeerSession) -> Vec<(&'static str, String)> {
    if peer.stands {
        return vec![("session", format!("stands for {}", time(peer.for_seconds)))];
    }
    let mut lines = vec![("session", format!("DOWN for {}", time(peer.for_seconds)))];
    if let Some(problem) = &peer.problem {
        lines.push(("", problem.clone()));
    }
    if let Some(remedy) = &peer.remedy {
        lines.push(("", format!("try: {remedy}")));
    }
    lines
}

fn hand_over(last: &HandOver) -> String {
    let (peer, ago) = (&last.peer, time(last.ago_seconds));
    let held = time(last.held_seconds);
    match last.outcome {
        HandOverOutcome::Taken => format!("taken from {peer} {ago} ago, requests held for {held}"),
        HandOverOutcome::Given => format!("given to {peer} {ago} ago, requests held for {held}"),
        HandOverOutcome::Kept => {
            format!("claimed by {peer} {ago} ago, held for {held}, and it stayed here")
        }
        HandOverOutcome::Failed => {
            format!("claimed from {peer} in vain {ago} ago, requests failed after {held}")
        }
    }
}

/// What may change of a disk, in a line.
pub(super) fn line(disk: &RoamingDisk) -> String {
    let mut line = format!("{}: {}", disk.name, disk.role.word());
    // Writing to a string does not fail.
    if let Some(epoch) = disk.epoch {
        let _ = write!(line, ", epoch {epoch}");
    }
    let stands = if disk.peer.stands {
        "stands"
    } else {
        "is down"
    };
    let _ = write!(line, "; session with {} {stands}", disk.peer.name);
    if let Some(left) = disk.left_bytes {
        let _ = write!(line, "; {} left", bytes(left));
    }
    if let Some(moves) = disk
        .cache_move
        .as_ref()
        .filter(|one| one.phase != MovePhase::Idle)
    {
        let _ = write!(
            line,
            "; cache {}, {} came, {} lent",
            moves.phase.word(),
            bytes(moves.came_bytes),
            bytes(moves.lent_bytes)
        );
    }
    let behind = disk.cache_move.as_ref().and_then(|one| one.behind_bytes);
    if let Some(behind) = behind {
        let _ = write!(line, "; {} of its log to be shipped", bytes(behind));
    }
    let ended = disk.hand_overs.iter().filter(|one| one.count > 0);
    for one in ended {
        let _ = write!(line, "; {} {}", one.count, one.outcome.word());
    }
    if let Some(problem) = disk.problem.as_ref().or(disk.peer.problem.as_ref()) {
        let _ = write!(line, "; {problem}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::samples;

    #[test]
    fn the_list_looks_as_agreed() {
        let mut out = String::new();
        list(&mut out, &samples::roaming()).unwrap();
        assert_eq!(
            out,
            "DISK    VM     ROLE     EPOCH  PEER    SESSION     LEFT  LAST\n\
             db      web-1  standby      7  node-b  down           -  -\n\
             web-1   web-1  owner        7  node-b  stands   12.0MiB  taken 2min 5s ago\n\
             debian  -      image        -  node-b  stands         -  -\n"
        );
    }

    #[test]
    fn a_disk_looks_as_agreed() {
        let all = samples::roaming();
        let mut out = String::new();
        for one in &all.disks {
            disk(&mut out, one).unwrap();
            writeln!(out, "{}", line(one)).unwrap();
        }
        for one in &all.images {
            image(&mut out, one).unwrap();
            writeln!(out, "{}", image_line(one)).unwrap();
        }
        assert_eq!(out, include_str!("../snapshots/migrate_show.txt"));
    }
}
