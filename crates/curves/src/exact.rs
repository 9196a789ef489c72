//! The exact method over a trace: split, and every key through the stack.

use mrc::{Counted, Exact, Kind, Writes};
use trace::{Batch, Op, Records, Request, Role, SplitError, Splitter};
use units::Map;

use crate::measure::{Curves, Pass, Settings};

/// The stacks of a pass.
pub(crate) struct ExactPass {
    writes: Writes,
    splitter: Splitter,
    batch: Batch,
    total: Exact,
    volumes: Option<PerVolume>,
}

/// A stack a volume. Its keys are dense within the volume, so that a trace of a thousand volumes
/// does not take a thousand tables of all keys.
#[derive(Default)]
struct PerVolume {
    stacks: Vec<Own>,
    /// By key of the whole trace. A block is on one volume, so it has one key of its own ...
    own_keys: Vec<u32>,
    /// ... unless it is a base image's: then it has one for each volume that is a VM's view of it.
    view_keys: Map<(u32, u32), u32>,
    keys: Vec<u32>,
}

struct Own {
    exact: Exact,
    distinct: u32,
}

const UNKNOWN: u32 = u32::MAX;

impl ExactPass {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            writes: settings.writes,
            splitter: Splitter::new(settings.block),
            batch: Batch::default(),
            total: Exact::new(settings.writes),
            volumes: settings.per_volume.then(PerVolume::default),
        }
    }
}

impl Pass for ExactPass {
    fn take(&mut self, records: &Records, volumes: &trace::Volumes) -> Result<(), SplitError> {
        self.splitter.know(volumes);
        self.splitter.split(records, &mut self.batch)?;
        for request in &self.batch.requests {
            let keys = self.batch.keys_of(request);
            apply(&mut self.total, request.record.op, keys);
            if let Some(volumes) = &mut self.volumes {
                let role = self.batch.role(request.record.volume);
                volumes.take(request, role, keys, self.writes);
            }
        }
        Ok(())
    }

    fn total(&self) -> Curves {
        curves(&self.total, self.splitter.distinct())
    }

    fn volumes(&self) -> Vec<Option<Curves>> {
        let stacks = self.volumes.iter().flat_map(|volumes| &volumes.stacks);
        stacks
            .map(|own| (own.distinct > 0).then(|| curves(&own.exact, own.distinct)))
            .collect()
    }
}

fn apply(exact: &mut Exact, op: Op, keys: &[u32]) {
    match op {
        Op::Read => exact.access(Kind::Read, keys),
        Op::Write => exact.access(Kind::Write, keys),
        Op::Discard | Op::WriteZeroes => exact.remove(keys),
        Op::Flush => {}
    }
}

fn curves(exact: &Exact, distinct: u32) -> Curves {
    Curves {
        all: exact.curve(Counted::All),
        reads: exact.curve(Counted::Reads),
        accesses: exact.accesses(Counted::All),
        reads_count: exact.accesses(Counted::Reads),
        footprint_blocks: u64::from(distinct),
        sampled_blocks: u64::from(distinct),
        rate: 1.0,
        memory_bytes: exact.bytes(),
    }
}

impl PerVolume {
    fn take(&mut self, request: &Request, role: Role, keys: &[u32], writes: Writes) {
        let at = request.record.volume.to_usize();
        while self.stacks.len() <= at {
            self.stacks.push(Own {
                exact: Exact::new(writes),
                distinct: 0,
            });
        }
        let own = &mut self.stacks[at];
        self.keys.clear();
        for &key in keys {
            let own_key = if role.is_image {
                let view = (request.record.volume.get(), key);
                self.view_keys.entry(view).or_insert(UNKNOWN)
            } else {
                let index = key as usize;
                if index >= self.own_keys.len() {
                    self.own_keys.resize(index + 1, UNKNOWN);
                }
                &mut self.own_keys[index]
            };
            if *own_key == UNKNOWN {
                *own_key = own.distinct;
                own.distinct += 1;
            }
            self.keys.push(*own_key);
        }
        apply(&mut own.exact, request.record.op, &self.keys);
    }
}
