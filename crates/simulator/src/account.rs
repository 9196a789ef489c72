//! One run: a cache, what it did, and everything that is counted from it.
//!
//! ```text
//!   batch ─► part up to the next moment that matters (end of warm-up, of an interval)
//!              ├─► cache: what became of each block      (cache/)
//!              ├─► counters, by volume                   (here)
//!              └─► latency of each request               (latency.rs), if asked for
//!            at that moment: a sample of the series, or the statistics begin anew
//! ```

use crate::cache::{CacheModel, places};
use crate::counters::Counters;
use crate::latency::{Asked, LatencyModel, Times};
use crate::number::{count, length, real};
use crate::outcome::{Chore, HIT, Outcomes, STORED, Tally, runs};
use crate::series::{Axis, Sample, Series};
use crate::warmup::Warmup;
use crate::write_policy::WritePolicy;
use std::ops::Range;
use trace::{Batch, Op, Record, Request, VolumeIndex};
use units::Bytes;

/// When statistics begin, once the trace's length is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Now.
    Begun,
    /// At the first request after that many accesses.
    Accesses(u64),
    /// At the first request that many microseconds after the trace's first.
    Time(u64),
}

impl Start {
    /// Where a warm-up ends in a trace of `accesses` block accesses.
    pub(crate) fn of(warmup: Warmup, accesses: u64) -> Self {
        match warmup {
            Warmup::None => Self::Begun,
            Warmup::Percent(percent) => Self::Accesses(count(real(accesses) * percent / 100.0)),
            Warmup::Time(time) => Self::Time(time.as_nanos() / 1000),
        }
    }

    /// Whether statistics begin with a request at this place.
    const fn is_reached(self, accesses: u64, elapsed_us: u64) -> bool {
        match self {
            Self::Begun => true,
            Self::Accesses(first) => accesses >= first,
            Self::Time(first) => elapsed_us >= first,
        }
    }
}

/// One policy at one size over one trace.
pub(crate) struct Run {
    cache: Box<dyn CacheModel>,
    outcomes: Outcomes,
    write_policy: WritePolicy,
    block_bytes: u64,
    volumes: Vec<Counters>,
    /// What no volume's request asked for.
    chores: Counters,
    latency: Option<LatencyModel>,
    sampling: Option<Sampling>,
    start: Start,
    first_us: Option<u64>,
    accesses: u64,
    used: Used,
}

/// The series, and what was counted when its current interval began.
struct Sampling {
    series: Series,
    interval_start: u64,
    counted: Counters,
}

/// How full the cache was, looked at after each part of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    peak: u32,
    weighted: u128,
    weight: u64,
}

/// What is left of a run when the trace is over.
pub(crate) struct Finished {
    pub(crate) cache: Box<dyn CacheModel>,
    pub(crate) volumes: Vec<Counters>,
    pub(crate) total: Counters,
    pub(crate) latency: Option<LatencyModel>,
    pub(crate) series: Option<Series>,
    pub(crate) used_blocks_peak: u32,
    pub(crate) used_blocks_mean: f64,
    /// Whether the warm-up ended before the trace did.
    pub(crate) is_counting: bool,
}

impl Finished {
    pub(crate) fn times(&self) -> Option<&Times> {
        self.latency.as_ref().map(LatencyModel::times)
    }
}

impl Run {
    pub(crate) fn new(
        cache: Box<dyn CacheModel>,
        write_policy: WritePolicy,
        block: Bytes,
        start: Start,
    ) -> Self {
        Self {
            cache,
            outcomes: Outcomes::default(),
            write_policy,
            block_bytes: block.get(),
            volumes: Vec::new(),
            chores: Counters::default(),
            latency: None,
            sampling: None,
            start,
            first_us: None,
            accesses: 0,
            used: Used::default(),
        }
    }

    pub(crate) fn with_latency(mut self, latency: Option<LatencyModel>) -> Self {
        self.latency = latency;
        self
    }

    pub(crate) fn with_series(mut self, series: Option<Series>) -> Self {
        self.sampling = series.map(|series| Sampling {
            series,
            interval_start: 0,
            counted: Counters::default(),
        });
        self
    }

    /// Whether it looks at each request, not just at stretches of them.
    pub(crate) fn needs_requests(&self) -> bool {
        let counts_all = self.start == Start::Begun && self.sampling.is_none();
        !counts_all || self.latency.is_some() || !self.cache.takes_stretches()
    }

    /// The next requests of the trace.
    pub(crate) fn batch(&mut self, batch: &Batch) {
        if let Some(stretches) = batch.stretches()
            && !self.needs_requests()
        {
            self.run_stretches(batch, stretches);
            return;
        }
        let mut begin = 0;
        while begin < batch.requests.len() {
            let end = self.part(batch, begin);
            self.run_part(batch, begin..end);
            begin = end;
        }
    }

    /// Handles the moments that come with the request at `begin`, and says before which request the
    /// next one comes.
    fn part(&mut self, batch: &Batch, begin: usize) -> usize {
        if self.start == Start::Begun && self.sampling.is_none() {
            return batch.requests.len();
        }
        let mut accesses = self.accesses;
        for (place, request) in batch.requests.iter().enumerate().skip(begin) {
            let first = *self.first_us.get_or_insert(request.record.time_us);
            let elapsed = request.record.time_us.saturating_sub(first);
            let starts = self.start != Start::Begun && self.start.is_reached(accesses, elapsed);
            let at = self.sampling.as_ref().map(|sampling| {
                sampling.series.start_of(match sampling.series.axis {
                    Axis::TimeUs => elapsed,
                    Axis::Accesses => accesses,
                })
            });
            let samples = at
                > self
                    .sampling
                    .as_ref()
                    .map(|sampling| sampling.interval_start);
            if starts || samples {
                if place > begin {
                    return place;
                }
                self.moment(starts, at);
            }
            if request.record.op.carries_data() {
                accesses += length(request.keys.len());
            }
        }
        batch.requests.len()
    }

    fn moment(&mut self, starts: bool, interval_start: Option<u64>) {
        self.sample();
        if let (Some(sampling), Some(start)) = (&mut self.sampling, interval_start) {
            sampling.interval_start = sampling.interval_start.max(start);
        }
        if starts {
            self.start = Start::Begun;
            self.volumes.fill(Counters::default());
            self.chores = Counters::default();
            self.used = Used::default();
            if let Some(latency) = &mut self.latency {
                latency.start_counting();
            }
            if let Some(sampling) = &mut self.sampling {
                sampling.counted = Counters::default();
            }
        }
    }

    /// Adds what was counted since the last sample to the series. It covers the warm-up too: how a
    /// cache warms up is what it is looked at for.
    fn sample(&mut self) {
        if self.sampling.is_none() {
            return;
        }
        let (total, vms) = (self.total(), self.cache.vms());
        let Some(sampling) = &mut self.sampling else {
            return;
        };
        if total == sampling.counted {
            return;
        }
        sampling.series.add(Sample {
            start: sampling.interval_start,
            counters: total.since(&sampling.counted),
            used_blocks: self.cache.used_blocks(),
            dirty_blocks: self.cache.dirty_blocks(),
            vms,
        });
        sampling.counted = total;
    }

    fn total(&self) -> Counters {
        let mut total = self.chores;
        for volume in &self.volumes {
            total += volume;
        }
        total
    }

    fn run_part(&mut self, batch: &Batch, part: Range<usize>) {
        let requests = &batch.requests[part];
        let (Some(first), Some(last)) = (requests.first(), requests.last()) else {
            return;
        };
        let keys = first.keys.start..last.keys.end;
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.reset((keys.end - keys.start) as usize);
        self.cache.run(batch, requests, &mut outcomes);
        let before = self.accesses;
        let mut chores = outcomes.chores.iter().peekable();
        let mut log_steps = outcomes.log_steps();
        for request in requests {
            let blocks = &outcomes.blocks[places(request, keys.start)];
            self.count(request, blocks);
            if let Some(latency) = &mut self.latency {
                let end = request.keys.end;
                let steps = log_steps.partition_point(|step| step.at_key < end);
                let (steps, later) = log_steps.split_at(steps);
                log_steps = later;
                let its_chores = chores.clone().take_while(|timed| timed.at_key < end);
                let asked = Asked {
                    record: &request.record,
                    blocks,
                    room: self.cache.log_room(batch, request),
                    evicted: its_chores
                        .filter(|timed| timed.chore == Chore::Destage)
                        .map(|timed| timed.blocks)
                        .sum(),
                };
                latency.request(&asked, steps.iter().map(|step| &step.done));
            }
            while let Some(timed) = chores.next_if(|timed| timed.at_key < request.keys.end) {
                self.chore(timed.chore, timed.blocks);
            }
        }
        // Those of requests without blocks, where no block comes before them.
        for timed in chores {
            self.chore(timed.chore, timed.blocks);
        }
        self.outcomes = outcomes;
        self.look_at_use(self.accesses - before);
    }

    fn look_at_use(&mut self, weight: u64) {
        let used = self.cache.used_blocks();
        self.used.peak = self.used.peak.max(used);
        self.used.weighted += u128::from(used) * u128::from(weight);
        self.used.weight += weight;
    }

    fn chore(&mut self, chore: Chore, blocks: u32) {
        let count = u64::from(blocks);
        match chore {
            Chore::Destage => {
                self.chores.destaged_blocks += count;
                self.chores.origin_writes += count;
                self.chores.origin_write_bytes += count * self.block_bytes;
            }
            Chore::DestageRun => {
                self.chores.destaged_blocks += count;
                self.chores.origin_writes += 1;
                self.chores.origin_write_bytes += count * self.block_bytes;
            }
            Chore::Coalesce => self.chores.coalesced_blocks += count,
            Chore::Reclaim => self.chores.flash_reclaim_blocks += count,
            Chore::Descriptor => self.chores.flash_descriptor_blocks += count,
            Chore::Journal => self.chores.flash_journal_blocks += count,
            Chore::Admit => self.chores.flash_fill_blocks += count,
        }
        if let Some(latency) = &mut self.latency {
            latency.chore(chore, blocks);
        }
    }

    fn count(&mut self, request: &Request, blocks: &[u8]) {
        let counters = of_volume(&mut self.volumes, request.record.volume);
        match request.record.op {
            Op::Read | Op::Write => {}
            Op::Flush => {
                counters.flush_requests += 1;
                return;
            }
            Op::Discard | Op::WriteZeroes => {
                counters.discard_requests += 1;
                counters.origin_writes += 1;
                return;
            }
        }
        let accesses = length(blocks.len());
        self.accesses += accesses;
        let tally = Tally::of(blocks);
        counters.bytes += request.record.length.get();
        counters.hit_bytes += hit_bytes(&request.record, blocks, tally.hits, self.block_bytes);
        if request.record.op == Op::Read {
            counters.read_requests += 1;
            counters.origin_reads += fetches(blocks, tally.hits);
            count_read(counters, accesses, tally, self.block_bytes);
        } else {
            counters.write_requests += 1;
            count_write(counters, accesses, tally);
            count_origin_write(
                counters,
                request,
                blocks,
                self.write_policy,
                self.block_bytes,
            );
        }
    }

    /// The end of the trace.
    pub(crate) fn finish(mut self) -> Finished {
        self.sample();
        if let Some(latency) = &mut self.latency {
            latency.finish();
        }
        Finished {
            total: self.total(),
            cache: self.cache,
            volumes: self.volumes,
            latency: self.latency,
            series: self.sampling.map(|sampling| sampling.series),
            used_blocks_peak: self.used.peak,
            used_blocks_mean: mean(self.used),
            is_counting: self.start == Start::Begun,
        }
    }
}

/// The counters of a volume.
fn of_volume(volumes: &mut Vec<Counters>, volume: VolumeIndex) -> &mut Counters {
    let place = volume.to_usize();
    if place >= volumes.len() {
        volumes.resize(place + 1, Counters::default());
    }
    &mut volumes[place]
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a mean is as exact as a real number is"
)]
fn mean(used: Used) -> f64 {
    if used.weight == 0 {
        return 0.0;
    }
    used.weighted as f64 / real(used.weight)
}

/// Counts what became of read blocks, but not the requests, neither the guest's nor those to the origin.
fn count_read(counters: &mut Counters, blocks: u64, tally: Tally, block_bytes: u64) {
    counters.reads += blocks;
    counters.read_hits += tally.hits;
    counters.ram_read_hits += tally.in_ram;
    counters.ram_hot_read_hits += tally.hot;
    counters.origin_read_bytes += (blocks - tally.hits) * block_bytes;
    counters.flash_fill_blocks += tally.stored;
}

/// Reads of the origin for a request with so many hits: one for each run of blocks that were missed.
fn fetches(blocks: &[u8], hits: u64) -> u64 {
    match (hits, length(blocks.len()) - hits) {
        (_, 0) => 0,
        (0, _) => 1,
        _ => {
            let mut fetches = 0;
            runs(blocks, |block| block & HIT == 0, |_| fetches += 1);
            fetches
        }
    }
}

/// Counts what became of written blocks, but not the requests.
fn count_write(counters: &mut Counters, blocks: u64, tally: Tally) {
    counters.writes += blocks;
    counters.write_hits += tally.hits;
    counters.ram_write_hits += tally.in_ram;
    // What was in RAM was not on flash: there it is new.
    counters.flash_update_blocks += tally.updated;
    counters.flash_dirty_blocks += tally.logged;
    counters.flash_fill_blocks += tally.stored - tally.updated - tally.logged;
}

fn count_origin_write(
    counters: &mut Counters,
    request: &Request,
    blocks: &[u8],
    write_policy: WritePolicy,
    block_bytes: u64,
) {
    if write_policy != WritePolicy::Back {
        counters.origin_writes += 1;
        counters.origin_write_bytes += request.record.length.get();
        return;
    }
    runs(
        blocks,
        |block| block & STORED == 0,
        |length| {
            counters.origin_writes += 1;
            counters.origin_write_bytes += u64::from(length) * block_bytes;
        },
    );
}

/// The bytes of a request that lie in its hit blocks; the first and the last may be asked for in part.
fn hit_bytes(record: &Record, blocks: &[u8], hits: u64, block_bytes: u64) -> u64 {
    if hits == length(blocks.len()) {
        return record.length.get();
    }
    if hits == 0 {
        return 0;
    }
    let is_hit = |block: Option<&u8>| block.is_some_and(|block| block & HIT != 0);
    let end = record.offset.get().wrapping_add(record.length.get());
    let before = if is_hit(blocks.first()) {
        record.offset.get() % block_bytes
    } else {
        0
    };
    let beyond = end % block_bytes;
    let behind = if is_hit(blocks.last()) && beyond > 0 {
        block_bytes - beyond
    } else {
        0
    };
    hits * block_bytes - before - behind
}

mod stretches;
#[cfg(test)]
mod tests;
