//! What the cache asks of its host, and what ends there.

use super::Host;
use crate::disks::Disks;
use crate::run::Run;
use crate::settings::Special;
use crate::violation::Violation;
use crate::{origin_traffic, owner_records};
use block_io::FlashOp;
use cache::{Damage, Effect, RetainedUpdate};

impl Host {
    /// Carries out what the cache asks, in order.
    ///
    /// # Errors
    /// What the cache must not ask.
    pub(crate) fn carry_out_effects(
        &mut self,
        run: &mut Run,
        disks: &mut Disks,
    ) -> Result<(), Violation> {
        loop {
            let effects = self.life.process.take_effects();
            if effects.is_empty() {
                return Ok(());
            }
            for effect in effects {
                if self.life.process.has_crashed() {
                    return Ok(());
                }
                self.carry_out(effect, run, disks)?;
            }
        }
    }

    fn carry_out(
        &mut self,
        effect: Effect,
        run: &mut Run,
        disks: &mut Disks,
    ) -> Result<(), Violation> {
        match effect {
            Effect::Flash(op) => self.submit_to_flash(op, run),
            Effect::Retain(what) => self.retain(what, run),
            Effect::Origin(op) => {
                if self.life.process.survives_operation() {
                    origin_traffic::submit(op, &mut self.parts(run, disks).2)?;
                }
            }
            Effect::Own {
                token, id, record, ..
            } => {
                if self.life.process.survives_operation() {
                    owner_records::ask(token, id, record, &mut self.parts(run, disks).2)?;
                }
            }
            Effect::Reply { request, result } => {
                let (_, guests, mut cx) = self.parts(run, disks);
                guests.answered(request, result, &mut cx)?;
            }
            Effect::ReplyInPlace { request, rest } => {
                let (_, guests, mut cx) = self.parts(run, disks);
                guests.read_in_place(request, &rest, &mut cx)?;
            }
            Effect::Retire { token, incarnation } => {
                run.hit("retirement");
                let device = self.bay.in_use_mut();
                let state = &mut self.life.state_directory;
                state.record(token, incarnation, false, device, run);
            }
            Effect::Reinstate { token, incarnation } => {
                let device = self.bay.in_use_mut();
                let state = &mut self.life.state_directory;
                state.record(token, incarnation, true, device, run);
            }
            Effect::Damaged(damage) => must_have_rotted(damage, run)?,
            Effect::Expected { .. } => {}
            Effect::Lent { .. } => unreachable!("nothing is borrowed"),
            Effect::ControlDone { id, result } => {
                let (operator, _, mut cx) = self.parts(run, disks);
                operator.answered(id, result, &mut cx)?;
            }
        }
        Ok(())
    }

    fn submit_to_flash(&mut self, op: FlashOp, run: &mut Run) {
        if !self.life.process.survives_operation() {
            return;
        }
        let device = self.bay.in_use_mut();
        let token = op.token.0;
        run.event(&[3, token], || {
            let entries = device.journal_entries(&op.verb);
            format!("flash {token} {:?}{entries}", op.verb)
        });
        device.submit(op, self.life.process.opens(), run.now());
    }

    fn retain(&mut self, what: RetainedUpdate, run: &mut Run) {
        let device = self.bay.in_use_mut();
        if run.special() == Special::Rotten && !self.life.process.survives_operation() {
            run.hit("crash amid a record in retained memory");
            device.retain_half(what);
        } else {
            device.retain(what);
        }
    }

    /// Operations of its flash have ended.
    ///
    /// # Errors
    /// What the cache must not make of that.
    pub(crate) fn flash_ends(&mut self, run: &mut Run, disks: &mut Disks) -> Result<(), Violation> {
        for done in self.bay.in_use_mut().poll(run.now()) {
            let survives = self.life.process.survives_operation();
            let token = done.token.0;
            let ok = done.result.is_ok();
            run.event(&[1, token, u64::from(ok)], || {
                format!("flash {token} ended, ok: {ok}")
            });
            let done = self.bay.in_use_mut().complete(done);
            if !survives {
                return Ok(());
            }
            self.life.process.flash_done(done, run.now());
            self.carry_out_effects(run, disks)?;
        }
        Ok(())
    }

    /// Operations of an origin have ended.
    ///
    /// # Errors
    /// What the cache must not make of that.
    pub(crate) fn origin_ends(
        &mut self,
        number: usize,
        run: &mut Run,
        disks: &mut Disks,
    ) -> Result<(), Violation> {
        let handle = self.life.process.origin_mut(number);
        let done = disks[number].origin_mut().poll(handle, run.now());
        if run.settings().rates.origin_late > 0 {
            // What has waited for a late change may stall now.
            disks.plan_release(run);
        }
        let mut done = done.into_iter();
        while let Some(ended) = done.next() {
            let survives = self.life.process.survives_operation();
            let token = ended.token.0;
            let ok = ended.result.is_ok();
            run.event(&[2, token, u64::from(ok)], || {
                format!("origin {number} {token} ended, ok: {ok}")
            });
            let (_, _, mut cx) = self.parts(run, disks);
            origin_traffic::flush_ended(number, ended.token, ok, &mut cx);
            if !survives {
                // What a failed flush has taken is gone, although nobody learns of it any more.
                for done in done {
                    let ok = done.result.is_ok();
                    origin_traffic::flush_ended(number, done.token, ok, &mut cx);
                }
                return Ok(());
            }
            self.life.process.origin_done(ended, run.now());
            self.carry_out_effects(run, disks)?;
        }
        Ok(())
    }

    /// The first owner's record of a disk on its way has come, or could not be made.
    pub(crate) fn record_is_made(&mut self, number: usize, run: &mut Run, disks: &mut Disks) {
        owner_records::answer(number, &mut self.parts(run, disks).2);
    }

    /// The state directory answers.
    pub(crate) fn state_directory_answers(&mut self, run: &mut Run) {
        let process = &mut self.life.process;
        let device = self.bay.in_use_mut();
        self.life.state_directory.answer(process, device, run);
    }

    /// The cache is looked at.
    pub(crate) fn tick(&mut self, run: &Run) {
        self.life.process.tick(run.now());
    }
}

/// The cache says that something on flash is damaged.
///
/// # Errors
/// If the flash has no fault.
fn must_have_rotted(damage: Damage, run: &mut Run) -> Result<(), Violation> {
    let Special::Scrubbed { rots } = run.special() else {
        return Ok(());
    };
    run.event(&[72, damage.at.get()], || format!("{damage:?}"));
    if !rots {
        let what = format!("{damage:?} over flash without faults");
        return Err(Violation::new("scrub", what));
    }
    run.hit("damage in a scrubbed world");
    Ok(())
}
