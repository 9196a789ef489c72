//! Allocators on several traces as VMs of one host: hits, read hits and flash writes for each.
//!
//! ```text
//! cargo run --release -p curves --example divide -- 5min always libcachesim/cloudPhysicsIO.vscsi.zst \
//!     blkreplay/linux-webserver-2-dedup.csv.zst blkreplay/linux-mysql.load.gz
//! ```
//!
//! Each trace is a VM, from its first record on. The cache is in place and work conserving: when it is full
//! the VM that is furthest above its share gives its block used longest ago. Admission is `always`, or
//! `reused`: a block accessed before within an hour. Demand, curve and prediction are the daemon's.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "an example that prints figures"
)]

use mrc::{Counted, Kind, Live, Run, Writes};
use policy::allocation::{Cached, Limits, Room, Size, Spare, Spec, Tenant};
use policy::demand::{Demand, Reuses, Sampled, Windows};
use policy::prediction::{Filter, Forecast};
use policy::replacement::Fraction;
use std::collections::BTreeMap;
use trace::{Batch, Op, Options, Splitter, open};
use units::{Bytes, Duration, Instant, TenantSlot};

const SEGMENT: u32 = 252;
const HOUR: Duration = Duration::from_secs(3600);

struct Request {
    vm: usize,
    write: bool,
    run: Run,
    now: Instant,
    keys: Vec<u32>,
}

/// The requests of a VM, and how many blocks it touches.
fn requests(vm: usize, trace: &str) -> (Vec<Request>, u64) {
    let path = trace_fixtures::real_trace(trace).expect("the trace");
    let mut reader = open(&path, &Options::default()).unwrap().reader;
    let mut splitter = Splitter::new(Bytes::new(units::BLOCK_BYTES));
    let (mut records, mut batch) = (trace::Records::new(), Batch::default());
    let (mut requests, mut first) = (Vec::new(), None);
    while reader.read_batch(&mut records).unwrap() {
        splitter.split(&records, &mut batch).unwrap();
        for request in &batch.requests {
            let record = &request.record;
            let keys = batch.keys_of(request);
            if !record.op.carries_data() || keys.is_empty() {
                continue;
            }
            let begin = *first.get_or_insert(record.time_us);
            requests.push(Request {
                vm,
                write: record.op == Op::Write,
                run: Run {
                    volume: record.volume.get(),
                    first: record.offset.get() / units::BLOCK_BYTES,
                    count: keys.len() as u64,
                },
                now: Instant::from_nanos(record.time_us.saturating_sub(begin) * 1000),
                keys: keys.to_vec(),
            });
        }
    }
    (requests, u64::from(splitter.distinct()))
}

/// One VM's part of the cache, LRU, and what is known of it.
struct Vm {
    used: BTreeMap<u64, u32>,
    places: Vec<u64>,
    /// When each block was accessed last.
    last: Vec<Option<Instant>>,
    reaccessed: Vec<bool>,
    share: u32,
    demand: Sampled,
    curve: Live,
    wss: Forecast,
    rwss: Forecast,
    reads: u64,
    cached_before: Cached,
    cached: Cached,
    sizes: Vec<Size>,
}

impl Vm {
    fn new(window: Duration) -> Self {
        let spec = policy::prediction::Spec::default();
        Self {
            used: BTreeMap::new(),
            places: Vec::new(),
            last: Vec::new(),
            reaccessed: Vec::new(),
            share: 0,
            demand: Sampled::new(&Windows::new(&[window]).unwrap(), 7_168, 1),
            curve: Live::new(8_192, 1, Writes::Allocate),
            wss: Forecast::new(&spec, Filter::default()),
            rwss: Forecast::new(&spec, Filter::default()),
            reads: 0,
            cached_before: Cached::default(),
            cached: Cached::default(),
            sizes: Vec::new(),
        }
    }

    fn evict(&mut self) {
        let (_, key) = self.used.pop_first().expect("it is above its share");
        self.places[key as usize] = 0;
    }

    fn look(&mut self, window: Duration, now: Instant) {
        let size =
            |demand: &mut Sampled, reuses| Demand::<u64>::rwss(demand, reuses, window, now) as f64;
        self.wss.observe(size(&mut self.demand, Reuses::NONE));
        self.rwss.observe(size(&mut self.demand, Reuses::ONE));
        self.cached_before = self.cached;
        let reaccessed = self
            .used
            .values()
            .filter(|key| self.reaccessed[**key as usize]);
        self.cached = Cached {
            allocated: self.used.len() as u64,
            reaccessed: reaccessed.count() as u64,
            shared: 0,
        };
        let curve = self.curve.curve(Counted::Reads);
        self.sizes = curve
            .points()
            .iter()
            .map(|point| Size {
                blocks: point.blocks,
                hit_ratio: 1.0 - point.miss_ratio,
            })
            .collect();
    }
}

#[derive(Default)]
struct Counts {
    accesses: u64,
    reads: u64,
    hits: u64,
    read_hits: u64,
    writes: u64,
}

struct Host {
    vms: Vec<Vm>,
    blocks: u64,
    clock: u64,
    reused_only: bool,
    counts: Counts,
}

impl Host {
    fn access(&mut self, vm: usize, key: u32, write: bool, now: Instant) {
        let at = key as usize;
        let this = &mut self.vms[vm];
        if at >= this.places.len() {
            this.places.resize(at + 1, 0);
            this.last.resize(at + 1, None);
            this.reaccessed.resize(at + 1, false);
        }
        self.clock += 1;
        let place = this.places[at];
        let hit = place != 0;
        let recent = this.last[at].is_some_and(|last| last + HOUR >= now);
        this.last[at] = Some(now);
        self.counts.accesses += 1;
        self.counts.reads += u64::from(!write);
        self.counts.hits += u64::from(hit);
        self.counts.read_hits += u64::from(hit && !write);
        if hit {
            this.used.remove(&place);
        } else if self.reused_only && !recent {
            return;
        }
        this.reaccessed[at] = hit;
        this.used.insert(self.clock, key);
        this.places[at] = self.clock;
        self.counts.writes += u64::from(!hit || write);
        let cached: u64 = self.vms.iter().map(|vm| vm.used.len() as u64).sum();
        if cached > self.blocks {
            let above =
                |vm: &&mut Vm| vm.used.len() as i128 - i128::from(vm.share) * i128::from(SEGMENT);
            self.vms.iter_mut().max_by_key(above).unwrap().evict();
        }
    }

    fn divide(&mut self, spec: &Spec, room: &Room, window: Duration) {
        let seconds = window.as_nanos() as f64 / 1e9;
        let tenants: Vec<Tenant<'_>> = (0..)
            .zip(&self.vms)
            .map(|(slot, vm)| Tenant {
                slot: TenantSlot::new(slot),
                limits: Limits::default(),
                before: (vm.share > 0).then_some(vm.share),
                wss: vm.wss.predicted(),
                rwss: vm.rwss.predicted(),
                cached: vm.cached,
                cached_before: vm.cached_before,
                curve: &vm.sizes,
                accesses_a_second: vm.reads as f64 / seconds,
                saved_us: 1000.0,
            })
            .collect();
        let shares = spec.divide(room, &tenants).unwrap().shares;
        for (vm, share) in self.vms.iter_mut().zip(shares) {
            vm.share = share;
            vm.reads = 0;
        }
    }
}

/// A host's run; without an allocator all blocks are in one LRU queue.
fn run(
    spec: Option<&Spec>,
    blocks: u64,
    window: Duration,
    reused_only: bool,
    requests: &[Request],
) -> Counts {
    let count = requests.iter().map(|request| request.vm).max().unwrap() + 1;
    let room = Room {
        capacity: u32::try_from(blocks / u64::from(SEGMENT)).unwrap(),
        segment_blocks: SEGMENT,
        spare: Spare::Spread,
        hysteresis: Fraction::millionths(50_000),
    };
    let vms = if spec.is_some() { count } else { 1 };
    let mut host = Host {
        vms: (0..vms).map(|_| Vm::new(window)).collect(),
        blocks: u64::from(room.capacity) * u64::from(SEGMENT),
        clock: 0,
        reused_only,
        counts: Counts::default(),
    };
    let all = u32::try_from(count).unwrap();
    let mut ends = Instant::ZERO + window;
    if let Some(spec) = spec {
        host.divide(spec, &room, window);
    }
    for request in requests {
        while request.now >= ends {
            if let Some(spec) = spec {
                for vm in &mut host.vms {
                    vm.look(window, ends);
                }
                host.divide(spec, &room, window);
            }
            ends = ends + window;
        }
        let Some(_) = spec else {
            let of = u32::try_from(request.vm).unwrap();
            for key in &request.keys {
                host.access(0, key * all + of, request.write, request.now);
            }
            continue;
        };
        let vm = &mut host.vms[request.vm];
        let name = u64::from(request.run.volume) << 40 | request.run.first;
        vm.demand.access_run(name, request.run.count, request.now);
        let kind = if request.write {
            Kind::Write
        } else {
            Kind::Read
        };
        vm.curve.access(kind, request.run);
        vm.reads += if request.write { 0 } else { request.run.count };
        for &key in &request.keys {
            host.access(request.vm, key, request.write, request.now);
        }
    }
    host.counts
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let window: Duration = arguments.next().expect("a window").parse().unwrap();
    let reused_only = arguments.next().expect("always or reused") == "reused";
    let (mut all, mut footprint) = (Vec::new(), 0);
    for (vm, trace) in arguments.enumerate() {
        let (requests, blocks) = requests(vm, &trace);
        all.extend(requests);
        footprint += blocks;
    }
    all.sort_by_key(|request| request.now);
    println!("part\tallocator\thits\tread hits\tflash writes");
    for percent in [1, 5, 10, 25] {
        let blocks = footprint * percent / 100;
        let specs = Spec::ALL.iter().map(|about| Some(about.name));
        for name in std::iter::once(None).chain(specs) {
            let spec: Option<Spec> = name.map(|name| name.parse().unwrap());
            let counts = run(spec.as_ref(), blocks, window, reused_only, &all);
            let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
            println!(
                "{percent}%\t{}\t{:.4}\t{:.4}\t{:.4}",
                name.unwrap_or("none"),
                ratio(counts.hits, counts.accesses),
                ratio(counts.read_hits, counts.reads),
                ratio(counts.writes, counts.accesses)
            );
        }
    }
}
