//! A cache on a workbench: flash, origins and host carry out at once what the cache asks for.
//!
//! It is for tests, benchmarks and fuzz targets that need neither time nor crashes. The world has both. What
//! flash and origins do to the bytes is the caller's ([`Surroundings`]); `medium::carry_out` helps with flash.

#![forbid(unsafe_code)]

use block_io::{FlashDone, FlashOp, OriginDone, OriginOp, OriginVerb};
use cache::{Cache, Effect, OpenError, Recovered, Recovery};
use units::Instant;

/// The flash and the origins of a cache.
pub trait Surroundings {
    /// Carries out an operation of the flash.
    fn flash(&mut self, op: FlashOp) -> FlashDone;

    /// Carries out an operation of an origin.
    fn origin(&mut self, op: OriginOp) -> OriginDone {
        origin_of_zeroes(op)
    }
}

/// What an origin answers that reads as zeroes and forgets what is written.
pub fn origin_of_zeroes(op: OriginOp) -> OriginDone {
    let buf = match op.verb {
        OriginVerb::Read { mut buf, .. } => {
            buf.fill(0);
            Some(buf)
        }
        _ => None,
    };
    OriginDone {
        token: op.token,
        buf,
        result: Ok(()),
        volatile: false,
        passes: false,
    }
}

/// Carries a recovery to its end.
///
/// # Errors
/// Why there is no cache.
///
/// # Panics
/// If the recovery asks for anything but its flash, or for nothing before it has ended.
pub fn recover(
    mut recovery: Recovery,
    around: &mut impl Surroundings,
    now: Instant,
) -> Result<Recovered, OpenError> {
    let mut effects = Vec::new();
    loop {
        if let Some(recovered) = recovery.finished() {
            return recovered;
        }
        recovery.take_effects(&mut effects);
        assert!(!effects.is_empty(), "a recovery comes to an end");
        for effect in effects.drain(..) {
            let Effect::Flash(op) = effect else {
                panic!("a recovery uses nothing but the flash")
            };
            recovery.flash_done(around.flash(op), now);
        }
    }
}

/// Carries out everything that a cache asks for, until it asks for nothing more. The host makes each record
/// that it is asked for. `effects` is room for the cache's effects, empty before and after. What is not for
/// flash, origins or host goes to `other`: answers, ends of commands, and what the flash has lost.
#[inline]
pub fn settle(
    cache: &mut Cache,
    around: &mut impl Surroundings,
    now: Instant,
    effects: &mut Vec<Effect>,
    mut other: impl FnMut(Effect),
) {
    loop {
        cache.take_effects(effects);
        if effects.is_empty() {
            return;
        }
        for effect in effects.drain(..) {
            match effect {
                Effect::Flash(op) => cache.flash_done(around.flash(op), now),
                Effect::Origin(op) => cache.origin_done(around.origin(op), now),
                Effect::Retire { token, .. } => cache.retired(token, true, now),
                Effect::Reinstate { token, .. } => cache.reinstated(token, true, now),
                Effect::Own { token, .. } => cache.owned(token, true, now),
                other_effect => other(other_effect),
            }
        }
    }
}
