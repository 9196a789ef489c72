//! What a cache asks of its host.

use super::shipping::Shipper;
use super::{Around, Site};
use crate::attachment::RecordOnItsWay;
use crate::violation::Violation;
use block_io::{OriginVerb, Token};
use cache::{Effect, OwnerRecord};
use units::Duration;

impl Site {
    /// Carries out what the cache asks, in order.
    pub(in crate::sites) fn carry_out_effects(&mut self, at: &mut Around) -> Result<(), Violation> {
        loop {
            self.opened(at)?;
            let effects = self.life.process.take_effects();
            if effects.is_empty() || self.life.process.has_crashed() {
                return Ok(());
            }
            for effect in effects {
                if self.life.process.has_crashed() {
                    return Ok(());
                }
                self.carry_out(effect, at)?;
            }
        }
    }

    fn carry_out(&mut self, effect: Effect, at: &mut Around) -> Result<(), Violation> {
        match effect {
            Effect::Flash(op) => {
                if self.life.process.survives_operation() {
                    let opens = self.life.process.opens();
                    self.device.submit(op, opens, at.run.now());
                }
            }
            Effect::Retain(what) => self.device.retain(what),
            Effect::Origin(op) => {
                if self.life.process.survives_operation() {
                    let number = self.number;
                    let what = |verb: &OriginVerb| format!("host {number} origin {verb:?}");
                    at.run.event(&[5, op.token.0], || what(&op.verb));
                    if self.life.opened.is_none() && !self.life.stands_by.is_copying() {
                        let what = what(&op.verb) + " without the origin";
                        return Err(Violation::new("I5", what));
                    }
                    self.borrows(at).ask_origin(op);
                }
            }
            Effect::Own { token, record, .. } => {
                if self.life.process.survives_operation() {
                    self.own(token, record, at)?;
                }
            }
            Effect::Reply { request, result } => self.replied(request, result, at),
            Effect::ReplyInPlace { .. } => unreachable!("no read brings memory"),
            Effect::Retire { token, incarnation } => {
                let state = &mut self.life.state_directory;
                state.record(token, incarnation, false, &mut self.device, at.run);
            }
            Effect::Reinstate { token, incarnation } => {
                let state = &mut self.life.state_directory;
                state.record(token, incarnation, true, &mut self.device, at.run);
            }
            Effect::Damaged(_) | Effect::Expected { .. } => {}
            Effect::Lent { loan, result } => {
                if self.lends(at).lent(loan, result) {
                    Shipper::of(self).ends_shipping(at.run.now());
                }
            }
            Effect::ControlDone { id, result } => self.commanded(id, result, at)?,
        }
        Ok(())
    }

    fn own(&mut self, token: Token, record: OwnerRecord, at: &mut Around) -> Result<(), Violation> {
        let fails = at.run.settings().back.map_or(0, |back| back.own_fails);
        let recorded = !at.run.one_in(fails);
        let until = at.run.now() + Duration::from_micros(1 + at.run.below(20_000));
        at.run.event(&[18, record.epoch], || {
            format!("own {record:?}, made: {recorded}")
        });
        let disk = at.shared.disk();
        disk.judge_record(record, self.device.uuid(), false)?;
        if !record.open && disk.is_open() {
            disk.origin_has(at.run.current_moment())?;
        }
        self.life.process.disk_mut(0).record_asked(RecordOnItsWay {
            token,
            record,
            until,
            recorded,
        });
        Ok(())
    }

    // What has ended.

    pub(super) fn flash_ends(&mut self, at: &mut Around) -> Result<(), Violation> {
        for done in self.device.poll(at.run.now()) {
            let done = self.device.complete(done);
            if !self.life.process.survives_operation() {
                return Ok(());
            }
            self.life.process.flash_done(done, at.run.now());
            self.carry_out_effects(at)?;
        }
        Ok(())
    }

    pub(super) fn origin_ends(&mut self, at: &mut Around) -> Result<(), Violation> {
        let Some(opened) = &mut self.life.opened else {
            return Ok(());
        };
        for done in at.shared.poll(opened, at.run.now())? {
            if !self.life.process.survives_operation() {
                return Ok(());
            }
            self.life.process.origin_done(done, at.run.now());
            self.carry_out_effects(at)?;
        }
        Ok(())
    }

    pub(super) fn record_is_made(&mut self, at: &mut Around) -> Result<(), Violation> {
        let Some(made) = self.life.process.disk_mut(0).take_record() else {
            return Ok(());
        };
        let stands = made.recorded || (!made.record.open && at.run.one_in(2));
        let now = at.run.current_moment();
        let is_recorded = stands && at.shared.record(made.record, now)?;
        if let Some(cache) = self.life.process.cache_mut() {
            cache.owned(made.token, is_recorded && made.recorded, at.run.now());
        }
        Ok(())
    }
}
