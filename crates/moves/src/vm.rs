//! A VM: what it asks for, what is cached of its disk at both hosts, what it got.

use crate::copies::Copies;
use crate::devices::Host;
use crate::outcome::Span;
use crate::setup::{Arrival, Requests, Setup, Vm, Writes};
use crate::versions::Versions;
use flash_format::FormatError;
use trace::Op;
use trace::generate::Generator;
use units::{BLOCK_BYTES, Duration, Instant, Prng};

/// What a VM asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// On the VM's own clock, which stands still while it is stopped.
    pub(crate) at: Instant,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) is_read: bool,
}

enum Source {
    Generated(Box<Generator>),
    Recorded(std::vec::IntoIter<trace::Record>),
}

impl Iterator for Source {
    type Item = trace::Record;

    fn next(&mut self) -> Option<trace::Record> {
        match self {
            Self::Generated(generator) => generator.next(),
            Self::Recorded(records) => records.next(),
        }
    }
}

/// A VM.
pub(crate) struct Machine {
    source: Source,
    blocks: u32,
    pub(crate) arrival: Arrival,
    pub(crate) host: Host,
    pub(crate) versions: Versions,
    copies: [Copies; 2],
    /// By host and block: how often the host has learnt of a change of it.
    changes: [Vec<u32>; 2],
    /// Requests that are not answered.
    pub(crate) under_way: u32,
    pub(crate) is_stopped: bool,
    /// How far its clock is behind.
    pub(crate) behind: Duration,
    /// The time of its first request.
    began: Option<u64>,
    pub(crate) before: Span,
    pub(crate) after: Span,
}

impl Machine {
    /// A VM whose cache is warm.
    pub(crate) fn new(vm: &Vm, setup: &Setup, number: usize) -> Result<Self, FormatError> {
        let source = match &vm.requests {
            Requests::Generated(spec) => Source::Generated(Box::new(Generator::new(spec))),
            Requests::Recorded(records) => Source::Recorded(records.clone().into_iter()),
        };
        let host = if number > 0 && vm.is_there {
            Host::There
        } else {
            Host::Here
        };
        let seed = setup.seed.wrapping_add(number as u64);
        let copies = |seed| Copies::new(setup.cache, vm.cache_blocks, vm.blocks, seed);
        let changes = || vec![0; vm.blocks as usize];
        let mut machine = Self {
            source,
            blocks: vm.blocks,
            arrival: vm.arrival,
            host,
            versions: Versions::new(vm.blocks),
            copies: [copies(seed)?, copies(seed)?],
            changes: [changes(), changes()],
            under_way: 0,
            is_stopped: false,
            behind: Duration::ZERO,
            began: None,
            before: Span::new(setup.interval),
            after: Span::new(setup.interval),
        };
        machine.warm(vm, setup.writes, seed);
        Ok(machine)
    }

    /// Its cache sees requests that take no time; then a part of what is cached is dirty.
    fn warm(&mut self, vm: &Vm, writes: Writes, seed: u64) {
        let host = self.host;
        let own = vm.warmed_by.as_ref().map(|spec| {
            let source = Source::Generated(Box::new(Generator::new(spec)));
            std::mem::replace(&mut self.source, source)
        });
        for _ in 0..vm.warming {
            let Some(request) = self.next_request() else {
                break;
            };
            for block in request.first..request.first + request.count {
                let copies = &mut self.copies[host.index()];
                let is_cached = copies.touch(block).is_some();
                match (request.is_read, writes) {
                    (true, _) if is_cached => {}
                    (false, Writes::Around) => copies.remove(block),
                    (false, Writes::Through) if !is_cached => {}
                    _ => {
                        copies.insert(block, 1);
                    }
                }
            }
        }
        if let Some(own) = own {
            self.source = own;
        }
        self.began = None;
        if writes == Writes::Back {
            let mut dice = Prng::new(!seed);
            let copies = &mut self.copies[host.index()];
            let part = units::number::count_near(vm.dirty * 1e6);
            for block in copies.list() {
                if dice.below(1_000_000) < part {
                    copies.begin_dirty(block, 2);
                    self.versions.begin(block);
                    self.versions.acknowledge(block, 2);
                }
            }
        }
    }

    /// What it asks for next. Its clock begins with the first request.
    pub(crate) fn next_request(&mut self) -> Option<Request> {
        loop {
            let record = self.source.next()?;
            if record.op == Op::Flush || record.length.is_zero() {
                continue;
            }
            let began = *self.began.get_or_insert(record.time_us);
            let at = record.time_us.saturating_sub(began).saturating_mul(1_000);
            let first = record.offset.get() / BLOCK_BYTES;
            let end = (record.offset.get() + record.length.get()).div_ceil(BLOCK_BYTES);
            let end = end.min(u64::from(self.blocks));
            if first >= end {
                continue;
            }
            return Some(Request {
                at: Instant::from_nanos(at),
                first: u32::try_from(first).unwrap_or(0),
                count: u32::try_from(end - first).unwrap_or(1),
                is_read: record.op == Op::Read,
            });
        }
    }

    /// What is cached of its disk at a host.
    pub(crate) fn copies(&mut self, host: Host) -> &mut Copies {
        &mut self.copies[host.index()]
    }

    /// How often a host has learnt of a change of a block: what was read before does not count then.
    pub(crate) fn changes(&self, host: Host, block: u32) -> u32 {
        self.changes[host.index()][block as usize]
    }

    /// A write at a host has ended: nothing older is cached there any more, nor comes.
    pub(crate) fn end_change(&mut self, host: Host, block: u32, version: u32) {
        self.changes[host.index()][block as usize] += 1;
        let copies = &mut self.copies[host.index()];
        if copies.version(block).is_some_and(|copy| copy < version) {
            copies.remove(block);
        }
    }

    /// A host learns of a change of a block, which it has cached again: no older copy that is on its way counts.
    pub(crate) fn outdate(&mut self, host: Host, block: u32) {
        self.changes[host.index()][block as usize] += 1;
    }

    /// A host learns of a change of a block: it has no copy of it any more, and none that is on its way counts.
    pub(crate) fn learn_change(&mut self, host: Host, block: u32) {
        self.changes[host.index()][block as usize] += 1;
        self.copies[host.index()].remove(block);
    }
}
