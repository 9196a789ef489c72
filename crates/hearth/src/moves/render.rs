//! Moves in words and tables.

use crate::terminal::{Side, Table, quantity};
use api::cluster::{ClusterMove, ClusterMoves, MoveHost, MovePlan};
use std::fmt::{self, Write};

/// What stands where there is nothing.
const NONE: &str = "-";

/// Writes all moves.
pub(super) fn list(out: &mut String, moves: &ClusterMoves) -> fmt::Result {
    let ClusterMoves {
        mode,
        limits,
        moves,
    } = moves;
    writeln!(
        out,
        "mode {mode}; at a time: a host sends {}, takes {}, the cluster moves {}",
        limits.outbound, limits.arrivals, limits.cluster
    )?;
    if moves.is_empty() {
        return writeln!(out, "no VM was moved");
    }
    writeln!(out)?;
    let mut table = Table::new(&[
        ("vm", Side::Left),
        ("from", Side::Left),
        ("to", Side::Left),
        ("stage", Side::Left),
        ("for", Side::Right),
        ("driver", Side::Left),
        ("why", Side::Left),
    ]);
    for one in moves {
        table.row(vec![
            one.vm.clone(),
            one.from.clone(),
            one.to.clone(),
            one.stage.clone(),
            quantity::time(one.for_seconds),
            one.driver.clone().unwrap_or_else(|| NONE.to_owned()),
            why(one),
        ]);
    }
    write!(out, "{table}")
}

/// Why a move is, or does not go on.
fn why(one: &ClusterMove) -> String {
    if let Some(cause) = &one.cause {
        return cause.clone();
    }
    match &one.planned {
        Some(planned) => overloaded(planned),
        None => "an operator began it".to_owned(),
    }
}

fn overloaded(planned: &MovePlan) -> String {
    format!(
        "{:.1}% for {} windows, bound {:.1}%",
        planned.load * 100.0,
        planned.windows,
        planned.load_max * 100.0
    )
}

/// Writes one move.
pub(super) fn one(out: &mut String, one: &ClusterMove) -> fmt::Result {
    writeln!(out, "vm          {}", one.vm)?;
    writeln!(out, "way         {} to {}", one.from, one.to)?;
    let stage = &one.stage;
    writeln!(
        out,
        "stage       {stage} for {}",
        quantity::time(one.for_seconds)
    )?;
    writeln!(out, "why         {}", why(one))?;
    let driver = one.driver.as_deref().unwrap_or("nobody yet");
    writeln!(out, "driver      {driver}, step {}", one.step)?;
    if one.stage == "planned" {
        writeln!(
            out,
            "  try       hearth move approve {0}, or hearth move cancel {0}",
            one.vm
        )?;
    }
    if one.stage == "failed" {
        writeln!(
            out,
            "  try       hearth migrate show {}, at both hosts",
            one.vm
        )?;
    }
    for (side, host) in ["source", "target"].into_iter().zip(&one.hosts) {
        host_line(out, side, host)?;
    }
    match &one.planned {
        Some(planned) => plan(out, planned),
        None => Ok(()),
    }
}

fn host_line(out: &mut String, side: &str, host: &MoveHost) -> fmt::Result {
    let mut said = vec![host.host.clone()];
    if host.migrates == Some(true) {
        said.push("migrates the VM".to_owned());
    }
    if let (Some(true), Some(left)) = (host.migrates, host.left_bytes) {
        said.push(format!("{} of its memory are left", quantity::bytes(left)));
    }
    if let Some(warm) = host.warm_percent {
        said.push(format!(
            "{warm} % of the source's hits are expected to hit there"
        ));
    }
    if let Some(problem) = &host.problem {
        said.push(problem.clone());
    }
    writeln!(out, "{side:<11} {}", said.join(": "))
}

fn plan(out: &mut String, of: &MovePlan) -> fmt::Result {
    let percent = |part: f64| format!("{:.1}%", part * 100.0);
    writeln!(
        out,
        "expected    the VM needs {}, hits {}; source {}, target {}; {} s of transfer, saves {} s, costs {} s",
        quantity::bytes(of.demand_bytes),
        percent(of.vm_hits),
        percent(of.source_load),
        percent(of.target_load),
        of.transfer_seconds.round(),
        of.gain_seconds.round(),
        of.cost_seconds.round(),
    )?;
    match &of.found {
        Some(found) => {
            let hits = found.hits.map_or_else(|| "unknown".to_owned(), percent);
            let needs = quantity::bytes(found.demand_bytes);
            writeln!(out, "found       the VM needs {needs}, hits {hits}")
        }
        None => writeln!(out, "found       nothing yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::cluster::MoveLimits;

    fn example() -> ClusterMove {
        let host = |name: &str| MoveHost {
            host: name.to_owned(),
            problem: None,
            warm_percent: None,
            migrates: None,
            left_bytes: None,
            dirty_bytes_per_second: None,
        };
        ClusterMove {
            vm: "web-1".to_owned(),
            from: "node-a".to_owned(),
            to: "node-b".to_owned(),
            stage: "prepared".to_owned(),
            is_final: false,
            cause: None,
            for_seconds: 12.0,
            driver: Some("node-c".to_owned()),
            step: 4,
            hosts: vec![
                MoveHost {
                    migrates: Some(false),
                    ..host("node-a")
                },
                MoveHost {
                    warm_percent: Some(40),
                    problem: Some("no room".to_owned()),
                    ..host("node-b")
                },
            ],
            planned: None,
        }
    }

    #[test]
    fn a_move_says_who_and_how_far_and_what_is_wrong() {
        let mut text = String::new();
        one(&mut text, &example()).unwrap();
        for line in [
            "way         node-a to node-b",
            "stage       prepared for 12.0s",
            "why         an operator began it",
            "driver      node-c, step 4",
            "source      node-a\n",
            "target      node-b: 40 % of the source's hits are expected to hit there: no room",
        ] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
    }

    #[test]
    fn a_list_says_the_mode_and_why_moves_are() {
        let moves = ClusterMoves {
            mode: "auto".to_owned(),
            limits: MoveLimits {
                outbound: 1,
                arrivals: 2,
                cluster: 5,
            },
            moves: vec![ClusterMove {
                cause: Some("it took too long".to_owned()),
                ..example()
            }],
        };
        let mut text = String::new();
        list(&mut text, &moves).unwrap();
        assert!(
            text.starts_with(
                "mode auto; at a time: a host sends 1, takes 2, the cluster moves 5\n"
            )
        );
        let row = text.lines().last().unwrap();
        assert!(
            row.starts_with("web-1") && row.ends_with("it took too long"),
            "{row}"
        );
    }
}
