//! Parameters that several miners have.

use policy::replacement::{BadValue, Fraction, Parameter};
use units::Bytes;

/// Memory of a miner.
pub(super) const MEMORY: Parameter = Parameter {
    name: "memory",
    meaning: "memory of the miner of one disk",
    takes: "a size from 128KiB to 64MiB, whole KiB",
};

const MEMORY_MIN: Bytes = Bytes::kib(128);
const MEMORY_MAX: Bytes = Bytes::mib(64);

pub(super) fn parse_memory(text: &str) -> Result<Bytes, BadValue> {
    let memory: Bytes = text.parse().map_err(|_| BadValue)?;
    let fits = (MEMORY_MIN..=MEMORY_MAX).contains(&memory) && memory.is_multiple_of(1024);
    if fits { Ok(memory) } else { Err(BadValue) }
}

/// As [`parse_memory`] reads it: [`Bytes`] prints two decimals where no unit divides it.
pub(super) fn write_memory(memory: Bytes) -> String {
    if memory.is_multiple_of(1 << 20) {
        format!("{}MiB", memory.get() >> 20)
    } else {
        format!("{}KiB", memory.get() >> 10)
    }
}

/// The least confidence.
pub(super) const CONFIDENCE: Parameter = Parameter {
    name: "conf",
    meaning: "the least part of the cases in which what is guessed followed",
    takes: "a number from 0.01 to 1",
};

pub(super) fn parse_confidence(text: &str) -> Result<Fraction, BadValue> {
    Fraction::parse(text, Fraction::millionths(10_000), Fraction::ONE)
}
