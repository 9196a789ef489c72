//! Shares that save the most origin time: marginal gains on the hulls of the live curves.
//!
//! Papers: R. Koller et al., *Centaur*, ICAC 2015, and F. Meng et al., *vCacheShare*, USENIX ATC 2014,
//! divide by curves and latencies; that greedy division is optimal on convex curves is H. S. Stone,
//! J. Turek and J. L. Wolf, *Optimal partitioning of cache memory*, IEEE Transactions on Computers 41(9),
//! 1992.
//!
//! ```text
//!   saved time a second = hit ratio (share) x accesses a second x (origin latency - flash latency)
//!
//!   hits │      ____x      each piece of the hull: so many segments, so much saved for each
//!        │   x'  piece 2   pieces of all tenants, best first, until the room is gone
//!        │  / piece 1
//! ```
//!
//! On the hull the gain of a further segment never grows, so taking the best piece that anybody has is
//! best for all. At most one tenant ends within a piece; within a cliff's piece it gains nothing before
//! the cliff's end, which is the price of whole division.
//!
//! What shared images hold counts once if the image is a tenant of its own, as [`super::Tenant::curve`]
//! asks. Weights multiply what is saved. Floors come first. A tenant without a curve counts with a fair
//! part. What nobody gains from goes by weight, or stays idle.

use super::demand::{by_weight, fair_parts};
use super::fill::{Claim, fill};
use super::{Allocator, Room, Size, Spare, Tenant};
use crate::replacement::{About, Settings};
use units::number::real;

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "utility",
    other_names: &[],
    paper: "R. Koller et al., \"Centaur: Host-side SSD Caching for Storage Performance Control\", ICAC 2015",
    queues: &[],
    parameters: &[],
    knows_future: false,
};

/// Shares that save the most origin time; no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utility;

impl Settings for Utility {}

/// A straight piece of a tenant's hull.
#[derive(Clone, Copy, Debug)]
struct Piece {
    tenant: usize,
    /// Where it ends, in blocks.
    end: u64,
    /// Time saved, in us a second, for each further block.
    gain: f64,
}

impl Allocator for Utility {
    fn targets(&self, room: &Room, tenants: &[Tenant<'_>]) -> Vec<u32> {
        let fair = fair_parts(room, tenants);
        let claims = by_weight(room, tenants);
        let begin = tenants.iter().zip(claims.iter().zip(&fair));
        let mut shares: Vec<u32> = begin
            .map(|(tenant, (claim, fair))| {
                if tenant.curve.is_empty() {
                    *fair
                } else {
                    claim.floor
                }
            })
            .collect();
        let mut left = room.capacity - shares.iter().sum::<u32>();
        for piece in pieces(tenants) {
            let end = piece.end.div_ceil(u64::from(room.segment_blocks));
            let end = u32::try_from(end).unwrap_or(u32::MAX);
            let end = end.min(claims[piece.tenant].ceiling);
            let more = end.saturating_sub(shares[piece.tenant]).min(left);
            shares[piece.tenant] += more;
            left -= more;
        }
        if room.spare == Spare::Idle {
            return shares;
        }
        let spread: Vec<Claim> = claims
            .into_iter()
            .zip(&shares)
            .map(|(claim, share)| Claim {
                floor: *share,
                ..claim
            })
            .collect();
        fill(room.capacity, &spread)
    }

    fn can_idle(&self) -> bool {
        true
    }
}

/// The pieces of all tenants' hulls that save something, best first; of equals the lower slot's.
fn pieces(tenants: &[Tenant<'_>]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (at, tenant) in tenants.iter().enumerate() {
        let value = tenant.accesses_a_second * tenant.saved_us * f64::from(tenant.limits.weight);
        let corners = hull(tenant.curve);
        for pair in corners.windows(2) {
            let blocks = real(pair[1].blocks - pair[0].blocks);
            let gain = (pair[1].hit_ratio - pair[0].hit_ratio) / blocks * value;
            if gain > 0.0 {
                let end = pair[1].blocks;
                let tenant = at;
                pieces.push(Piece { tenant, end, gain });
            }
        }
    }
    // Stable, and each tenant's own are in falling order already.
    pieces.sort_by(|one, other| {
        let best = other.gain.total_cmp(&one.gain);
        let slot = |piece: &Piece| tenants[piece.tenant].slot;
        best.then(slot(one).cmp(&slot(other)))
    });
    pieces
}

/// The upper hull of a curve from nothing on; sizes that do not rise are passed over.
fn hull(curve: &[Size]) -> Vec<Size> {
    let mut corners = vec![Size {
        blocks: 0,
        hit_ratio: 0.0,
    }];
    for &size in curve {
        if size.blocks <= corners[corners.len() - 1].blocks {
            continue;
        }
        while let [.., a, b] = corners[..]
            && slope(a, b) <= slope(a, size)
        {
            corners.pop();
        }
        corners.push(size);
    }
    corners
}

fn slope(from: Size, to: Size) -> f64 {
    (to.hit_ratio - from.hit_ratio) / real(to.blocks - from.blocks)
}
