//! Who has which part of the link, corrected while the VMs of a wave move.
//!
//! The deal is made from what each VM has left, by the same model that predicts the whole move. A VM of which more is
//! left than foreseen gets more of the link, so that all still end together.

use std::time::Duration;

use groups::latency::{Load, of_wave};
use groups::{Rate, Split};
use units::Bytes;
use units::number::{count_near, real};

/// The least part of the link that a VM has, in hundredths: one that seems done is not held up by a small error.
const LEAST_PERCENT: f64 = 2.0;

/// What QEMU says of a move that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// How often it has looked which pages are dirty; the first time is before the first page.
    pub(super) passes: u64,
    /// Since it last looked.
    pub(super) in_pass: Duration,
    /// What it has sent.
    pub(super) sent: Bytes,
    /// What it has to send of what was dirty when it last looked.
    pub(super) remaining: Bytes,
    /// What the VM makes dirty, if it has measured that.
    pub(super) dirty: Option<Rate>,
}

/// What is left of a VM that was foreseen to be `first` when its move began.
pub(super) fn left(first: Load, progress: &Progress) -> Load {
    let dirty = progress.dirty.unwrap_or(first.dirty);
    // In the first pass QEMU takes pages of zeroes, which it need not send, for remaining too.
    let known = if progress.passes <= 1 {
        first.size.saturating_sub(progress.sent)
    } else {
        progress.remaining
    };
    let since = dirty.bytes_per_second() * progress.in_pass.as_secs_f64();
    Load {
        size: Bytes::new(count_near(real(known.get()) + since)),
        dirty,
    }
}

/// The bandwidth of each VM, or none if what they make dirty is as much as the link.
pub(super) fn bandwidths(left: &[Load], link: Rate) -> Option<Vec<Rate>> {
    let timing = of_wave(left, link, Split::Dealt).ok()?;
    let least = link.bytes_per_second() * LEAST_PERCENT / 100.0;
    let shares = timing.shares.iter();
    shares
        .map(|share| Rate::new(share.bandwidth.bytes_per_second().max(least)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(size: u64, dirty: f64) -> Load {
        Load {
            size: Bytes::new(size),
            dirty: Rate::new(dirty).unwrap(),
        }
    }

    fn progress(passes: u64, dirty: Option<f64>) -> Progress {
        Progress {
            passes,
            in_pass: Duration::from_secs(3),
            sent: Bytes::new(700),
            remaining: Bytes::new(5_000),
            dirty: dirty.and_then(Rate::new),
        }
    }

    #[test]
    fn what_was_foreseen_counts_in_the_first_pass() {
        assert_eq!(left(load(1_000, 10.0), &progress(1, None)), load(330, 10.0));
        // More was sent than was foreseen: what has become dirty is left at least.
        assert_eq!(left(load(500, 10.0), &progress(1, None)), load(30, 10.0));
    }

    #[test]
    fn what_qemu_says_counts_in_later_passes() {
        assert_eq!(
            left(load(1_000, 10.0), &progress(2, Some(20.0))),
            load(5_060, 20.0)
        );
    }

    #[test]
    fn who_has_more_left_gets_more_and_nobody_gets_nothing() {
        let link = Rate::new(1_000.0).unwrap();
        let dealt = bandwidths(&[load(3_000, 0.0), load(1_000, 0.0), load(0, 0.0)], link).unwrap();
        assert_eq!(
            dealt,
            [750.0, 250.0, 20.0].map(|rate| Rate::new(rate).unwrap())
        );
        assert_eq!(bandwidths(&[load(1, 1_000.0)], link), None);
    }
}
