//! What the guest asks, and what the answers mean.

use super::Sites;
use super::clients::{Asked, Piece};
use super::guest::{Kind, Outstanding, Phase, Place, Second};
use super::site::Answer;
use crate::checker::{SECTOR, Tag, fill_sector};
use crate::run::Run;
use crate::violation::Violation;
use block_io::{IoError, Slice, Verb};
use cache::WritePolicy;
use units::{Bytes, Offset, SECTOR_BYTES};

impl Sites {
    pub(super) fn ask_something(&mut self, place: Place) -> Result<(), Violation> {
        self.guest.left = self.guest.left.saturating_sub(1);
        let kind = match self.run.below(100) {
            0..10 => Kind::Flush,
            10..60 => Kind::Write {
                fua: self.run.one_in(6),
            },
            _ => Kind::Read,
        };
        self.ask_at(place, kind)
    }

    /// A request somewhere on the disk.
    pub(super) fn ask_at(&mut self, place: Place, kind: Kind) -> Result<(), Violation> {
        let sectors = self.shared.disk().sectors();
        let mut first = self.run.below(sectors);
        let mut count = 1 + self.run.below(self.run.settings().length_most.min(24));
        if self.run.one_in(2) {
            first -= first % 8;
            count = count.next_multiple_of(8);
        }
        let offset = Offset::new(first * SECTOR_BYTES);
        let length = Bytes::new(count.min(sectors - first) * SECTOR_BYTES);
        self.ask(place, kind, Piece { offset, length })
    }

    pub(super) fn ask(&mut self, place: Place, kind: Kind, piece: Piece) -> Result<(), Violation> {
        let Piece { offset, length } = piece;
        let request = self.run.next_id();
        let issued = self.run.next_moment();
        let verb = match kind {
            Kind::Read => Verb::Read { offset, length },
            Kind::Flush => Verb::Flush,
            Kind::Write { fua } => {
                let tag = self.run.next_tags(length.get() / SECTOR_BYTES);
                let history = self.shared.disk_mut().history_mut();
                history.write_issued(offset, length, tag, issued);
                let data = data(tag, length, &self.run);
                Verb::Write { offset, data, fua }
            }
        };
        self.run.event(&[8, request, issued], || {
            format!("guest {request} @{issued} {place:?} {verb:?}")
        });
        let since = self.run.now();
        self.outstanding.insert(
            request,
            Outstanding {
                place,
                offset,
                length,
                kind,
                issued,
                since,
            },
        );
        let client = place.client;
        let asked = Asked {
            request,
            client,
            verb,
        };
        self.at(place.site, |site, at| site.request(asked, at))
    }

    /// What an answer means for who asked.
    fn judge_answer(&mut self, one: &Outstanding, error: Option<IoError>) -> Result<(), Violation> {
        let is_guests = one.place == self.guest.place;
        let is_change = matches!(one.kind, Kind::Write { .. });
        match (self.guest.phase, error) {
            (Phase::Returned { is_overtaken: true }, None)
                if is_guests && one.kind != Kind::Flush =>
            {
                let what = format!("a guest goes on over another one's changes: {one:?}");
                Err(Violation::new("I5", what))
            }
            (
                Phase::Twice(Second {
                    since: Some(since), ..
                }),
                None,
            ) if !is_guests && is_change && self.guest.troubled < since => {
                let what = format!("a guest that runs has lost its disk to another one: {one:?}");
                Err(Violation::new("guests", what))
            }
            (Phase::Returned { .. }, Some(_)) => Ok(()),
            // A flush tells of what an earlier one has lost.
            (_, Some(_)) if one.kind == Kind::Flush && self.plan.origin_fails => Ok(()),
            (_, Some(error)) if is_guests && (self.must_serve || self.plan.is_perfect) => Err(self
                .stuck(&format!(
                    "{one:?} failed with {error:?}, and nothing is to blame"
                ))),
            (Phase::Returned { .. }, None) if is_guests && one.kind != Kind::Flush => {
                self.run.hit("went on at the source");
                self.guest.phase = Phase::Runs;
                self.guest.left = 1 + self.run.below(30);
                Ok(())
            }
            _ => {
                self.guest.has_changed |= is_guests && is_change && error.is_none();
                Ok(())
            }
        }
    }

    /// The guest has got an error.
    pub(super) fn lost_its_disk(&mut self) -> Result<(), Violation> {
        self.run.hit("error reached the guest");
        let has_died = matches!(self.guest.phase, Phase::Returned { .. });
        if has_died || self.run.one_in(3) {
            let site = self.run.index(2);
            self.boot(site)?;
        }
        Ok(())
    }

    pub(super) fn answered(&mut self, answer: Answer) -> Result<(), Violation> {
        let Answer { request, result } = answer;
        let now = self.run.next_moment();
        let Some(one) = self.outstanding.remove(&request) else {
            return Ok(());
        };
        let ok = result.is_ok();
        self.run.event(&[9, request, u64::from(ok)], || {
            format!(
                "guest {request} @{now} answered: {:?}",
                result.as_ref().err()
            )
        });
        self.judge_answer(&one, result.as_ref().err().copied())?;
        // Under the other policies the origin has it, and is to blame for what a failed flush of it takes.
        let is_by_owner = !self.hosts[one.place.site].has_origin();
        let must_last = is_by_owner && self.plan.policy == WritePolicy::Back;
        let is_overtaken = matches!(self.guest.phase, Phase::Returned { is_overtaken: true });
        let history = self.shared.disk_mut().history_mut();
        let Outstanding {
            offset,
            length,
            issued,
            ..
        } = one;
        match (one.kind, result) {
            (Kind::Read, Ok(bytes)) => {
                history.read(offset, &bytes, issued, now)?;
                if must_last {
                    history.lasts(offset, &bytes);
                }
            }
            (Kind::Write { fua }, Ok(_)) => {
                history.write_answered(offset, length, issued, true, fua, now);
            }
            (Kind::Write { .. }, Err(_)) => {
                history.write_answered(offset, length, issued, false, false, now);
            }
            // The host that it was overtaken at has the disk no more: of the other guest's writes its flush says nothing.
            (Kind::Flush, Ok(_)) if is_overtaken => {}
            // Nothing was written where the disk is not. What a guest has read there lasts without a flush.
            (Kind::Flush, Ok(_)) if is_by_owner => {}
            (Kind::Flush, Ok(_)) => history.flushed(issued, now),
            (Kind::Read | Kind::Flush, Err(_)) => {}
        }
        if let Phase::Flushes {
            request: last,
            ending,
        } = self.guest.phase
            && last == request
        {
            self.stopped(ok, ending)?;
        } else if !ok && one.place == self.guest.place && !self.is_calm {
            self.lost_its_disk()?;
        }
        Ok(())
    }
}

fn data(tag: Tag, length: Bytes, run: &Run) -> Slice {
    let mut buf = run.pool().take(length.to_usize());
    let sectors = buf[..length.to_usize()].chunks_exact_mut(SECTOR);
    for (tag, sector) in (tag..).zip(sectors) {
        fill_sector(sector, tag);
    }
    buf.freeze().slice(0..length.to_usize())
}
