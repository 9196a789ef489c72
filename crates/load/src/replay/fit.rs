//! Where a trace's requests go on a target: widened to its unit, cut to what it takes at once, and wrapped around
//! its end.

use super::{Asked, Kind};
use crate::limits::{PART_BYTES_MAX, UNIT_BYTES_MAX, WRAP_BYTES};
use crate::target::Geometry;

/// How requests are laid on a target. Sizes are in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    size: u64,
    unit: u64,
    /// The longest read or write.
    data_max: u64,
    /// The longest discard or write-zeroes.
    erase_max: u64,
    can_flush: bool,
    can_trim: bool,
    can_zero: bool,
}

/// What is asked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) length: u32,
}

/// The rest of a request.
#[derive(Debug)]
pub(super) struct Parts {
    at: u64,
    left: u64,
    most: u64,
    size: u64,
}

impl Fit {
    /// For a target that has at least one unit, and buffers of that many bytes.
    pub(super) fn new(geometry: &Geometry, buffer_bytes: u64) -> Self {
        let unit = u64::from(geometry.unit.max(1));
        let whole = |bytes: u64| (bytes - bytes % unit).max(unit);
        let data = u64::from(geometry.request_max).min(PART_BYTES_MAX);
        Self {
            size: whole(geometry.size),
            unit,
            data_max: whole(data.min(buffer_bytes)),
            erase_max: whole(u64::from(geometry.erase_max)),
            can_flush: geometry.can_flush,
            can_trim: geometry.can_trim,
            can_zero: geometry.can_zero,
        }
    }

    /// Whether the target knows such requests at all.
    pub(super) fn knows(&self, kind: Kind) -> bool {
        match kind {
            Kind::Read | Kind::Write => true,
            Kind::Flush => self.can_flush,
            Kind::Discard => self.can_trim,
            Kind::WriteZeroes => self.can_zero,
        }
    }

    /// What is asked for a request: one part, or several one after the other if it is longer than the target takes
    /// or goes over its end. A flush is one part without bytes, and no other request of no bytes has any.
    pub(super) fn parts(&self, asked: Asked) -> Parts {
        let begin = asked.offset - asked.offset % self.unit;
        let end = asked.offset.saturating_add(asked.length);
        let up = end.checked_next_multiple_of(self.unit);
        let end = up.unwrap_or(end - end % self.unit);
        let none = asked.length == 0 || asked.kind == Kind::Flush;
        let left = if none { 0 } else { end - begin };
        // Around whole blocks, so that what was one block in the trace is one on the target.
        let around = if self.size >= WRAP_BYTES {
            self.size - self.size % WRAP_BYTES
        } else {
            self.size
        };
        let at = if begin < self.size {
            begin
        } else {
            begin % around
        };
        Parts {
            at,
            left: left.min(self.size),
            most: if asked.kind.carries_data() {
                self.data_max
            } else {
                self.erase_max
            },
            size: self.size,
        }
    }
}

impl Iterator for Parts {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        if self.left == 0 {
            return None;
        }
        let length = self.left.min(self.most).min(self.size - self.at);
        let part = Part {
            offset: self.at,
            length: u32::try_from(length).expect("parts are shorter than 4 GiB"),
        };
        self.left -= length;
        self.at = (self.at + length) % self.size;
        Some(part)
    }
}

const _: () = assert!(UNIT_BYTES_MAX <= PART_BYTES_MAX);
const _: () = assert!(PART_BYTES_MAX < 1 << 32);

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Duration, Prng};

    fn geometry(size: u64, unit: u32) -> Geometry {
        Geometry {
            size,
            unit,
            request_max: 1 << 20,
            erase_max: 4 << 20,
            depth_max: 8,
            read_only: false,
            can_trim: true,
            can_zero: false,
            can_flush: true,
        }
    }

    fn parts(fit: &Fit, kind: Kind, offset: u64, length: u64) -> Vec<(u64, u32)> {
        let asked = Asked {
            at: Duration::ZERO,
            kind,
            offset,
            length,
        };
        let parts = fit.parts(asked);
        parts.map(|part| (part.offset, part.length)).collect()
    }

    #[test]
    fn a_request_within_the_target_is_asked_as_it_is() {
        let fit = Fit::new(&geometry(8 << 20, 512), 1 << 20);
        assert_eq!(parts(&fit, Kind::Read, 4096, 512), [(4096, 512)]);
        assert_eq!(parts(&fit, Kind::Read, 4096, 0), []);
        assert_eq!(parts(&fit, Kind::Read, 100, 500), [(0, 1024)]);
        let whole = [(0, 4 << 20), (4 << 20, 4 << 20)];
        assert_eq!(parts(&fit, Kind::Discard, 0, 8 << 20), whole);
        let long = [(0, 1 << 20), (1 << 20, 1024)];
        assert_eq!(parts(&fit, Kind::Write, 0, (1 << 20) + 1000), long);
        assert!(fit.knows(Kind::Discard) && !fit.knows(Kind::WriteZeroes));
    }

    #[test]
    fn what_lies_beyond_the_end_goes_on_from_the_beginning() {
        let fit = Fit::new(&geometry((1 << 20) + 512, 512), 1 << 20);
        let beyond = (1 << 20) + 512 + 8192;
        // Around 1 MiB, not around the half block at the end: blocks stay blocks.
        assert_eq!(
            parts(&fit, Kind::Read, (2 << 20) + 4096, 512),
            [(4096, 512)]
        );
        assert_eq!(parts(&fit, Kind::Read, beyond, 512), [(8704, 512)]);
        let over = [(1 << 20, 512), (0, 3584)];
        assert_eq!(parts(&fit, Kind::Read, 1 << 20, 4096), over);
    }

    #[test]
    fn whatever_is_asked_stays_on_the_target() {
        let mut dice = Prng::new(7);
        for _ in 0..20_000 {
            let unit = 1 << dice.below(13);
            let size = u64::from(unit) + dice.below(1 << 22);
            let fit = Fit::new(&geometry(size, unit), 1 << (13 + dice.below(8)));
            let kind = Kind::ALL[usize::try_from(dice.below(5)).unwrap()];
            let shift = dice.below(64);
            let offset = u64::MAX >> shift;
            for (offset, length) in parts(&fit, kind, offset, dice.below(1 << 24)) {
                assert!(length > 0 && offset + u64::from(length) <= size);
                assert!(offset.is_multiple_of(u64::from(unit)));
                assert!(length.is_multiple_of(unit));
            }
        }
    }
}
