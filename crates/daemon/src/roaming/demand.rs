//! What a VM wanted of the flash of its last host, in words for the link and for the tenancy.

use link_protocol::{CURVE_POINTS_MAX, HITS_OF, Message};
use policy::allocation::Size;
use tenancy::{Report, Wanted};
use units::DiskId;

/// Points of a curve in an octave of sizes: all that a disk may have fit into a message.
const PER_OCTAVE: u32 = 3;
const SECONDS: f64 = 1000.0;

/// What the VM of a disk wants here, for its next host.
pub(super) fn of_report(disk: DiskId, report: &Report) -> Message {
    let points = report.curve.reads.points().iter();
    let points = points.map(|point| (point.blocks, 1.0 - point.miss_ratio));
    Message::Demand {
        disk: disk.to_u128(),
        accessed: report.wants.wss,
        reused: report.wants.rwss,
        reads: whole(report.reads_a_second * SECONDS),
        curve: thinned(points),
    }
}

/// What a VM wanted at its last host, if that has said so.
pub(super) fn wanted(message: &Message) -> Option<Wanted> {
    let Message::Demand {
        accessed,
        reused,
        reads,
        curve,
        ..
    } = message
    else {
        return None;
    };
    let curve = curve.iter().map(|(blocks, hits)| Size {
        blocks: *blocks,
        hit_ratio: f64::from(*hits) / f64::from(HITS_OF),
    });
    Some(Wanted {
        wss: *accessed,
        rwss: *reused,
        reads_a_second: units::number::real(*reads) / SECONDS,
        curve: curve.collect(),
    })
}

/// Some of the sizes, and the last one.
fn thinned(points: impl Iterator<Item = (u64, f64)>) -> Vec<(u64, u32)> {
    let mut kept: Vec<(u64, u32)> = Vec::new();
    let mut last = None;
    for (blocks, ratio) in points {
        let hits = whole(ratio.clamp(0.0, 1.0) * f64::from(HITS_OF));
        let point = (blocks, u32::try_from(hits).unwrap_or(HITS_OF));
        let step = kept.last().map_or(1, |(before, _)| {
            before + (before / u64::from(PER_OCTAVE + 1)).max(1)
        });
        last = Some(point);
        if blocks >= step && kept.len() + 1 < CURVE_POINTS_MAX {
            kept.push(point);
        }
    }
    kept.extend(last.filter(|last| kept.last().is_none_or(|kept| kept.0 < last.0)));
    kept
}

/// Rounds down.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure that is too large is as large as can be"
)]
fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use link_protocol::Frame;

    #[test]
    fn a_curve_of_many_points_fits_into_a_message() {
        let points = |count: u64| (1..=count).map(|blocks| (blocks * 8, 0.5));
        let few = thinned(points(3));
        assert_eq!(few, [(8, 500_000), (16, 500_000), (24, 500_000)]);
        let many = thinned((0..u64::BITS).map(|bit| (1 << bit, 1.0)));
        assert_eq!(many.len(), CURVE_POINTS_MAX);
        let long = thinned(points(1 << 20));
        assert!(long.len() <= CURVE_POINTS_MAX);
        assert_eq!(long.last(), Some(&(8 << 20, 500_000)));
        let message = Message::Demand {
            disk: 1,
            accessed: u64::MAX,
            reused: u64::MAX,
            reads: u64::MAX,
            curve: many,
        };
        let mut bytes = Vec::new();
        Frame::notice(message.clone()).encode(&mut bytes);
        let wanted = wanted(&message).unwrap();
        assert_eq!(wanted.curve.len(), CURVE_POINTS_MAX);
        assert_eq!(super::wanted(&Message::Stale), None);
    }
}
