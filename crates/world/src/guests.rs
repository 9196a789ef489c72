//! Guests: what they ask, and what they make of the answers.

mod asking;
mod memory;

use self::memory::GuestMemory;
use crate::checker::Moment;
use crate::context::Context;
use crate::violation::Violation;
use block_io::{IoError, Payload, Slice};
use cache::RequestId;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Instant, Offset};

/// Somebody who asks one thing after the other.
#[derive(Clone, Copy, Debug)]
struct Worker {
    /// When it asks next.
    next_at: Instant,
    /// What it waits for.
    waits_for: Option<RequestId>,
}

/// A request that is not answered yet.
#[derive(Clone, Debug)]
struct Outstanding {
    disk: usize,
    worker: Option<usize>,
    issued: Moment,
    asked: Asked,
    /// Its disk was under write-back when it was asked.
    back: bool,
    /// Its origin may have lacked something then.
    was_open: bool,
    /// Where it wants its bytes, if it is a read that says so.
    memory: Option<Rc<GuestMemory>>,
    /// The only answer that is right, for requests that break the rules.
    must_fail: Option<IoError>,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Read {
        offset: Offset,
        length: Bytes,
        /// Nothing is written meanwhile: the answer must equal the origin.
        audit: bool,
    },
    /// `certain` for those whose acknowledgement says that the value is there.
    Change {
        offset: Offset,
        length: Bytes,
        certain: bool,
        fua: bool,
    },
    Flush,
    Prefetch,
    Nonsense,
}

/// The guests of one life of a host, and what they wait for.
pub(crate) struct Guests {
    workers: Vec<Worker>,
    outstanding: BTreeMap<RequestId, Outstanding>,
    /// Requests that they may still make.
    requests_left: u64,
    requests_made: u64,
}

impl Guests {
    /// So many workers that ask nothing yet.
    pub(crate) fn new(workers: usize, now: Instant) -> Self {
        let idle = Worker {
            next_at: now,
            waits_for: None,
        };
        Self {
            workers: vec![idle; workers],
            outstanding: BTreeMap::new(),
            requests_left: 0,
            requests_made: 0,
        }
    }

    /// They may make so many requests from now on.
    pub(crate) fn may_ask(&mut self, requests: u64) {
        self.requests_left = requests;
    }

    /// Whether nobody waits for an answer.
    pub(crate) fn have_answers(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Whether they have made all their requests, and nobody waits for an answer.
    pub(crate) fn are_done(&self) -> bool {
        self.requests_left == 0 && self.have_answers()
    }

    /// For a message: the requests that are not answered.
    pub(crate) fn what_waits(&self) -> String {
        format!("{:?}", self.outstanding.keys().collect::<Vec<_>>())
    }

    /// Requests that this life has made.
    pub(crate) fn requests_made(&self) -> u64 {
        self.requests_made
    }

    /// Workers that wait for nothing, by their number, and when each asks next.
    pub(crate) fn next_requests(&self) -> impl Iterator<Item = (usize, Instant)> {
        let may_ask = self.requests_left > 0;
        let workers = self.workers.iter().enumerate();
        let idle = workers.filter(move |(_, worker)| may_ask && worker.waits_for.is_none());
        idle.map(|(number, worker)| (number, worker.next_at))
    }

    /// Whether a disk has requests in flight.
    fn is_asked(&self, disk: usize) -> bool {
        let mut requests = self.outstanding.values();
        requests.any(|request| request.disk == disk)
    }

    // Answers.

    /// The cache has brought a read to where its guest wanted it, all but `rest`.
    ///
    /// # Errors
    /// What the answer must not be.
    pub(crate) fn read_in_place(
        &mut self,
        id: RequestId,
        rest: &[(usize, Slice)],
        cx: &mut Context,
    ) -> Result<(), Violation> {
        let request = self.outstanding.get(&id);
        let Some(memory) = request.and_then(|request| request.memory.clone()) else {
            return Err(Violation::new(
                "I8",
                format!("request {} was read in place and has no memory", id.0),
            ));
        };
        memory.complete(rest);
        cx.run.hit("read in place");
        let bytes = cx.run.pool().copy_of(&memory.contents());
        self.answered(id, Ok(Payload::from_iter([bytes])), cx)
    }

    /// The cache has answered.
    ///
    /// # Errors
    /// What the answer must not be.
    pub(crate) fn answered(
        &mut self,
        id: RequestId,
        result: Result<Payload, IoError>,
        cx: &mut Context,
    ) -> Result<(), Violation> {
        let Some(request) = self.outstanding.remove(&id) else {
            return Err(Violation::new(
                "I8",
                format!("request {} was answered twice or never asked", id.0),
            ));
        };
        if let Some(memory) = &request.memory {
            memory.answered();
        }
        let now = cx.run.next_moment();
        let ok = result.is_ok();
        cx.run.event(&[9, id.0, u64::from(ok)], || {
            let error = result.as_ref().err();
            format!("guest {} @{now} answered, error: {error:?}", id.0)
        });
        if let Some(worker) = request.worker {
            let worker = &mut self.workers[worker];
            worker.waits_for = None;
            worker.next_at = worker.next_at.max(cx.run.now());
        }
        match (result, request.must_fail) {
            (Err(error), Some(expected)) if error == expected => Ok(()),
            (result, Some(expected)) => Err(Violation::new(
                "requests",
                format!(
                    "request {} must fail with {expected:?}, but: {result:?}",
                    id.0
                ),
            )),
            (Err(error), None) => request.failed(error, now, cx),
            (Ok(payload), None) => request.succeeded(&payload, now, cx),
        }
    }
}

impl Outstanding {
    fn failed(&self, error: IoError, now: Moment, cx: &mut Context) -> Result<(), Violation> {
        if !cx.run.settings().errors_are_excused() && !self.back_is_to_blame(cx) {
            return Err(Violation::new(
                "never hostage",
                format!("{self:?} failed with {error:?}, and only the flash can be to blame"),
            ));
        }
        cx.run.hit("error reached a guest");
        if matches!(self.asked, Asked::Flush) {
            cx.process.disk_mut(self.disk).tell_of_loss();
        }
        if let Asked::Change { offset, length, .. } = self.asked {
            let history = cx.disks[self.disk].history_mut();
            history.write_answered(offset, length, self.issued, false, false, now);
        }
        Ok(())
    }

    /// Whether a request may fail for what write-back is allowed to do.
    fn back_is_to_blame(&self, cx: &Context) -> bool {
        let Some(back) = cx.run.settings().back else {
            return false;
        };
        let changes = matches!(self.asked, Asked::Change { .. });
        // A part of it may have failed before the origin had everything.
        let waits = self.was_open || cx.disks[self.disk].is_open();
        let suspect = cx.flash_is_suspect();
        (waits && suspect) || (changes && (back.impatient || suspect || cx.somebody_absent_waits()))
    }

    fn succeeded(&self, payload: &Payload, now: Moment, cx: &mut Context) -> Result<(), Violation> {
        let answered: usize = payload.iter().map(|slice| slice.len()).sum();
        let expected = match self.asked {
            Asked::Read { length, .. } => length.to_usize(),
            _ => 0,
        };
        if answered != expected {
            return Err(Violation::new(
                "requests",
                format!("{self:?} was answered with {answered} bytes instead of {expected}"),
            ));
        }
        let is_back = cx.goes_back_now(self.disk);
        let attachment = cx.process.disk_mut(self.disk);
        let disk = &mut cx.disks[self.disk];
        match self.asked {
            Asked::Read {
                offset,
                length,
                audit,
            } => {
                let mut bytes = Vec::with_capacity(length.to_usize());
                for slice in payload {
                    bytes.extend_from_slice(slice);
                }
                let history = disk.history_mut();
                history.read(offset, &bytes, self.issued, now)?;
                if audit && disk.is_open() {
                    attachment.note(offset, &bytes);
                } else if audit {
                    disk.compare_with_origin(offset, &bytes)?;
                }
            }
            Asked::Change {
                offset,
                length,
                certain,
                fua,
            } => {
                let history = disk.history_mut();
                history.write_answered(offset, length, self.issued, certain, fua, now);
                // Under write-back it ends an interval, as a flush does.
                if fua && certain && self.back && is_back {
                    history.barrier(self.issued, now);
                }
            }
            Asked::Flush => {
                attachment.judge_flush(self.issued)?;
                disk.history_mut().flushed(self.issued, now);
            }
            Asked::Prefetch => {}
            Asked::Nonsense => {
                return Err(Violation::new(
                    "requests",
                    format!("{self:?} was carried out"),
                ));
            }
        }
        Ok(())
    }
}
