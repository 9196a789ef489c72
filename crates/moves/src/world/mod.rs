//! A run: guests, devices and the move under one clock.
//!
//! Invariants:
//! - Each read is compared with what had been acknowledged when it began ([`crate::versions`]).
//! - A copy that was fetched before a host learnt of a change of its block is not cached there.

mod moving;

use crate::devices::{Devices, Host, Way};
use crate::mover::{Mover, Step, Told};
use crate::outcome::{Outcome, Sample, VmOutcome};
use crate::part::{Open, Opens, Part};
use crate::setup::{Arrival, Setup, Writes};
use crate::timeline::Timeline;
use crate::vm::{Machine, Request};
use flash_format::FormatError;
use moving::Moving;
use units::{BLOCK_BYTES, Bytes, Instant};

/// What happens.
pub(crate) enum Event {
    /// A VM's next request is due.
    Arrives(usize, Request),
    /// An I/O has passed some stages of its way.
    Passes(Io),
    /// Something of the move is due.
    Moves(Step),
}

/// An I/O on its way.
pub(crate) struct Io {
    way: Way,
    stage: u8,
    bytes: Bytes,
    then: Then,
}

/// What an I/O is for.
pub(crate) enum Then {
    /// A block that flash had.
    Hit(Part, u32),
    /// A block that the origin is asked for.
    Miss(Part),
    /// A block that is written.
    Wrote(Part, u32),
    /// A block that came in for a read.
    Filled(Part),
    /// Nobody waits.
    Nothing,
    /// It is the move's.
    Mover(Told),
}

/// A run.
pub(crate) struct World<'a> {
    setup: &'a Setup,
    timeline: Timeline<Event>,
    devices: Devices,
    vms: Vec<Machine>,
    opens: Opens,
    mover: Mover,
}

/// Runs a setup.
///
/// # Errors
/// If a cache has not the size for a log.
pub fn run(setup: &Setup) -> Result<Outcome, FormatError> {
    let vms = setup.vms.iter().zip(0..);
    let vms = vms.map(|(vm, number)| Machine::new(vm, setup, number));
    let mut world = World {
        setup,
        timeline: Timeline::new(),
        devices: Devices::new(setup),
        vms: vms.collect::<Result<_, _>>()?,
        opens: Opens::default(),
        mover: Mover::new(setup),
    };
    world.run();
    Ok(world.outcome())
}

impl<'s> World<'s> {
    fn run(&mut self) {
        for vm in 0..self.vms.len() {
            self.start(vm);
        }
        let begins = Instant::ZERO + self.setup.before;
        self.timeline.push(begins, Event::Moves(Step::Begin));
        let end = begins + self.setup.ahead + self.setup.after;
        while let Some(event) = self.timeline.pop(end) {
            match event {
                Event::Arrives(vm, request) => self.arrives(vm, request),
                Event::Passes(io) => self.passes(io),
                Event::Moves(step) => self.moving().step(step),
            }
        }
    }

    fn outcome(self) -> Outcome {
        let mut outcome = self.mover.outcome();
        for vm in self.vms {
            outcome.stale += vm.versions.stale();
            outcome.vms.push(VmOutcome {
                before: vm.before,
                after: vm.after,
            });
        }
        outcome
    }

    /// What carries the move out.
    fn moving<'w>(&'w mut self) -> Moving<'w, 's> {
        Moving::new(self)
    }

    /// A VM begins, or goes on, to ask.
    fn start(&mut self, vm: usize) {
        match self.vms[vm].arrival {
            Arrival::Timed => self.schedule(vm),
            Arrival::Depth(depth) => {
                while self.vms[vm].under_way < depth {
                    let Some(request) = self.vms[vm].next_request() else {
                        return;
                    };
                    self.begin(vm, request);
                }
            }
        }
    }

    fn schedule(&mut self, vm: usize) {
        let machine = &mut self.vms[vm];
        if let Some(request) = machine.next_request() {
            let at = request.at + machine.behind;
            self.timeline.push(at, Event::Arrives(vm, request));
        }
    }

    fn arrives(&mut self, vm: usize, request: Request) {
        if self.vms[vm].is_stopped {
            // It asks when it goes on.
            return self.mover.keep(request);
        }
        self.begin(vm, request);
        self.schedule(vm);
    }

    /// A request that came while its VM was stopped.
    fn begin_kept(&mut self, request: Request) {
        self.begin(0, request);
        self.schedule(0);
    }

    fn begin(&mut self, vm: usize, request: Request) {
        let now = self.timeline.now();
        self.vms[vm].under_way += 1;
        let number = self.opens.add(Open {
            began: now,
            left: request.count,
            is_read: request.is_read,
        });
        let host = self.vms[vm].host;
        self.vms[vm].copies(host).advance(now);
        for block in request.first..request.first + request.count {
            let machine = &mut self.vms[vm];
            let part = Part {
                vm,
                request: number,
                block,
                host,
                floor: machine.versions.floor(block),
                changes: machine.changes(host, block),
                was_cached: machine.copies(host).version(block).is_some(),
            };
            if request.is_read {
                self.read(part);
            } else {
                self.write(part);
            }
        }
    }

    fn read(&mut self, part: Part) {
        let now = self.timeline.now();
        let machine = &mut self.vms[part.vm];
        let copy = machine.copies(part.host).touch(part.block);
        let sample = Sample {
            reads: 1,
            read_hits: u64::from(copy.is_some()),
            writes: 0,
        };
        self.count(part.vm, now, sample);
        if let Some(version) = copy {
            self.submit(Way::FlashRead(part.host), 1, Then::Hit(part, version));
        } else if part.vm == 0 && part.host == Host::There {
            self.moving().read_moved(part);
        } else {
            self.read_origin(part);
        }
    }

    fn count(&mut self, vm: usize, now: Instant, sample: Sample) {
        let machine = &mut self.vms[vm];
        if self.mover.has_stopped() {
            machine.after.add(now, sample);
        } else if !self.mover.has_begun() {
            machine.before.add(now, sample);
        }
    }

    /// A block that is not cached.
    fn read_origin(&mut self, part: Part) {
        self.submit(Way::OriginRead(part.host), 1, Then::Miss(part));
    }

    fn write(&mut self, part: Part) {
        let now = self.timeline.now();
        let sample = Sample {
            writes: 1,
            ..Sample::default()
        };
        self.count(part.vm, now, sample);
        let Part {
            vm, block, host, ..
        } = part;
        let machine = &mut self.vms[vm];
        let version = machine.versions.begin(block);
        let way = if self.setup.writes == Writes::Back {
            machine.outdate(host, block);
            self.insert(vm, host, block, version);
            let copies = self.vms[vm].copies(host);
            // A cache that has no room for it leaves it to the origin.
            if copies.version(block).is_some() {
                copies.soil(block);
                Way::FlashWrite(host)
            } else {
                Way::OriginWrite(host)
            }
        } else {
            machine.learn_change(host, block);
            Way::OriginWrite(host)
        };
        if vm == 0 {
            self.moving().change_begins(part, version);
        }
        self.submit(way, 1, Then::Wrote(part, version));
    }

    fn wrote(&mut self, part: Part, version: u32) {
        let Part {
            vm, block, host, ..
        } = part;
        let machine = &mut self.vms[vm];
        machine.versions.acknowledge(block, version);
        if self.setup.writes == Writes::Back {
            let copies = machine.copies(host);
            if copies.version(block).is_none() {
                machine.versions.write_origin(block, version);
            }
        } else {
            machine.versions.write_origin(block, version);
            machine.end_change(host, block, version);
            let is_last = machine.versions.begun(block) == version;
            if self.setup.writes == Writes::Through && part.was_cached && is_last {
                self.insert(vm, host, block, version);
                self.submit(Way::FlashWrite(host), 1, Then::Nothing);
            }
        }
        if vm == 0 {
            self.moving().change_ends(part, version);
        }
        self.end(part);
    }

    /// A block comes into a cache. What leaves for it, and is dirty, goes to the origin.
    fn insert(&mut self, vm: usize, host: Host, block: u32, version: u32) {
        let left = self.vms[vm].copies(host).insert(block, version);
        for (block, version) in left {
            self.vms[vm].versions.write_origin(block, version);
            self.submit(Way::OriginWrite(host), 1, Then::Nothing);
        }
    }

    /// Whether what was read when a part began may be cached.
    fn is_current(&self, part: &Part) -> bool {
        let machine = &self.vms[part.vm];
        machine.host == part.host && machine.changes(part.host, part.block) == part.changes
    }

    /// A read has its bytes; they are cached, if they may be.
    fn answer(&mut self, part: Part, version: u32, is_kept: bool) {
        self.vms[part.vm].versions.check(part.floor, version);
        let copies = self.vms[part.vm].copies(part.host);
        if is_kept && copies.version(part.block).is_none() && self.is_current(&part) {
            self.insert(part.vm, part.host, part.block, version);
            let way = Way::FlashWrite(part.host);
            if self.setup.waits_for_fills {
                return self.submit(way, 1, Then::Filled(part));
            }
            self.submit(way, 1, Then::Nothing);
        }
        self.end(part);
    }

    /// A part of a request is done.
    fn end(&mut self, part: Part) {
        let Some(open) = self.opens.done(part.request) else {
            return;
        };
        let now = self.timeline.now();
        let (has_stopped, has_begun) = (self.mover.has_stopped(), self.mover.has_begun());
        let machine = &mut self.vms[part.vm];
        machine.under_way -= 1;
        let took = now.since(open.began);
        if has_stopped {
            machine.after.answered(open.is_read, took);
        } else if !has_begun {
            machine.before.answered(open.is_read, took);
        }
        if machine.is_stopped {
            if machine.under_way == 0 {
                self.moving().step(Step::Settled);
            }
        } else if let Arrival::Depth(_) = machine.arrival {
            self.start(part.vm);
        }
    }

    /// An I/O begins.
    fn submit(&mut self, way: Way, blocks: u64, then: Then) {
        self.submit_bytes(way, Bytes::new(blocks * BLOCK_BYTES), then);
    }

    /// An I/O of this length begins.
    fn submit_bytes(&mut self, way: Way, bytes: Bytes, then: Then) {
        self.passes(Io {
            way,
            stage: 0,
            bytes,
            then,
        });
    }

    fn passes(&mut self, mut io: Io) {
        let now = self.timeline.now();
        let passed = self.devices.pass(io.way, io.stage, io.bytes, now);
        if let Some(at) = passed {
            io.stage += 1;
            return self.timeline.push(at, Event::Passes(io));
        }
        match io.then {
            Then::Hit(part, version) => {
                self.vms[part.vm].versions.check(part.floor, version);
                self.end(part);
            }
            Then::Miss(part) => {
                let version = self.vms[part.vm].versions.origin(part.block);
                self.answer(part, version, true);
            }
            Then::Wrote(part, version) => self.wrote(part, version),
            Then::Filled(part) => self.end(part),
            Then::Nothing => {}
            Then::Mover(told) => self.moving().told(told),
        }
    }
}
