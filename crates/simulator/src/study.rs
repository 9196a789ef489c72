//! A study: some policies at some sizes over one trace.
//!
//! ```text
//!   if a size is a part of the footprint, the warm-up a part of the trace, or a policy knows the future:
//!     first pass: distinct blocks, accesses, next uses
//!   first batch: has the trace times?
//!   pass: reader ─► runs ─► results
//! ```

use crate::account::{Finished, Run, Start};
use crate::cache::tiered::Tiered;
use crate::cache::{CacheModel, Maker};
use crate::counters::Counters;
use crate::engine::{Source, drive};
use crate::error::SimError;
use crate::future::{Future, Uses};
use crate::heat::Heat;
use crate::latency::{Arrival, LatencyModel, LatencySettings};
use crate::number::length;
use crate::policy::Policy;
use crate::result::{LatencyResult, RunResult, UsedBlocks, VmResult, VolumeResult};
use crate::series::{Interval, Series, VmSample};
use crate::size::CacheSize;
use crate::tier::Tier;
use crate::warmup::Warmup;
use crate::write_policy::{WriteMiss, WritePolicy};
use std::num::NonZeroUsize;
use trace::{Batch, OpenError, Reader, Splitter, Volume, Volumes};
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

/// What a study found out about a trace.
#[derive(Clone, Debug)]
pub struct StudyResult {
    /// The runs: policies in their order, each at the sizes in their order.
    pub runs: Vec<RunResult>,
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
    accesses: u64,
    future: Option<Future>,
}

/// What one run is of.
#[derive(Clone, Copy)]
struct Case<'a> {
    policy: &'a Policy,
    size: CacheSize,
    tier: Option<&'a Tier>,
}

/// What every pass sees.
struct Sight<'a> {
    accesses: u64,
    first_us: Option<u64>,
    last_us: u64,
    heat: Option<Heat>,
    progress: &'a mut dyn FnMut(u64),
}

impl Sight<'_> {
    fn see(&mut self, batch: &Batch) {
        if let Some(first) = batch.requests.first() {
            self.first_us.get_or_insert(first.record.time_us);
        }
        if let Some(last) = batch.requests.last() {
            self.last_us = self.last_us.max(last.record.time_us);
        }
        if let Some(heat) = &mut self.heat {
            for request in &batch.requests {
                heat.add(request);
            }
        }
        self.accesses += length(batch.keys.len());
        (self.progress)(self.accesses);
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

    /// Runs everything over the trace that `open` opens from its beginning, once or twice.
    /// `progress` hears now and then how many blocks were accessed, in both passes.
    ///
    /// # Errors
    /// If the trace cannot be opened or read to its end, or does not have what is asked for.
    pub fn run(
        &self,
        trace: &str,
        open: &mut dyn FnMut() -> Result<Box<dyn Reader>, OpenError>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<StudyResult, SimError> {
        let mut survey = Survey::default();
        if self.reads_twice() {
            survey = self.survey(&mut *open()?, progress)?;
        }
        let mut reader = open()?;
        let mut source = Source::new(&mut *reader, Splitter::new(self.block));
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
            heat: self.heat.then(|| Heat::new(has_time)),
            progress,
        };
        sight.see(&first);
        let mut runs = self.runs(&survey, has_time)?;
        for run in &mut runs {
            run.batch(&first);
        }
        let runs = drive(&mut source, runs, self.threads.get(), &mut |batch| {
            sight.see(batch);
        })?;
        let volumes = source.reader().volumes().clone();
        let footprint = source.splitter().distinct();
        if footprint == 0 {
            return Err(SimError::Empty);
        }
        let results = self.cases().zip(runs);
        Ok(StudyResult {
            runs: results
                .map(|(case, run)| self.result(trace, case, run.finish(), footprint, &volumes))
                .collect::<Result<_, _>>()?,
            heat: sight.heat,
            volumes: volumes.iter().map(|(_, v)| v.clone()).collect(),
            duration_us: sight.last_us.saturating_sub(sight.first_us.unwrap_or(0)),
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

    fn survey(
        &self,
        reader: &mut dyn Reader,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Survey, SimError> {
        let mut source = Source::new(reader, Splitter::new(self.block));
        let looks_ahead = self.policies.iter().any(Policy::knows_the_future);
        let mut future = looks_ahead.then(|| Uses::new(self.write_policy));
        let mut batch = Batch::default();
        let (mut accesses, mut seen) = (0, 0);
        while source.next(&mut batch)? {
            for request in &batch.requests {
                if request.record.op.carries_data() {
                    accesses += length(request.keys.len());
                }
                if let Some(future) = &mut future {
                    future.request(request.record.op, batch.keys_of(request));
                }
            }
            seen += length(batch.keys.len());
            progress(seen);
        }
        Ok(Survey {
            footprint: source.splitter().distinct(),
            accesses,
            future: future.map(Uses::finish).transpose()?,
        })
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

    fn runs(&self, survey: &Survey, has_time: bool) -> Result<Vec<Run>, SimError> {
        let start = Start::of(self.warmup, survey.accesses);
        let run = |Case { policy, size, tier }: Case<'_>| {
            let maker = Maker {
                blocks: size.blocks(self.block, survey.footprint)?,
                block: self.block,
                write_policy: self.write_policy,
                write_miss: self.write_miss_of(policy),
                future: survey.future.clone(),
            };
            let latency = self.latency.map(|settings| {
                LatencyModel::new(&settings, self.write_policy, self.block, self.seed)
            });
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
        };
        self.cases().map(run).collect()
    }

    fn write_miss_of(&self, policy: &Policy) -> WriteMiss {
        self.write_miss
            .unwrap_or_else(|| policy.write_miss(self.write_policy))
    }

    fn result(
        &self,
        trace: &str,
        Case { policy, size, tier }: Case<'_>,
        finished: Finished,
        footprint: u32,
        volumes: &Volumes,
    ) -> Result<RunResult, SimError> {
        if !finished.is_counting {
            return Err(SimError::AllWarmup(self.warmup.to_string()));
        }
        let latency = finished.times().map(LatencyResult::of);
        let of_volume = |(counters, (_, volume)): (_, (_, &Volume))| VolumeResult {
            volume: volume.clone(),
            counters,
        };
        let vms = vms(&finished, volumes);
        let admission = finished.cache.admission();
        Ok(RunResult {
            trace: trace.to_owned(),
            policy: policy.to_string(),
            admission: policy.admission().unwrap_or_else(|| "always".to_owned()),
            allocation: policy.allocation().unwrap_or_else(|| "none".to_owned()),
            ram_policy: tier.map_or_else(|| "none".to_owned(), |tier| tier.policy.to_string()),
            ram_blocks: match tier {
                Some(tier) => tier.size.blocks(self.block, footprint)?,
                None => 0,
            },
            size: size.to_string(),
            size_blocks: size.blocks(self.block, footprint)?,
            block_bytes: self.block.get(),
            write_policy: self.write_policy.name(),
            write_miss: self.write_miss_of(policy).name(),
            footprint_blocks: footprint,
            counters: finished.total,
            volumes: finished
                .volumes
                .into_iter()
                .zip(volumes.iter())
                .map(of_volume)
                .collect(),
            vms,
            refused: admission.refusals,
            admission_memory: admission.memory,
            used: UsedBlocks {
                mean: finished.used_blocks_mean,
                peak: finished.used_blocks_peak,
                end: finished.cache.used_blocks(),
                dirty_end: finished.cache.dirty_blocks(),
            },
            latency,
            series: finished.series,
        })
    }
}

/// What each VM of a divided cache had, and what was counted for the volumes that it asked through.
fn vms(finished: &Finished, volumes: &Volumes) -> Vec<VmResult> {
    let of = |(vm, has): (u32, VmSample)| {
        let mut counters = Counters::default();
        for (role, counted) in volumes.roles().iter().zip(&finished.volumes) {
            if role.vm == vm {
                counters += counted;
            }
        }
        VmResult {
            vm: volumes.vm_name(vm).unwrap_or_default(),
            counters,
            share_blocks: has.share_blocks,
            held_blocks: has.held_blocks,
            demand_blocks: has.demand_blocks,
        }
    };
    (0..).zip(finished.cache.vms()).map(of).collect()
}
