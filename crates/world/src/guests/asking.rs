//! What guests ask, by the dice.

use super::memory::GuestMemory;
use super::{Asked, Guests, Outstanding};
use crate::checker::{SECTOR, Tag, fill_sector};
use crate::context::Context;
use crate::settings::{Special, pick};
use block_io::{IoError, Slice};
use cache::{Request, RequestId, Verb};
use std::rc::Rc;
use units::{BLOCK_BYTES, Bytes, Duration, Offset, SECTOR_BYTES, TenantSlot};

/// A range of whole sectors on a disk.
#[derive(Clone, Copy)]
struct Range {
    offset: Offset,
    length: Bytes,
}

impl Guests {
    /// One more request is made.
    pub(crate) fn count_request(&mut self) {
        self.requests_left -= 1;
        self.requests_made += 1;
    }

    /// A worker asks the next thing.
    pub(crate) fn ask_next(&mut self, worker: usize, cx: &mut Context) {
        let pause = cx.run.settings().pause.as_nanos();
        let wait = Duration::from_nanos(cx.run.below(pause + 1));
        self.workers[worker].next_at = cx.run.now() + wait;
        let served = cx.process.served();
        if served.is_empty() {
            return;
        }
        let disk = *pick(cx.run.dice(), &served);
        if cx.run.one_in(cx.run.settings().nonsense_rate) {
            self.ask_nonsense(disk, worker, cx);
            return;
        }
        let Range { offset, length } = draw_range(disk, cx);
        if cx.run.below(100) < cx.run.settings().changes_percent {
            self.ask_for_change(disk, worker, Range { offset, length }, cx);
        } else if cx.run.one_in(10) {
            let verb = Verb::Prefetch { offset, length };
            self.ask(disk, Some(worker), verb, Asked::Prefetch, None, cx);
        } else {
            let asked = Asked::Read {
                offset,
                length,
                audit: false,
            };
            let verb = Verb::Read { offset, length };
            self.ask(disk, Some(worker), verb, asked, None, cx);
        }
    }

    fn ask_for_change(&mut self, disk: usize, worker: usize, range: Range, cx: &mut Context) {
        let Range { offset, length } = range;
        let is_read_only = cx.disks[disk].settings().read_only;
        let must_fail = is_read_only.then_some(IoError::NotPermitted);
        let (flushes, fuas) = match cx.run.special() {
            Special::Hasty { flushes, fuas, .. } => (flushes, fuas),
            _ => (0, 6),
        };
        if cx.run.one_in(flushes) {
            return self.ask(disk, Some(worker), Verb::Flush, Asked::Flush, None, cx);
        }
        let fua = cx.run.one_in(fuas);
        let (verb, tag, certain) = match cx.run.below(10) {
            0 => return self.ask(disk, Some(worker), Verb::Flush, Asked::Flush, None, cx),
            1 => (Verb::Discard { offset, length }, 0, false),
            2 => {
                let may_unmap = cx.run.one_in(2);
                let verb = Verb::WriteZeroes {
                    offset,
                    length,
                    may_unmap,
                    fua,
                };
                (verb, 0, true)
            }
            _ => {
                let tag = cx.run.next_tags(length.get() / SECTOR_BYTES);
                let data = data(tag, length, cx);
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
            // The history learns of it before the cache does; `ask` uses the same moment.
            let issued = cx.run.next_moment();
            let history = cx.disks[disk].history_mut();
            history.write_issued(offset, length, tag, issued);
        }
        self.ask(disk, Some(worker), verb, asked, must_fail, cx);
    }

    fn ask_nonsense(&mut self, disk: usize, worker: usize, cx: &mut Context) {
        let sector = Bytes::new(SECTOR_BYTES);
        let size = if cx.run.settings().sizes_change {
            // The disk may be growing at this moment.
            Bytes::new(cx.disks[disk].sectors_most() * SECTOR_BYTES)
        } else {
            cx.disks[disk].size()
        };
        let verb = match cx.run.below(6) {
            0 => Verb::Read {
                offset: Offset::after(size),
                length: sector,
            },
            1 => Verb::Read {
                offset: Offset::new(100),
                length: sector,
            },
            2 => Verb::Prefetch {
                offset: Offset::ZERO,
                length: Bytes::ZERO,
            },
            3 => Verb::Discard {
                offset: Offset::new(u64::MAX - 511),
                length: Bytes::new(u64::MAX),
            },
            4 => Verb::Write {
                offset: Offset::new(u64::MAX / 512 * 512),
                data: data(0, sector, cx),
                fua: false,
            },
            _ => Verb::WriteZeroes {
                offset: Offset::ZERO,
                length: size + sector,
                may_unmap: true,
                fua: true,
            },
        };
        let writes = !matches!(verb, Verb::Read { .. } | Verb::Prefetch { .. });
        let error = if writes && cx.disks[disk].settings().read_only {
            IoError::NotPermitted
        } else {
            IoError::Invalid
        };
        cx.run.hit("nonsense refused");
        self.ask(disk, Some(worker), verb, Asked::Nonsense, Some(error), cx);
    }

    /// Reads the next piece of a disk from `offset` on, which must equal the origin. Gives where the
    /// piece ends.
    pub(crate) fn ask_for_audit(
        &mut self,
        disk: usize,
        offset: Offset,
        cx: &mut Context,
    ) -> Offset {
        let most = BLOCK_BYTES * (1 + cx.run.below(24));
        let length = Bytes::new(most.min((cx.disks[disk].size() - offset.from_start()).get()));
        let asked = Asked::Read {
            offset,
            length,
            audit: true,
        };
        self.ask(disk, None, Verb::Read { offset, length }, asked, None, cx);
        offset + length
    }

    fn ask(
        &mut self,
        disk: usize,
        worker: Option<usize>,
        verb: Verb,
        asked: Asked,
        must_fail: Option<IoError>,
        cx: &mut Context,
    ) {
        let id = RequestId(cx.run.next_id());
        let issued = match asked {
            Asked::Change { .. } => cx.run.current_moment(),
            _ => cx.run.next_moment(),
        };
        let vm = asker(disk, cx);
        let slot = cx.process.disk(disk).served_as();
        let slot = slot.expect("only served disks are asked");
        cx.run.event(&[8, id.0, issued], || {
            format!("guest {} @{issued} disk {disk} {verb:?}", id.0)
        });
        if let Some(worker) = worker {
            self.workers[worker].waits_for = Some(id);
        }
        let memory = memory_for(id, &verb, cx);
        self.outstanding.insert(
            id,
            Outstanding {
                disk,
                worker,
                issued,
                asked,
                back: cx.goes_back_now(disk),
                was_open: cx.disks[disk].is_open(),
                memory: memory.clone(),
                must_fail,
            },
        );
        let now = cx.run.now();
        if let Some(cache) = cx.process.cache_mut() {
            let request = Request {
                id,
                disk: slot,
                vm,
                verb,
            };
            match memory {
                Some(memory) => cache.request_into(request, memory, now),
                None => cache.request(request, now),
            }
        }
    }

    /// Now and then another VM joins an image that is served, or one leaves.
    pub(crate) fn readers_come_and_go(&self, cx: &mut Context) {
        for number in 0..cx.disks.count() {
            if !cx.disks[number].settings().shared {
                continue;
            }
            if cx.run.one_in(30) {
                join(number, cx);
            } else if cx.run.one_in(30) && !self.is_asked(number) {
                leave(number, cx);
            }
        }
    }
}

fn draw_range(disk: usize, cx: &mut Context) -> Range {
    let sectors = cx.disks[disk].sectors();
    let hot = cx.run.settings().hot_blocks * 8;
    let within = if hot > 0 && hot < sectors && !cx.run.one_in(4) {
        hot
    } else {
        sectors
    };
    let mut first = cx.run.below(within);
    let mut count = 1 + cx.run.below(cx.run.settings().length_most);
    if cx.run.one_in(2) {
        // Whole blocks, as file systems ask for.
        first -= first % 8;
        count = count.next_multiple_of(8);
    }
    Range {
        offset: Offset::new(first * SECTOR_BYTES),
        length: Bytes::new(count.min(sectors - first) * SECTOR_BYTES),
    }
}

fn data(tag: Tag, length: Bytes, cx: &Context) -> Slice {
    let mut buf = cx.run.pool().take(length.to_usize());
    let sectors = buf[..length.to_usize()].chunks_exact_mut(SECTOR);
    for (tag, sector) in (tag..).zip(sectors) {
        fill_sector(sector, tag);
    }
    buf.freeze().slice(0..length.to_usize())
}

/// Reads of more bytes than this are refused and need no memory.
const MEMORY_MAX: u64 = 32 << 20;

/// Memory of its own for every other read, of which some guests change a byte or two while it
/// is read. By the request's number and without dice.
fn memory_for(id: RequestId, verb: &Verb, cx: &mut Context) -> Option<Rc<GuestMemory>> {
    let Verb::Read { length, .. } = verb else {
        return None;
    };
    // Settings with write-back have none yet: their dirty blocks never go there.
    let goes_back = cx.run.settings().goes_back();
    if id.0.is_multiple_of(2) || goes_back || length.get() > MEMORY_MAX {
        return None;
    }
    let scribbles = if id.0 % 16 == 3 {
        1 + u32::from(id.0 % 32 == 3)
    } else {
        0
    };
    if scribbles > 0 {
        cx.run.hit("guest scribbles");
    }
    Some(Rc::new(GuestMemory::new(length.to_usize(), scribbles)))
}

/// Under whose name a disk is asked; somebody joins an image that nobody has joined.
fn asker(number: usize, cx: &mut Context) -> TenantSlot {
    if cx.disks[number].settings().shared && cx.process.disk(number).readers().is_empty() {
        join(number, cx);
    }
    let attachment = cx.process.disk(number);
    if !attachment.readers().is_empty() {
        return *pick(cx.run.dice(), attachment.readers());
    }
    let slot = attachment.served_as().expect("it is served");
    let cache = cx.process.cache().expect("somebody serves it");
    cache.facts().tenant_of(slot).expect("it is served")
}

/// A VM joins an image that is served.
fn join(number: usize, cx: &mut Context) {
    let vm = format!("vm {}", cx.run.below(4));
    let Some(slot) = cx.process.disk(number).served_as() else {
        return;
    };
    if let Some(cache) = cx.process.cache_mut() {
        let joined = cache.join(slot, &vm).expect("there are few tenants");
        cx.process.disk_mut(number).add_reader(joined);
        cx.run.hit("image joined");
    }
}

/// The VM that has joined an image last leaves it.
fn leave(number: usize, cx: &mut Context) {
    let Some(slot) = cx.process.disk(number).served_as() else {
        return;
    };
    let vm = cx.process.disk_mut(number).take_reader();
    if let (Some(cache), Some(vm)) = (cx.process.cache_mut(), vm) {
        cache.leave(slot, vm);
        cx.run.hit("image left");
    }
}
