//! `hearth group run`: the waves of a plan, carried out as moves of the cluster.
//!
//! Each VM of a wave is given its share of the link, its move is begun, and once a second the shares are dealt anew by what
//! each migration has left. The next wave begins when all moves of the last one are over.

use super::answer::{Answer, VmAnswer, WaveAnswer};
use crate::moves::begin;
use crate::terminal::exit::{CliError, Exit};
use api::client::{Client, Method};
use api::cluster::{ClusterMove, ClusterMoves, ClusterStatus};
use configuration::Name;
use groups::{Load, Problem, Rate, latency};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use units::Bytes;
use units::number::{count_near, real};

/// How often the shares are dealt.
const DEAL_EVERY: Duration = Duration::from_secs(1);
/// A share is said again when it has changed by so much, or so late.
const CHANGED: f64 = 0.02;
const SAY_AGAIN: Duration = Duration::from_secs(20);

/// What has become of a plan.
#[derive(Debug, Serialize)]
pub(super) struct Ran {
    pub(super) waves: Vec<RanWave>,
    /// VMs that were where they are to go before.
    pub(super) there_before: Vec<String>,
}

/// What has become of a wave.
#[derive(Debug, Serialize)]
pub(super) struct RanWave {
    pub(super) vms: Vec<RanVm>,
    /// What the plan said, from the first migration's beginning to the last one's end.
    pub(super) planned_seconds: Option<f64>,
    pub(super) took_seconds: Option<f64>,
    /// Between the first VM that was across and the last one.
    pub(super) apart_seconds: Option<f64>,
}

/// What has become of a VM's move.
#[derive(Debug, Serialize)]
pub(super) struct RanVm {
    pub(super) vm: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) stage: String,
    pub(super) cause: Option<String>,
}

/// A VM of the wave that crosses now.
struct Crossing {
    name: Name,
    /// What it has left, as far as is known.
    load: Load,
    last: ClusterMove,
    began: Option<Instant>,
    across: Option<Instant>,
    /// The share that was said last, and when.
    said: Option<(f64, Instant)>,
}

/// Carries a plan out.
pub(super) async fn run(
    client: &Client,
    problem: &Problem,
    plan: &Answer,
) -> Result<Ran, CliError> {
    let status: ClusterStatus = client.get("/v1/cluster").await?;
    let moves: ClusterMoves = client.get("/v1/cluster/moves").await?;
    check(plan, &status, &moves)?;
    let mut ran = Ran {
        waves: Vec::new(),
        there_before: Vec::new(),
    };
    for wave in &plan.waves {
        let (there, goes): (Vec<_>, Vec<_>) = wave
            .vms
            .iter()
            .partition(|vm| vm.to.as_deref() == host_of(&status, &vm.vm));
        ran.there_before
            .extend(there.iter().map(|vm| vm.vm.clone()));
        if goes.is_empty() {
            continue;
        }
        let one = cross(client, problem, wave, &goes).await?;
        let stays = one.vms.iter().find(|vm| vm.stage != "done");
        let stays = stays.map(|vm| {
            let cause = vm.cause.as_deref().unwrap_or("no cause is known");
            format!("the move of {} is {}: {cause}", vm.vm, vm.stage)
        });
        ran.waves.push(one);
        if let Some(why) = stays {
            let at = ran.waves.len();
            let message = format!("wave {at} is not across, and no other was begun: {why}");
            return Err(CliError::new(Exit::Failed, message)
                .with_remedy("hearth move list; then the same command goes on with what is left"));
        }
    }
    Ok(ran)
}

fn host_of<'a>(status: &'a ClusterStatus, vm: &str) -> Option<&'a str> {
    let mut disks = status.disks.iter().filter(|disk| disk.vm == vm);
    disks.find_map(|disk| disk.host.as_deref())
}

/// What would end in the middle is refused before anything is moved.
fn check(plan: &Answer, status: &ClusterStatus, moves: &ClusterMoves) -> Result<(), CliError> {
    let refused = |message: String, remedy: String| {
        Err(CliError::new(Exit::Refused, message).with_remedy(remedy))
    };
    if !plan.converges {
        return refused(
            "a wave of the plan does not end".to_owned(),
            "hearth group plan says which VMs are to blame".to_owned(),
        );
    }
    let mut needs = [1, 1, 1];
    for wave in &plan.waves {
        let (mut from, mut to) = (BTreeMap::new(), BTreeMap::new());
        for vm in &wave.vms {
            let Some(at) = host_of(status, &vm.vm) else {
                let message = format!("no host has a disk of a VM '{}' attached", vm.vm);
                return refused(message, "hearth cluster status lists the VMs".to_owned());
            };
            *from.entry(at).or_insert(0) += 1;
            *to.entry(vm.to.as_deref()).or_insert(0) += 1;
        }
        needs[0] = needs[0].max(from.into_values().max().unwrap_or(0));
        needs[1] = needs[1].max(to.into_values().max().unwrap_or(0));
        needs[2] = needs[2].max(wave.vms.len());
    }
    let limits = moves.limits;
    let may = [limits.outbound, limits.arrivals, limits.cluster];
    if needs.iter().zip(may).any(|(needs, may)| *needs > may) {
        let [send, take, all] = needs;
        return refused(
            format!(
                "a wave of the plan needs {send} from a host, {take} to a host, {all} in all at a time; the cluster's limits are {}, {}, {}",
                may[0], may[1], may[2]
            ),
            format!(
                "hearth cluster set --send-max {send} --take-max {take} --moves-max {all}, or smaller waves: --sizes"
            ),
        );
    }
    Ok(())
}

/// Lets the VMs of a wave cross, and waits until their moves are over.
async fn cross(
    client: &Client,
    problem: &Problem,
    wave: &WaveAnswer,
    goes: &[&VmAnswer],
) -> Result<RanWave, CliError> {
    let mut crossing = Vec::new();
    for vm in goes {
        let name: Name = vm
            .vm
            .parse()
            .map_err(|error| CliError::of(Exit::Usage, &error))?;
        let share = vm.bandwidth_bytes_per_second.unwrap_or(0.0);
        say(client, &name, share).await?;
        let last = begin(client, &name, vm.to.as_deref().unwrap_or_default()).await?;
        crossing.push(Crossing {
            name,
            load: Load {
                size: Bytes::new(vm.bytes),
                dirty: rate(vm.dirty_bytes_per_second),
            },
            last,
            began: None,
            across: None,
            said: Some((share, Instant::now())),
        });
    }
    while crossing.iter().any(|one| !one.last.is_final) {
        tokio::time::sleep(DEAL_EVERY).await;
        for one in crossing.iter_mut().filter(|one| !one.last.is_final) {
            one.look(client).await?;
        }
        deal(client, problem, &mut crossing).await?;
    }
    let began = crossing.iter().filter_map(|one| one.began).min();
    let across = || crossing.iter().filter_map(|one| one.across);
    let (first, last) = (across().min(), across().max());
    let seconds =
        |from: Option<Instant>, to: Option<Instant>| Some(to?.duration_since(from?).as_secs_f64());
    Ok(RanWave {
        planned_seconds: wave.time_seconds,
        took_seconds: seconds(began, last),
        apart_seconds: seconds(first, last),
        vms: crossing.into_iter().map(RanVm::from).collect(),
    })
}

impl Crossing {
    async fn look(&mut self, client: &Client) -> Result<(), CliError> {
        let path = format!("/v1/cluster/moves/{}", self.name);
        self.last = client.get(&path).await?;
        let source = self.last.hosts.first();
        let migrates = source.is_some_and(|source| source.migrates == Some(true));
        let now = Instant::now();
        if migrates || self.last.stage == "migrating" {
            self.began.get_or_insert(now);
        }
        if matches!(self.last.stage.as_str(), "granted" | "draining" | "done") {
            self.across.get_or_insert(now);
        }
        if let Some(left) = source.filter(|_| migrates).and_then(|of| of.left_bytes) {
            self.load.size = Bytes::new(left);
            let dirty = source.and_then(|of| of.dirty_bytes_per_second);
            if let Some(dirty) = dirty.filter(|dirty| *dirty > 0) {
                self.load.dirty = rate(real(dirty));
            }
        }
        Ok(())
    }

    const fn crosses(&self) -> bool {
        !self.last.is_final && self.across.is_none()
    }
}

/// Deals the link among those that are not across.
async fn deal(
    client: &Client,
    problem: &Problem,
    crossing: &mut [Crossing],
) -> Result<(), CliError> {
    let crosses = crossing.iter().filter(|one| one.crosses());
    let loads: Vec<Load> = crosses.map(|one| one.load).collect();
    // What has just been dirtied faster than the link takes it is dealt with when it is known better.
    let Ok(timing) = latency::of_wave(&loads, problem.link(), problem.split()) else {
        return Ok(());
    };
    let crosses = crossing.iter_mut().filter(|one| one.crosses());
    for (one, share) in crosses.zip(timing.shares) {
        let share = share.bandwidth.bytes_per_second();
        let is_said = one.said.is_some_and(|(said, at)| {
            (share - said).abs() < said * CHANGED && at.elapsed() < SAY_AGAIN
        });
        if !is_said {
            say(client, &one.name, share).await?;
            one.said = Some((share, Instant::now()));
        }
    }
    Ok(())
}

async fn say(client: &Client, vm: &Name, share: f64) -> Result<(), CliError> {
    let body = json!({ "bytes_per_second": count_near(share.max(1.0)) });
    let path = format!("/v1/cluster/moves/{vm}/pace");
    Ok(client.send(Method::POST, &path, Some(&body)).await?)
}

fn rate(bytes_per_second: f64) -> Rate {
    Rate::new(bytes_per_second).unwrap_or(Rate::ZERO)
}

impl From<Crossing> for RanVm {
    fn from(of: Crossing) -> Self {
        let ClusterMove {
            vm,
            from,
            to,
            stage,
            cause,
            ..
        } = of.last;
        Self {
            vm,
            from,
            to,
            stage,
            cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::cluster::{ClusterDisk, MoveLimits, StoreState};

    fn status(at: &[(&str, &str)]) -> ClusterStatus {
        let disk = |(vm, host): &(&str, &str)| ClusterDisk {
            name: (*vm).to_owned(),
            vm: (*vm).to_owned(),
            host: Some((*host).to_owned()),
            ..ClusterDisk::default()
        };
        ClusterStatus {
            cluster: "main".to_owned(),
            here: "a".to_owned(),
            store: StoreState {
                kind: "file".to_owned(),
                answers: true,
                problem: None,
                remedy: None,
                age_seconds: None,
            },
            hosts: Vec::new(),
            disks: at.iter().map(disk).collect(),
        }
    }

    fn plan(wave: &[(&str, &str)], converges: bool) -> Answer {
        let vm = |(vm, to): &(&str, &str)| VmAnswer {
            vm: (*vm).to_owned(),
            to: Some((*to).to_owned()),
            bytes: 1,
            dirty_bytes_per_second: 0.0,
            bandwidth_bytes_per_second: None,
            time_seconds: None,
        };
        Answer {
            method: "serial",
            sizes: String::new(),
            split: "dealt",
            seed: 1,
            link_bytes_per_second: 1.0,
            converges,
            time_seconds: None,
            volume_bytes: None,
            serial_volume_bytes: None,
            saved: None,
            waves: vec![WaveAnswer {
                vms: wave.iter().map(vm).collect(),
                time_seconds: None,
                ends_seconds: None,
                split_bytes_per_second: 0.0,
                blamed: Vec::new(),
                never_alone: Vec::new(),
            }],
            methods: Vec::new(),
            vms_without_traffic: Vec::new(),
            vms_that_stay: 0,
            stays_bytes_per_second: 0.0,
            rates_cut_down: 0,
        }
    }

    #[test]
    fn what_would_end_in_the_middle_is_refused_before_it_begins() {
        let moves = |outbound, arrivals, cluster| ClusterMoves {
            mode: "advise".to_owned(),
            limits: MoveLimits {
                outbound,
                arrivals,
                cluster,
            },
            moves: Vec::new(),
        };
        let status = status(&[("v", "a"), ("w", "a")]);
        let wave = [("v", "b"), ("w", "c")];
        assert!(check(&plan(&wave, true), &status, &moves(2, 1, 2)).is_ok());
        for (plan, moves, why) in [
            (plan(&wave, false), moves(9, 9, 9), "does not end"),
            (plan(&wave, true), moves(1, 1, 5), "needs 2 from a host"),
            (plan(&wave, true), moves(2, 1, 1), "2 in all"),
            (
                plan(&[("v", "b"), ("w", "b")], true),
                moves(2, 1, 2),
                "2 to a host",
            ),
            (plan(&[("x", "b")], true), moves(2, 2, 2), "no host has"),
        ] {
            let error = check(&plan, &status, &moves).unwrap_err();
            assert!(error.to_json().contains(why), "{}", error.to_json());
        }
    }
}
