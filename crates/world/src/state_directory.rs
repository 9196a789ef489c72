//! The host's state directory: what is to be recorded of the cache's incarnations takes a while, and may
//! fail.

use crate::device::CacheDevice;
use crate::process::Process;
use crate::run::Run;
use block_io::Token;
use units::{Duration, Instant};

/// What is being recorded of an incarnation: that it is not to be believed, or that it is again.
#[derive(Clone, Copy)]
struct Retiring {
    /// What the cache knows it by.
    token: Token,
    incarnation: u64,
    /// When the cache is told.
    until: Instant,
    /// What it is told then.
    recorded: bool,
    /// It is believed again.
    believed: bool,
}

impl Retiring {
    /// It is there.
    fn record(self, device: &mut CacheDevice) {
        if self.believed {
            device.believe(self.incarnation);
        } else {
            device.disbelieve(self.incarnation);
        }
    }
}

/// What is on its way there.
#[derive(Default)]
pub(crate) struct StateDirectory {
    retiring: Option<Retiring>,
}

impl StateDirectory {
    /// The cache asks to record that an incarnation is not to be believed, or is again.
    pub(crate) fn record(
        &mut self,
        token: Token,
        incarnation: u64,
        believed: bool,
        device: &mut CacheDevice,
        run: &mut Run,
    ) {
        // Records come in the order in which they were asked for: one before this is there or never
        // will be.
        if let Some(before) = self.retiring.take()
            && run.one_in(2)
        {
            before.record(device);
        }
        let fails = run.one_in(run.settings().rates.retire_fails);
        let wait = Duration::from_micros(1 + run.below(20_000));
        run.event(&[6, incarnation], || {
            format!("retire incarnation {incarnation}, believed again: {believed}, fails: {fails}")
        });
        device.suspect();
        self.retiring = Some(Retiring {
            token,
            incarnation,
            until: run.now() + wait,
            recorded: !fails,
            believed,
        });
    }

    /// When the cache is told of a record.
    pub(crate) fn next_answer(&self) -> Option<Instant> {
        self.retiring.map(|retiring| retiring.until)
    }

    /// The record is durable, or could not be made.
    pub(crate) fn answer(
        &mut self,
        process: &mut Process,
        device: &mut CacheDevice,
        run: &mut Run,
    ) {
        let Some(retiring) = self.retiring.take() else {
            return;
        };
        let Retiring {
            token,
            recorded,
            believed,
            ..
        } = retiring;
        // The answer may be lost where the record is not.
        if recorded || (believed && run.one_in(2)) {
            retiring.record(device);
        }
        if !recorded {
            run.hit("retirement not recorded");
        } else if believed {
            run.hit("flash taken back");
        }
        run.event(&[7, u64::from(recorded)], || {
            format!("retirement recorded: {recorded}")
        });
        if let Some(cache) = process.cache_mut() {
            if believed {
                cache.reinstated(token, recorded, run.now());
            } else {
                cache.retired(token, recorded, run.now());
            }
        }
    }

    /// The process has died: what was on its way is there if it `lands`.
    pub(crate) fn end(&mut self, lands: bool, device: &mut CacheDevice) {
        if let Some(retiring) = self.retiring.take()
            && lands
        {
            retiring.record(device);
        }
    }
}
