//! A study: some policies at some sizes over one trace.
//!
//! ```text
//!   if a size is a part of the footprint, the warm-up a part of the trace, a policy knows the future, or the
//!   runs are to be planned:
//!     survey: distinct blocks, accesses, next uses ─► plan: which runs go at once
//!   each pass of the plan:
//!     first batch: has the trace times?
//!     reader ─► its runs ─► results, which go out
//! ```
//!
//! A run that cannot be made, does not fit or panics costs no other run its result.

mod answer;
mod needs;

use crate::account::{Run, Start};
use crate::cache::tiered::Tiered;
use crate::cache::{CacheModel, Maker};
use crate::engine::{Job, Source, drive};
use crate::error::SimError;
use crate::future::{Future, Uses};
use crate::heat::Heat;
use crate::latency::{Arrival, LatencyModel, LatencySettings};
use crate::memory::Facts;
use crate::number::length;
use crate::plan::{Limits, Plan};
use crate::policy::Policy;
use crate::result::RunResult;
use crate::series::{Interval, Series};
use crate::size::CacheSize;
use crate::tier::Tier;
use crate::warmup::Warmup;
use crate::write_policy::{WriteMiss, WritePolicy};
use std::num::NonZeroUsize;
use trace::{Batch, OpenError, Reader, Splitter, Volume};
use units::Bytes;

/// What is asked of every trace.
#[derive(Clone, Debug)]
pub struct Study {
    /// The policies.
    pub policies: Vec<Policy>,
    /// The sizes; each policy runs at each.
    pub sizes: Vec<CacheSize>,
    /// Memory in front: each policy at each size behind each of these; none is no memory.
    pub tiers: Vec<Tier>,
    /// Size of a block.
    pub block: Bytes,
    /// What writes do.
    pub write_policy: WritePolicy,
    /// What writes do to blocks that are not in the cache; none is what each policy does by itself: that of
    /// the daemon lets them pass, all others allocate.
    pub write_miss: Option<WriteMiss>,
    /// What does not count yet.
    pub warmup: Warmup,
    /// Whether samples are taken, and how often.
    pub interval: Option<Interval>,
    /// Whether latencies are modelled, and of which devices.
    pub latency: Option<LatencySettings>,
    /// Whether it is noted where the accesses lie.
    pub heat: bool,
    /// What decides the latencies that are drawn.
    pub seed: u64,
    /// Threads that the runs are spread over; with one the reader does everything.
    pub threads: NonZeroUsize,
}

/// Opens a trace from its beginning.
pub type Open<'a> = dyn FnMut() -> Result<Box<dyn Reader>, OpenError> + 'a;

/// Who hears of a study while it goes on.
pub trait Observer {
    /// So many blocks were accessed in all readings so far. Called now and then.
    fn accessed(&mut self, blocks: u64);

    /// The runs will go so. Called once, before the first.
    fn planned(&mut self, plan: &Plan);

    /// These are all results so far, in the order of the runs. Called after each pass.
    fn ended(&mut self, runs: &[RunResult]);
}

/// Nobody but who counts accesses.
struct Counting<'a>(&'a mut dyn FnMut(u64));

impl Observer for Counting<'_> {
    fn accessed(&mut self, blocks: u64) {
        (self.0)(blocks);
    }

    fn planned(&mut self, _: &Plan) {}

    fn ended(&mut self, _: &[RunResult]) {}
}

/// A run without a result.
#[derive(Debug)]
pub struct Failure {
    /// Its policy.
    pub policy: String,
    /// Its size, as it was given.
    pub size: String,
    /// Why.
    pub error: SimError,
}

/// What a study found out about a trace.
#[derive(Debug)]
pub struct StudyResult {
    /// The runs: policies in their order, each at the sizes in their order.
    pub runs: Vec<RunResult>,
    /// Runs without a result.
    pub failures: Vec<Failure>,
    /// Where its accesses lie, if asked for.
    pub heat: Option<Heat>,
    /// Its volumes, by their places.
    pub volumes: Vec<Volume>,
    /// Time from the first request to the last, in microseconds; zero without times.
    pub duration_us: u64,
}

/// What a first pass over a trace finds out.
#[derive(Clone, Debug, Default)]
struct Survey {
    footprint: u32,
    future: Option<Future>,
    facts: Facts,
}

/// What one pass found out.
struct Passed {
    runs: Vec<Result<RunResult, SimError>>,
    heat: Option<Heat>,
    volumes: Vec<Volume>,
    duration_us: u64,
    accesses: u64,
}

/// What one run is of.
#[derive(Clone, Copy)]
struct Case<'a> {
    policy: &'a Policy,
    size: CacheSize,
    tier: Option<&'a Tier>,
}

impl Case<'_> {
    fn failed(self, error: SimError) -> Failure {
        Failure {
            policy: self.policy.to_string(),
            size: self.size.to_string(),
            error,
        }
    }
}

/// What every pass sees.
struct Sight<'a> {
    accesses: u64,
    first_us: Option<u64>,
    last_us: u64,
    heat: Option<Heat>,
    /// Accesses of the readings before.
    before: u64,
    observer: &'a mut dyn Observer,
}

impl Sight<'_> {
    fn see(&mut self, batch: &Batch) {
        if let Some((first_us, last_us)) = batch.times_us() {
            self.first_us.get_or_insert(first_us);
            self.last_us = self.last_us.max(last_us);
        }
        if let Some(heat) = &mut self.heat {
            for request in &batch.requests {
                heat.add(request);
            }
        }
        self.accesses += length(batch.keys.len());
        self.observer.accessed(self.before + self.accesses);
    }
}

impl Study {
    /// Whether traces are read twice, which what comes through a pipe cannot be.
    pub fn reads_twice(&self) -> bool {
        let tiers = self.tiers.iter().map(|tier| &tier.size);
        self.sizes
            .iter()
            .chain(tiers)
            .any(|size| size.needs_footprint())
            || matches!(self.warmup, Warmup::Percent(_))
            || self.policies.iter().any(Policy::knows_the_future)
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.cases().count()
    }

    /// Runs everything over the trace that `open` opens from its beginning, once or twice, with all runs at
    /// once. `progress` hears now and then how many blocks were accessed, in both readings.
    ///
    /// # Errors
    /// If the trace cannot be opened or read to its end, or does not have what is asked for; and if a run has
    /// no result.
    pub fn run(
        &self,
        trace: &str,
        open: &mut Open<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<StudyResult, SimError> {
        let mut result = self.run_within(trace, open, &Limits::NONE, &mut Counting(progress))?;
        if result.failures.is_empty() {
            return Ok(result);
        }
        Err(result.failures.swap_remove(0).error)
    }

    /// The same within `limits`: as many runs at once as fit, one reading of the trace for each pass.
    ///
    /// # Errors
    /// If the trace cannot be opened or read to its end, or does not have what all runs ask for.
    pub fn run_within(
        &self,
        trace: &str,
        open: &mut Open<'_>,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> Result<StudyResult, SimError> {
        let cases: Vec<Case<'_>> = self.cases().collect();
        let (mut survey, mut before) = (Survey::default(), 0);
        let plan = if self.reads_twice() || limits.plans {
            (survey, before) = self.survey(&mut *open()?, observer)?;
            self.plan(&cases, &survey, limits)
        } else {
            Plan::blind(cases.len())
        };
        observer.planned(&plan);
        let mut result = StudyResult {
            runs: Vec::new(),
            failures: Vec::new(),
            heat: None,
            volumes: Vec::new(),
            duration_us: 0,
        };
        for (run, needs) in plan.refused() {
            let limit = limits.memory.unwrap_or(*needs);
            let error = SimError::Memory {
                needs: *needs,
                limit,
            };
            result.failures.push(cases[*run].failed(error));
        }
        for (number, pass) in plan.passes().iter().enumerate() {
            let cases: Vec<Case<'_>> = pass.iter().map(|run| cases[*run]).collect();
            let heat = self.heat && number == 0;
            let passed = self.pass(
                trace,
                &cases,
                &survey,
                &mut *open()?,
                (heat, before),
                observer,
            )?;
            before += passed.accesses;
            for (case, run) in cases.iter().zip(passed.runs) {
                match run {
                    Ok(run) => result.runs.push(run),
                    Err(error) => result.failures.push(case.failed(error)),
                }
            }
            result.heat = result.heat.or(passed.heat);
            result.volumes = passed.volumes;
            result.duration_us = passed.duration_us;
            observer.ended(&result.runs);
        }
        Ok(result)
    }

    /// What each case takes, and which go at once.
    fn plan(&self, cases: &[Case<'_>], survey: &Survey, limits: &Limits) -> Plan {
        let facts = &survey.facts;
        let of_case = |case: &Case<'_>| {
            // A size that cannot be had takes nothing: the case says so when it is made.
            let blocks = |size: CacheSize| size.blocks(self.block, survey.footprint).unwrap_or(0);
            let frames = case.tier.map_or(0, |tier| blocks(tier.size));
            let sizes = (blocks(case.size).into(), frames.into());
            needs::of_run(self, case.policy, sizes, facts)
        };
        let each: Vec<Bytes> = cases.iter().map(of_case).collect();
        let shared = needs::of_study(self, length(cases.len()), facts);
        Plan::new(&each, shared, limits, self.threads)
    }

    /// One reading of the trace, for these cases.
    fn pass(
        &self,
        trace: &str,
        cases: &[Case<'_>],
        survey: &Survey,
        reader: &mut dyn Reader,
        (heat, before): (bool, u64),
        observer: &mut dyn Observer,
    ) -> Result<Passed, SimError> {
        let mut source = Source::new(reader, Splitter::new(self.block));
        let mut first = Batch::default();
        if !source.next(&mut first)? {
            return Err(SimError::Empty);
        }
        let has_time = first
            .requests
            .iter()
            .any(|request| request.record.time_us > 0);
        self.check_time(has_time)?;
        let mut sight = Sight {
            accesses: 0,
            first_us: None,
            last_us: 0,
            heat: heat.then(|| Heat::new(has_time)),
            before,
            observer,
        };
        sight.see(&first);
        let start = Start::of(self.warmup, survey.facts.accesses);
        let job = |case: &Case<'_>| Job::new(self.make(*case, survey, has_time, start));
        let mut jobs: Vec<Job> = cases.iter().map(job).collect();
        for job in &mut jobs {
            job.batch(&first);
        }
        if !heat && !jobs.iter().any(Job::needs_requests) {
            source.go_lean();
        }
        let jobs = drive(&mut source, jobs, self.threads.get(), &mut |batch| {
            sight.see(batch);
        })?;
        let volumes = source.reader().volumes().clone();
        let footprint = source.splitter().distinct();
        if footprint == 0 {
            return Err(SimError::Empty);
        }
        let result = |(case, job): (&Case<'_>, Job)| {
            let finished = job.finish()?.finish();
            self.result(trace, *case, finished, footprint, &volumes)
        };
        Ok(Passed {
            runs: cases.iter().zip(jobs).map(result).collect(),
            heat: sight.heat,
            volumes: volumes.iter().map(|(_, v)| v.clone()).collect(),
            duration_us: sight.last_us.saturating_sub(sight.first_us.unwrap_or(0)),
            accesses: sight.accesses,
        })
    }

    fn check_time(&self, has_time: bool) -> Result<(), SimError> {
        let timed = matches!(
            self.latency,
            Some(LatencySettings {
                arrival: Arrival::Timed { .. },
                ..
            })
        );
        let asked = match (self.warmup, self.interval) {
            _ if timed => "replaying at the trace's own times",
            (Warmup::Time(_), _) => "a warm-up of some time",
            (_, Some(Interval::Time(_))) => "an interval of some time",
            _ => return Ok(()),
        };
        if has_time {
            Ok(())
        } else {
            Err(SimError::NoTime(asked))
        }
    }

    /// Reads the trace once for what must be known before the runs; and how many blocks were accessed.
    fn survey(
        &self,
        reader: &mut dyn Reader,
        observer: &mut dyn Observer,
    ) -> Result<(Survey, u64), SimError> {
        let mut source = Source::new(reader, Splitter::new(self.block));
        let looks_ahead = self.policies.iter().any(Policy::knows_the_future);
        let mut future = looks_ahead.then(|| Uses::new(self.write_policy));
        let mut batch = Batch::default();
        let mut accesses = 0;
        let mut sight = Sight {
            accesses: 0,
            first_us: None,
            last_us: 0,
            heat: None,
            before: 0,
            observer,
        };
        while source.next(&mut batch)? {
            for request in &batch.requests {
                if request.record.op.carries_data() {
                    accesses += length(request.keys.len());
                }
                if let Some(future) = &mut future {
                    future.request(request.record.op, batch.keys_of(request));
                }
            }
            sight.see(&batch);
        }
        let roles = source.reader().volumes().roles();
        let vms = roles.iter().map(|role| u64::from(role.vm) + 1).max();
        let footprint = source.splitter().distinct();
        let survey = Survey {
            footprint,
            future: future.map(Uses::finish).transpose()?,
            facts: Facts {
                footprint: footprint.into(),
                accesses,
                volumes: length(roles.len()),
                vms: vms.unwrap_or(0),
                duration_us: sight.last_us.saturating_sub(sight.first_us.unwrap_or(0)),
            },
        };
        Ok((survey, sight.accesses))
    }

    /// Every policy at every size behind every memory, in order.
    fn cases(&self) -> impl Iterator<Item = Case<'_>> {
        let tiers: Vec<Option<&Tier>> = match &self.tiers[..] {
            [] => vec![None],
            tiers => tiers.iter().map(Some).collect(),
        };
        let sizes = move |policy| {
            let tiers = tiers.clone();
            self.sizes.iter().flat_map(move |size| {
                let tiers = tiers.clone().into_iter();
                tiers.map(move |tier| Case {
                    policy,
                    size: *size,
                    tier,
                })
            })
        };
        self.policies.iter().flat_map(sizes)
    }

    fn make(
        &self,
        Case { policy, size, tier }: Case<'_>,
        survey: &Survey,
        has_time: bool,
        start: Start,
    ) -> Result<Run, SimError> {
        let maker = Maker {
            blocks: size.blocks(self.block, survey.footprint)?,
            block: self.block,
            write_policy: self.write_policy,
            write_miss: self.write_miss_of(policy),
            future: survey.future.clone(),
        };
        let latency = self
            .latency
            .map(|settings| LatencyModel::new(&settings, self.write_policy, self.block, self.seed));
        let series = self
            .interval
            .map(|interval| Series::new(interval, has_time));
        let mut cache = policy.build(&maker)?;
        if let Some(tier) = tier {
            let blocks = tier.size.blocks(self.block, survey.footprint)?;
            cache = Box::new(Tiered::new(cache, blocks, &tier.policy)) as Box<dyn CacheModel>;
        }
        Ok(Run::new(cache, self.write_policy, self.block, start)
            .with_latency(latency)
            .with_series(series))
    }

    fn write_miss_of(&self, policy: &Policy) -> WriteMiss {
        self.write_miss
            .unwrap_or_else(|| policy.write_miss(self.write_policy))
    }
}
