//! Guests: what they ask, and what they make of the answers.

use crate::checker::{Moment, SECTOR, Tag, fill_sector};
use crate::disk::Disk;
use crate::host::Software;
use crate::lap::Lap;
use crate::settings::{Special, pick};
use crate::violation::Violation;
use crate::world::World;
use block_io::{IoError, Payload, Slice};
use cache::{Request, RequestId, Verb};
use std::rc::Rc;
use units::{BLOCK_BYTES, Bytes, Duration, Instant, SECTOR_BYTES};

/// Somebody who asks one thing after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Worker {
    /// When it asks next.
    pub next_at: Instant,
    /// What it waits for.
    pub waits_for: Option<RequestId>,
}

/// A request that is not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Outstanding {
    disk: usize,
    worker: Option<usize>,
    issued: Moment,
    asked: Asked,
    /// Its disk was under write-back when it was asked.
    back: bool,
    /// Its origin may have lacked something then.
    was_open: bool,
    /// Where it wants its bytes, if it is a read that says so.
    pub(crate) lap: Option<Rc<Lap>>,
    /// The only answer that is right, for requests that break the rules.
    must_fail: Option<IoError>,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Read {
        offset: Bytes,
        length: Bytes,
        /// Nothing is written meanwhile: the answer must equal the origin.
        audit: bool,
    },
    /// `certain` for those whose acknowledgement says that the value is there.
    Change {
        offset: Bytes,
        length: Bytes,
        certain: bool,
        fua: bool,
    },
    Flush,
    Prefetch,
    Nonsense,
}

/// A range of whole sectors on a disk.
#[derive(Clone, Copy)]
struct Range {
    offset: Bytes,
    length: Bytes,
}

impl World {
    /// A worker asks the next thing.
    pub(crate) fn guest_asks(&mut self, worker: usize) -> Result<(), Violation> {
        self.requests_left -= 1;
        self.requests_made += 1;
        // Before the next command: what the cache counts and what it asked for agree.
        self.check_tenancy()?;
        self.before_request()?;
        self.origin_goes();
        self.readers_come_and_go();
        self.look_now_and_then()?;
        let pause = self.run.settings().pause.as_nanos();
        let wait = Duration::from_nanos(self.run.below(pause + 1));
        self.workers[worker].next_at = self.run.now() + wait;
        let served: Vec<usize> = (0..self.disks.len())
            .filter(|number| self.disks[*number].served_as().is_some())
            .collect();
        if served.is_empty() {
            return Ok(());
        }
        let disk = *pick(self.run.dice(), &served);
        if self.run.one_in(self.run.settings().nonsense_rate) {
            return self.ask_nonsense(disk, worker);
        }
        let range = self.draw_range(disk);
        if self.run.below(100) < self.run.settings().changes_percent {
            self.ask_for_change(disk, worker, range)
        } else {
            let Range { offset, length } = range;
            let (verb, asked) = if self.run.one_in(10) {
                (Verb::Prefetch { offset, length }, Asked::Prefetch)
            } else {
                let audit = false;
                (
                    Verb::Read { offset, length },
                    Asked::Read {
                        offset,
                        length,
                        audit,
                    },
                )
            };
            self.ask(disk, Some(worker), verb, asked, None)
        }
    }

    fn draw_range(&mut self, disk: usize) -> Range {
        let sectors = self.disks[disk].settings.sectors;
        let hot = self.run.settings().hot_blocks * 8;
        let within = if hot > 0 && hot < sectors && !self.run.one_in(4) {
            hot
        } else {
            sectors
        };
        let mut first = self.run.below(within);
        let mut count = 1 + self.run.below(self.run.settings().length_most);
        if self.run.one_in(2) {
            // Whole blocks, as file systems ask for.
            first -= first % 8;
            count = count.next_multiple_of(8);
        }
        Range {
            offset: Bytes::new(first * SECTOR_BYTES),
            length: Bytes::new(count.min(sectors - first) * SECTOR_BYTES),
        }
    }

    fn ask_for_change(
        &mut self,
        disk: usize,
        worker: usize,
        range: Range,
    ) -> Result<(), Violation> {
        let Range { offset, length } = range;
        let must_fail = self.disks[disk]
            .settings
            .read_only
            .then_some(IoError::NotPermitted);
        let (flushes, fuas) = match self.run.special() {
            Special::Hasty { flushes, fuas, .. } => (flushes, fuas),
            _ => (0, 6),
        };
        if self.run.one_in(flushes) {
            return self.ask(disk, Some(worker), Verb::Flush, Asked::Flush, None);
        }
        let fua = self.run.one_in(fuas);
        let (verb, tag, certain) = match self.run.below(10) {
            0 => return self.ask(disk, Some(worker), Verb::Flush, Asked::Flush, None),
            1 => (Verb::Discard { offset, length }, 0, false),
            2 => {
                let may_unmap = self.run.one_in(2);
                let verb = Verb::WriteZeroes {
                    offset,
                    length,
                    may_unmap,
                    fua,
                };
                (verb, 0, true)
            }
            _ => {
                let tag = self.run.next_tags(length.get() / SECTOR_BYTES);
                let data = self.data(tag, length);
                (Verb::Write { offset, data, fua }, tag, true)
            }
        };
        let asked = Asked::Change {
            offset,
            length,
            certain,
            fua,
        };
        if must_fail.is_none() {
            self.change_issued(disk, offset, length, tag);
        }
        self.ask(disk, Some(worker), verb, asked, must_fail)
    }

    /// The history learns of a change before the cache does; [`World::ask`] uses the same moment.
    fn change_issued(&mut self, disk: usize, offset: Bytes, length: Bytes, tag: Tag) {
        let issued = self.run.next_moment();
        self.disks[disk]
            .history
            .write_issued(offset, length, tag, issued);
    }

    fn data(&self, tag: Tag, length: Bytes) -> Slice {
        let mut buf = self.run.pool().take(length.to_usize());
        let sectors = buf[..length.to_usize()].chunks_exact_mut(SECTOR);
        for (tag, sector) in (tag..).zip(sectors) {
            fill_sector(sector, tag);
        }
        buf.freeze().slice(0..length.to_usize())
    }

    fn ask_nonsense(&mut self, disk: usize, worker: usize) -> Result<(), Violation> {
        let size = self.disks[disk].size();
        let sector = Bytes::new(SECTOR_BYTES);
        let verb = match self.run.below(6) {
            0 => Verb::Read {
                offset: size,
                length: sector,
            },
            1 => Verb::Read {
                offset: Bytes::new(100),
                length: sector,
            },
            2 => Verb::Prefetch {
                offset: Bytes::ZERO,
                length: Bytes::ZERO,
            },
            3 => Verb::Discard {
                offset: Bytes::new(u64::MAX - 511),
                length: Bytes::new(u64::MAX),
            },
            4 => Verb::Write {
                offset: Bytes::new(u64::MAX / 512 * 512),
                data: self.data(0, sector),
                fua: false,
            },
            _ => Verb::WriteZeroes {
                offset: Bytes::ZERO,
                length: size + sector,
                may_unmap: true,
                fua: true,
            },
        };
        let writes = !matches!(verb, Verb::Read { .. } | Verb::Prefetch { .. });
        let error = if writes && self.disks[disk].settings.read_only {
            IoError::NotPermitted
        } else {
            IoError::Invalid
        };
        self.run.hit("nonsense refused");
        self.ask(disk, Some(worker), verb, Asked::Nonsense, Some(error))
    }

    fn ask(
        &mut self,
        disk: usize,
        worker: Option<usize>,
        verb: Verb,
        asked: Asked,
        must_fail: Option<IoError>,
    ) -> Result<(), Violation> {
        let id = RequestId(self.run.next_id());
        let issued = match asked {
            Asked::Change { .. } => self.run.current_moment(),
            _ => self.run.next_moment(),
        };
        let vm = self.asker(disk);
        let slot = self.disks[disk]
            .served_as()
            .expect("only served disks are asked");
        self.run.event(&[8, id.0, issued], || {
            format!("guest {} @{issued} disk {disk} {verb:?}", id.0)
        });
        if let Some(worker) = worker {
            self.workers[worker].waits_for = Some(id);
        }
        let back = self.goes_back_now(disk);
        let was_open = self.disks[disk].is_open();
        let lap = self.lap_for(id, &verb);
        self.outstanding.insert(
            id,
            Outstanding {
                disk,
                worker,
                issued,
                asked,
                back,
                was_open,
                lap: lap.clone(),
                must_fail,
            },
        );
        if let Software::Cache(cache) = &mut self.host.software {
            let request = Request {
                id,
                disk: slot,
                vm,
                verb,
            };
            match lap {
                Some(lap) => cache.request_into(request, lap, self.run.now()),
                None => cache.request(request, self.run.now()),
            }
        }
        self.carry_out_effects()
    }

    /// Whether a disk has requests in flight.
    pub(crate) fn is_asked(&self, disk: usize) -> bool {
        self.outstanding
            .values()
            .any(|request| request.disk == disk)
    }

    /// Reads all of a disk through the cache, in pieces; each must equal the origin.
    pub(crate) fn ask_for_audit(&mut self, disk: usize) -> Result<(), Violation> {
        let size = self.disks[disk].size();
        let mut offset = Bytes::ZERO;
        while offset < size && !self.crashed {
            let most = BLOCK_BYTES * (1 + self.run.below(24));
            let length = Bytes::new(most.min((size - offset).get()));
            let asked = Asked::Read {
                offset,
                length,
                audit: true,
            };
            self.ask(disk, None, Verb::Read { offset, length }, asked, None)?;
            offset += length;
        }
        Ok(())
    }

    /// The cache has answered.
    pub(crate) fn guest_is_answered(
        &mut self,
        id: RequestId,
        result: Result<Payload, IoError>,
    ) -> Result<(), Violation> {
        let Some(request) = self.outstanding.remove(&id) else {
            return Err(Violation::new(
                "I8",
                format!("request {} was answered twice or never asked", id.0),
            ));
        };
        if let Some(lap) = &request.lap {
            lap.answered();
        }
        let now = self.run.next_moment();
        let ok = result.is_ok();
        self.run.event(&[9, id.0, u64::from(ok)], || {
            let error = result.as_ref().err();
            format!("guest {} @{now} answered, error: {error:?}", id.0)
        });
        if let Some(worker) = request.worker {
            self.workers[worker].waits_for = None;
            self.workers[worker].next_at = self.workers[worker].next_at.max(self.run.now());
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
            (Err(error), None) => self.guest_got_error(&request, error, now),
            (Ok(payload), None) => self.guest_got(&request, &payload, now),
        }
    }

    fn guest_got_error(
        &mut self,
        request: &Outstanding,
        error: IoError,
        now: Moment,
    ) -> Result<(), Violation> {
        if !self.run.settings().errors_are_excused() && !self.back_is_to_blame(request) {
            return Err(Violation::new(
                "never hostage",
                format!("{request:?} failed with {error:?}, and only the flash can be to blame"),
            ));
        }
        self.run.hit("error reached a guest");
        if matches!(request.asked, Asked::Flush) {
            self.disks[request.disk].untold_loss = None;
        }
        if let Asked::Change { offset, length, .. } = request.asked {
            self.disks[request.disk].history.write_answered(
                offset,
                length,
                request.issued,
                false,
                false,
                now,
            );
        }
        Ok(())
    }

    fn guest_got(
        &mut self,
        request: &Outstanding,
        payload: &Payload,
        now: Moment,
    ) -> Result<(), Violation> {
        let is_back = self.goes_back_now(request.disk);
        let disk = &mut self.disks[request.disk];
        let answered: usize = payload.iter().map(|slice| slice.len()).sum();
        let expected = match request.asked {
            Asked::Read { length, .. } => length.to_usize(),
            _ => 0,
        };
        if answered != expected {
            return Err(Violation::new(
                "requests",
                format!("{request:?} was answered with {answered} bytes instead of {expected}"),
            ));
        }
        match request.asked {
            Asked::Read {
                offset,
                length,
                audit,
            } => {
                let mut bytes = Vec::with_capacity(length.to_usize());
                for slice in payload {
                    bytes.extend_from_slice(slice);
                }
                disk.history.read(offset, &bytes, request.issued, now)?;
                if audit && disk.is_open() {
                    disk.back.note(offset, &bytes);
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
                let history = &mut disk.history;
                history.write_answered(offset, length, request.issued, certain, fua, now);
                // Under write-back it ends an interval, as a flush does.
                if fua && certain && request.back && is_back {
                    history.barrier(request.issued, now);
                }
            }
            Asked::Flush => disk.flush_acknowledged(request.issued, now)?,
            Asked::Prefetch => {}
            Asked::Nonsense => {
                return Err(Violation::new(
                    "requests",
                    format!("{request:?} was carried out"),
                ));
            }
        }
        Ok(())
    }

    /// Whether a request may fail for what write-back is allowed to do.
    fn back_is_to_blame(&self, request: &Outstanding) -> bool {
        let Some(back) = self.run.settings().back else {
            return false;
        };
        let changes = matches!(request.asked, Asked::Change { .. });
        // A part of it may have failed before the origin had everything.
        let waits = request.was_open || self.disks[request.disk].is_open();
        let suspect = self.flash_is_suspect();
        (waits && suspect)
            || (changes && (back.impatient || suspect || self.somebody_absent_waits()))
    }

    /// Whether a disk that is not served may have bytes on this flash that nobody brings to its origin,
    /// or gives up because another cache had the disk since: they may be all that there is room for.
    pub(crate) fn somebody_absent_waits(&self) -> bool {
        let mut disks = self.disks.iter();
        let moves = self.run.settings().back.is_some_and(|back| back.two_caches);
        let here = |disk: &Disk| {
            disk.owner
                .is_some_and(|o| o.open && o.cache == self.device.uuid())
        };
        disks
            .any(|disk| disk.served_as().is_none() && disk.owner.is_some() && (moves || here(disk)))
    }

    /// The process has died: nobody waits any more.
    pub(crate) fn guests_lose_their_requests(&mut self) {
        let now = self.run.next_moment();
        self.outstanding.clear();
        for worker in &mut self.workers {
            worker.waits_for = None;
        }
        for disk in &mut self.disks {
            disk.untold_loss = None;
            disk.origin_flushes.clear();
            disk.history.crashed(now);
        }
    }
}
