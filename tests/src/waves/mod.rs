//! Guests that move at the same time over one slow link, so that the time that [`groups::latency`] predicts can be held
//! against the time that they take.
//!
//! ```text
//!   source 0 ── near0 ─┐              ┌─ far0 ── destination 0      QEMU each, with an emulated CPU
//!   source 1 ── near1 ─┴─ bottleneck ─┴─ far1 ── destination 1      max-bandwidth: what the split says
//! ```
//! What a guest's move sends is known before it: a move into nothing counts the pages that are not zeroes, and those that
//! become dirty meanwhile, and is cancelled. Nothing of that crosses the link.
//!
//! Guests have no disk: they rewrite their memory at random, and know what each page holds.

mod bottleneck;
mod deal;
mod member;

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use groups::latency::{self, Timing};
use groups::{Load, Rate, Split};
use units::number::real;

use crate::{GuestKit, LONG, Lab, wait_until};
use bottleneck::Bottleneck;
pub use member::Member;
use member::Mover;

/// How often the link is dealt anew.
const CORRECTED_EVERY: Duration = Duration::from_secs(1);

/// How a wave went.
#[derive(Debug)]
pub struct Moved {
    /// What each guest's move was to send.
    pub loads: Vec<Load>,
    /// What the model says of that.
    pub predicted: Timing,
    /// When each guest was across, since the moves began.
    pub across: Vec<Duration>,
    /// Pages that guests found lost: QEMU's, with an emulated CPU.
    pub lost_pages: u64,
}

impl Moved {
    /// When the last guest was across.
    pub fn time(&self) -> Duration {
        self.across.iter().copied().max().unwrap_or_default()
    }

    /// By how much of its time the wave took longer than predicted; less than zero if it was faster.
    pub fn error(&self) -> f64 {
        let measured = self.time().as_secs_f64();
        (measured - self.predicted.time_s) / measured
    }

    /// How much earlier than the last guest the first was across, as a part of the wave's time.
    pub fn gap(&self) -> f64 {
        let first = self.across.iter().copied().min().unwrap_or_default();
        1.0 - first.as_secs_f64() / self.time().as_secs_f64()
    }
}

/// Boots guests, predicts how long they take to move over a link of this rate, and moves them.
///
/// # Errors
///
/// When a guest does not come up, move, or go on there, or the model says that the wave does not converge.
pub fn move_wave(
    lab: &Lab,
    kit: &GuestKit,
    members: &[Member],
    link: Rate,
    split: Split,
) -> anyhow::Result<Moved> {
    let bottleneck = Bottleneck::new(link);
    let mut movers = Vec::new();
    for member in members.iter().copied().enumerate() {
        movers.push(Mover::boot(lab, kit, &bottleneck, member)?);
    }
    for mover in &mut movers {
        mover.wait_until_steady()?;
    }
    let loads = count(&mut movers, members, link)?;
    let predicted = latency::of_wave(&loads, link, split)
        .map_err(|diverges| anyhow!("a wave that does not converge: {diverges:?}"))?;
    let began = Instant::now();
    for (mover, share) in movers.iter_mut().zip(&predicted.shares) {
        mover.begin(share.bandwidth)?;
    }
    let ended = steer(&mut movers, &loads, link, split)?;
    let lost = movers.into_iter().map(Mover::arrive);
    Ok(Moved {
        lost_pages: lost.sum::<anyhow::Result<u64>>()?,
        loads,
        predicted,
        across: ended
            .into_iter()
            .map(|end| end.duration_since(began))
            .collect(),
    })
}

/// Counts what each move will send, about as fast as it will: pages that are dirtied again and again are fewer in a
/// second of a long time than of a short one.
fn count(movers: &mut [Mover], members: &[Member], link: Rate) -> anyhow::Result<Vec<Load>> {
    let all: u64 = members.iter().map(|member| member.memory_mib()).sum();
    for (mover, member) in movers.iter_mut().zip(members) {
        let part = real(member.memory_mib()) / real(all.max(1));
        let share = Rate::new(link.bytes_per_second() * part);
        mover.begin_count(share.context("a part of the link")?)?;
    }
    let mut loads = vec![None; movers.len()];
    wait_until("memory to be counted", LONG, || {
        for (mover, load) in movers.iter_mut().zip(&mut loads) {
            if load.is_none() {
                *load = mover.counted()?;
            }
        }
        Ok(loads.iter().all(Option::is_some))
    })?;
    Ok(loads.into_iter().flatten().collect())
}

/// Watches moves until all have ended, and says when each did. What is dealt is dealt anew now and then.
fn steer(
    movers: &mut [Mover],
    loads: &[Load],
    link: Rate,
    split: Split,
) -> anyhow::Result<Vec<Instant>> {
    let mut ended = vec![None; movers.len()];
    let mut dealt = Instant::now();
    wait_until("the guests to be across", LONG, || {
        let mut left = Vec::new();
        for (place, mover) in movers.iter_mut().enumerate() {
            if ended[place].is_some() {
                continue;
            }
            match mover.look()? {
                Ok(end) => ended[place] = Some(end),
                Err(progress) => left.push((place, deal::left(loads[place], &progress))),
            }
        }
        if split == Split::Dealt && dealt.elapsed() >= CORRECTED_EVERY {
            dealt = Instant::now();
            let loads: Vec<Load> = left.iter().map(|(_, load)| *load).collect();
            let bandwidths = deal::bandwidths(&loads, link).unwrap_or_default();
            for ((place, _), bandwidth) in left.iter().zip(bandwidths) {
                movers[*place].set_bandwidth(bandwidth)?;
            }
        }
        Ok(ended.iter().all(Option::is_some))
    })?;
    Ok(ended.into_iter().flatten().collect())
}
