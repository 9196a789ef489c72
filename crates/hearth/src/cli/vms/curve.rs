//! A live miss-ratio curve on a terminal, with the present size and the one that is aimed at.

use crate::mrc::plot;
use crate::terminal::quantity;
use api::vms::{CurvePoint, Share};
use std::fmt::{self, Write};
use units::number::real;

/// Draws the misses of reads by size, `P` and `T` below: the present share and the target.
pub(super) fn draw(out: &mut String, share: &Share) -> fmt::Result {
    let points = &share.curve.points;
    let Some(last) = points.last().filter(|_| share.blocks.reads > 0) else {
        return Ok(());
    };
    let widest = real(last.size_blocks);
    let misses = |part: f64| 1.0 - hit_ratio(points, part * widest);
    let size = |blocks: u64| quantity::bytes(blocks.saturating_mul(units::BLOCK_BYTES));
    writeln!(out)?;
    let title = "misses of reads by size of the cache (LRU; from a sample of the last hours)";
    plot::draw(out, &[&misses], title, &size(last.size_blocks))?;
    let part = |blocks: u64| real(blocks) / widest;
    plot::marks(
        out,
        &[
            ('T', part(share.target_blocks)),
            ('P', part(share.share_blocks)),
        ],
    )?;
    let hits = quantity::share;
    let curve = &share.curve;
    write!(
        out,
        "      P present share {}: {} of reads would hit; T target {}: {}",
        size(share.share_blocks),
        hits(curve.present_read_hit_ratio),
        size(share.target_blocks),
        hits(curve.target_read_hit_ratio),
    )?;
    match curve.knee_blocks {
        Some(knee) => writeln!(out, "; knee at {}", size(knee)),
        None => writeln!(out, "; no knee"),
    }
}

/// Hit ratio of reads at a size, between the points on a line.
fn hit_ratio(points: &[CurvePoint], blocks: f64) -> f64 {
    let at = |point: &CurvePoint| real(point.size_blocks);
    let above = points.partition_point(|point| at(point) <= blocks);
    let (from, from_ratio) = match above.checked_sub(1) {
        Some(below) => (at(&points[below]), points[below].read_hit_ratio),
        None => (0.0, 0.0),
    };
    match points.get(above) {
        None => from_ratio,
        Some(next) => {
            let part = (blocks - from) / (at(next) - from);
            from_ratio + part * (next.read_hit_ratio - from_ratio)
        }
    }
}
