//! What `hearth group plan` answers: the same as text and as JSON.

use super::args;
use super::input::Input;
use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit};
use groups::methods::random;
use groups::{Method, Plan, PlanError, Problem, Sizes, cost, limits};
use serde::Serialize;
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether a plan is done.
const LOOK: Duration = Duration::from_millis(5);

/// The answer. Rates are in bytes a second.
#[derive(Serialize)]
pub(super) struct Answer {
    pub(super) method: &'static str,
    pub(super) sizes: String,
    pub(super) split: &'static str,
    pub(super) seed: u64,
    pub(super) link_bytes_per_second: f64,
    /// Whether every wave ends.
    pub(super) converges: bool,
    pub(super) time_seconds: Option<f64>,
    /// Bytes that cross the link because the group is split.
    pub(super) volume_bytes: Option<f64>,
    /// The same with one VM at a time, in the mean over all orders.
    pub(super) serial_volume_bytes: Option<f64>,
    /// The part of that which the plan saves.
    pub(super) saved: Option<f64>,
    pub(super) waves: Vec<WaveAnswer>,
    /// Under `--compare`.
    pub(super) methods: Vec<MethodAnswer>,
    /// VMs that move and of which no traffic is known.
    pub(super) vms_without_traffic: Vec<String>,
    pub(super) vms_that_stay: usize,
    /// Traffic between VMs that move and VMs that stay.
    pub(super) stays_bytes_per_second: f64,
    /// Rates that were cut down to the largest that is believed.
    pub(super) rates_cut_down: usize,
}

/// VMs that cross together.
#[derive(Serialize)]
pub(super) struct WaveAnswer {
    pub(super) vms: Vec<VmAnswer>,
    pub(super) time_seconds: Option<f64>,
    /// When it is across, from the beginning of the plan.
    pub(super) ends_seconds: Option<f64>,
    /// Traffic over the link while the wave crosses.
    pub(super) split_bytes_per_second: f64,
    /// VMs without which the wave would end, if it does not.
    pub(super) blamed: Vec<String>,
    /// Those of them that do not end with the whole link either.
    pub(super) never_alone: Vec<String>,
}

/// A VM.
#[derive(Serialize)]
pub(super) struct VmAnswer {
    pub(super) vm: String,
    pub(super) to: Option<String>,
    pub(super) bytes: u64,
    pub(super) dirty_bytes_per_second: f64,
    /// What its migration is limited to.
    pub(super) bandwidth_bytes_per_second: Option<f64>,
    pub(super) time_seconds: Option<f64>,
}

/// What another method reaches.
#[derive(Serialize)]
pub(super) struct MethodAnswer {
    pub(super) method: &'static str,
    pub(super) volume_bytes: Option<f64>,
    pub(super) saved: Option<f64>,
    pub(super) time_seconds: Option<f64>,
    pub(super) waves: Option<usize>,
}

/// Plans what was asked for.
pub(super) fn plan(asked: &args::Plan, input: &Input) -> Result<(Plan, Answer), CliError> {
    let problem = &input.problem;
    let sizes = asked.sizes();
    let mut progress = Progress::new("planning");
    let found = watched(&mut progress, || {
        asked.method.plan(problem, &sizes, asked.seed)
    });
    let found = found.map_err(|error| refused(&error))?;
    let serial = serial_volume(problem);
    let mut answer = Answer {
        method: asked.method.word(),
        sizes: sizes.to_string(),
        split: problem.split().word(),
        seed: asked.seed,
        link_bytes_per_second: problem.link().bytes_per_second(),
        converges: found.time_s().is_some(),
        time_seconds: found.time_s(),
        volume_bytes: found.volume(),
        serial_volume_bytes: serial,
        saved: saved(found.volume(), serial),
        waves: waves(problem, &found, &asked.to),
        methods: Vec::new(),
        vms_without_traffic: input.silent.clone(),
        vms_that_stay: input.others,
        stays_bytes_per_second: input.with_others,
        rates_cut_down: input.clamped,
    };
    if asked.compare {
        answer.methods =
            compare(problem, &sizes, asked.seed, &mut progress).map_err(|error| refused(&error))?;
    }
    Ok((found, answer))
}

/// Does work on a thread of its own, and shows meanwhile for how long. Hundreds of VMs take seconds.
fn watched<T: Send>(progress: &mut Progress, work: impl FnOnce() -> T + Send) -> T {
    let begin = Instant::now();
    thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            thread::sleep(LOOK);
            progress.count_of(begin.elapsed().as_secs(), "seconds");
        }
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn refused(error: &PlanError) -> CliError {
    let told = CliError::of(Exit::Usage, error);
    match error {
        PlanError::TooManyForExact(_) => told.with_remedy("--method annealed"),
        _ => told,
    }
}

/// The mean volume of one VM at a time, unless one of them never ends.
fn serial_volume(problem: &Problem) -> Option<f64> {
    let ends = (0..problem.vms()).all(|vm| problem.time_of(&[vm]).is_ok());
    ends.then(|| cost::serial_mean(problem))
}

fn saved(volume: Option<f64>, serial: Option<f64>) -> Option<f64> {
    volume
        .zip(serial)
        .map(|(volume, serial)| cost::saved(volume, serial))
}

fn waves(problem: &Problem, plan: &Plan, hosts: &[String]) -> Vec<WaveAnswer> {
    let to = spread(problem, plan, hosts);
    let mut now_s = Some(0.0);
    let mut waves = Vec::with_capacity(plan.waves().len());
    for wave in plan.waves() {
        let timing = wave.timing.as_ref();
        let name = |vm: &usize| problem.traffic().names()[*vm].clone();
        let names = |places: &[usize]| places.iter().map(|place| name(&wave.vms[*place])).collect();
        let time_s = timing.ok().map(|timing| timing.time_s);
        now_s = now_s.zip(time_s).map(|(now, time)| now + time);
        let vm = |(place, vm): (usize, &usize)| {
            let share = timing.ok().map(|timing| timing.shares[place]);
            VmAnswer {
                vm: name(vm),
                to: to[*vm].map(|host| hosts[host].clone()),
                bytes: problem.loads()[*vm].size.get(),
                dirty_bytes_per_second: problem.loads()[*vm].dirty.bytes_per_second(),
                bandwidth_bytes_per_second: share.map(|share| share.bandwidth.bytes_per_second()),
                time_seconds: share.map(|share| share.time_s),
            }
        };
        waves.push(WaveAnswer {
            vms: wave.vms.iter().enumerate().map(vm).collect(),
            time_seconds: time_s,
            ends_seconds: now_s,
            split_bytes_per_second: wave.split_rate,
            blamed: timing
                .err()
                .map(|error| names(&error.blamed))
                .unwrap_or_default(),
            never_alone: timing
                .err()
                .map(|error| names(&error.alone))
                .unwrap_or_default(),
        });
    }
    waves
}

/// The host of each VM: wave by wave, the largest VM first, to the host that has been given the fewest bytes.
fn spread(problem: &Problem, plan: &Plan, hosts: &[String]) -> Vec<Option<usize>> {
    let mut given = vec![0_u128; hosts.len()];
    let mut to = vec![None; problem.vms()];
    for wave in plan.waves() {
        let bytes = |vm: &usize| problem.loads()[*vm].size.get();
        let mut vms = wave.vms.clone();
        vms.sort_by_key(|vm| std::cmp::Reverse(bytes(vm)));
        for vm in vms {
            let Some(host) = (0..hosts.len()).min_by_key(|host| given[*host]) else {
                continue;
            };
            given[host] += u128::from(bytes(&vm));
            to[vm] = Some(host);
        }
    }
    to
}

/// What each method reaches. Of serial and random the mean is told, which has no one plan.
fn compare(
    problem: &Problem,
    sizes: &Sizes,
    seed: u64,
    progress: &mut Progress,
) -> Result<Vec<MethodAnswer>, PlanError> {
    let serial = serial_volume(problem);
    let mut rows = Vec::new();
    for method in Method::ALL {
        if method == Method::Exact && problem.vms() > limits::EXACT_VMS_MAX {
            continue;
        }
        let plan = watched(progress, || method.plan(problem, sizes, seed))?;
        let (volume, time_seconds, waves) = match method {
            Method::Serial => (serial, plan.time_s(), Some(plan.waves().len())),
            Method::Random => (random::mean_volume(problem, sizes, seed)?, None, None),
            _ => (plan.volume(), plan.time_s(), Some(plan.waves().len())),
        };
        rows.push(MethodAnswer {
            method: method.word(),
            volume_bytes: volume,
            saved: saved(volume, serial),
            time_seconds,
            waves,
        });
    }
    Ok(rows)
}
