//! Advice on a running host: who would gain from flash, whether there is too little of it, whether the write
//! budget costs hits, and whether more flash, or memory in front of it, would pay.
//!
//! All of it follows from the live curves. A curve times the reads a second is what each size would hit;
//! its concave hull, of all VMs and images of a cache together, says what the best division of any amount
//! of flash would hit (greedily the steepest step first, which on hulls is the optimum; C. Waldspurger et
//! al., FAST 2015, use the same). Curves are of LRU and count every miss as let in, so what is told is what
//! sizes can do, not what a strict admission does.
//!
//! Units: blocks of 4 KiB, hits a second.

use api::advice::{CacheAdvice, Finding, HostAdvice, MoreFlash};
use api::vms::{Curve, Share, Vms};
use configuration::Name;
use units::number::{count_near, real};

/// A gain in hits below this part of all reads is not worth naming.
const GAIN_MIN: f64 = 0.01;
/// Refusals for want of budget below this part of all that was let in or refused are not worth naming.
const REFUSED_MIN: f64 = 0.01;
/// A load above this is too much.
const LOAD_MAX: f64 = 1.0;
/// Reads below this say nothing about curves.
const READS_MIN: u64 = 1000;
/// Memory that is tried in front of the flash: one block for so many of flash.
const FLASH_OF_MEMORY: u64 = 100;
/// Hits in memory below this part of a VM's reads are not worth the memory.
const MEMORY_HITS_MIN: f64 = 0.10;
/// Amounts of flash that are tried, in percent of what there is.
const MORE_PERCENTS: [u64; 3] = [25, 50, 100];

/// A tenant as advice sees it.
struct Tenant<'a> {
    name: &'a str,
    share: &'a Share,
    hull: Vec<Point>,
}

/// A size and its hits a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    blocks: f64,
    hits: f64,
}

/// A cache: its name, the flash that it divides, what is wanted of it by what there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Divided {
    /// Its name.
    pub cache: Name,
    /// The flash that it divides.
    pub capacity_blocks: u64,
    /// What is wanted by what there is.
    pub load: f64,
}

/// Judges the caches of a host.
pub fn advise(caches: &[Divided], vms: &Vms) -> HostAdvice {
    let advice = caches.iter().map(|divided| of_cache(divided, vms));
    HostAdvice {
        caches: advice.collect(),
    }
}

fn of_cache(divided: &Divided, vms: &Vms) -> CacheAdvice {
    let of_vms = vms
        .vms
        .iter()
        .flat_map(|vm| vm.shares.iter().map(|share| (vm.name.as_str(), share)));
    let images = vms.images.iter();
    let of_images = images.filter_map(|image| Some((image.name.as_str(), image.share.as_ref()?)));
    let tenants: Vec<Tenant<'_>> = of_vms
        .chain(of_images)
        .filter(|(_, share)| share.cache == divided.cache)
        .map(|(name, share)| Tenant {
            name,
            share,
            hull: hull(&share.curve, share.demand.reads_per_second),
        })
        .collect();
    let capacity = divided.capacity_blocks;
    let present: f64 = tenants.iter().map(present_hits).sum();
    let best = divide(&tenants, capacity);
    let reads = tenants.iter().map(|of| of.share.demand.reads_per_second);
    let mut advice = CacheAdvice {
        cache: divided.cache.clone(),
        capacity_blocks: capacity,
        load: divided.load,
        reads_per_second: reads.sum(),
        hits_per_second: present,
        best_hits_per_second: hits_of(&tenants, &best),
        more_flash: Vec::new(),
        findings: Vec::new(),
    };
    let more = MORE_PERCENTS.map(|percent| {
        let more_blocks = capacity / 100 * percent;
        let parts = divide(&tenants, capacity + more_blocks);
        let hits_per_second = hits_of(&tenants, &parts);
        MoreFlash {
            more_blocks,
            hits_per_second,
        }
    });
    advice.more_flash = more.to_vec();
    advice.findings = findings(&advice, &tenants, &best);
    advice
}

fn findings(advice: &CacheAdvice, tenants: &[Tenant<'_>], best: &[f64]) -> Vec<Finding> {
    let read_blocks = tenants.iter().map(|of| of.share.blocks.reads).sum();
    let mut findings = Vec::new();
    if read_blocks < READS_MIN {
        findings.push(Finding::TooEarly {
            read_blocks,
            needed_blocks: READS_MIN,
        });
        return findings;
    }
    if advice.load > LOAD_MAX {
        let wanted = real(advice.capacity_blocks) * (advice.load - 1.0);
        findings.push(Finding::Overloaded {
            missing_blocks: count_near(wanted),
        });
    }
    findings.extend(tenants.iter().filter_map(budget_limits));
    if advice.reads_per_second <= 0.0 {
        // Nothing below can be weighed.
        findings.push(idle(tenants));
        return findings;
    }
    let worth = GAIN_MIN * advice.reads_per_second;
    let mut moves: Vec<(f64, Finding)> = Vec::new();
    for (tenant, &blocks) in tenants.iter().zip(best) {
        let share = real(tenant.share.share_blocks);
        let change = at(&tenant.hull, blocks) - at(&tenant.hull, share);
        let vm = tenant.name.to_owned();
        if change > worth && blocks > share {
            let finding = Finding::Gains {
                vm,
                more_blocks: count_near(blocks - share),
                hits_per_second: change,
            };
            moves.push((change, finding));
        } else if share - blocks > 0.1 * share && -change < worth && !moves_nothing(advice) {
            let finding = Finding::CouldGive {
                vm,
                less_blocks: count_near(share - blocks),
                hits_per_second: -change,
            };
            moves.push((change.min(0.0), finding));
        }
    }
    moves.sort_by(|a, b| b.0.total_cmp(&a.0));
    findings.extend(moves.into_iter().map(|(_, finding)| finding));
    let pays = advice.more_flash.iter().find_map(|more| {
        let gain = more.hits_per_second - advice.best_hits_per_second;
        // Each quarter of flash is to bring its part of what is worth naming.
        let quarters = real(more.more_blocks) / real(advice.capacity_blocks.max(1)) * 4.0;
        (gain > worth * quarters).then_some(Finding::MoreFlashPays {
            more_blocks: more.more_blocks,
            hits_per_second: gain,
        })
    });
    findings.push(pays.unwrap_or(Finding::FlashIsEnough));
    let mut memory: Vec<Finding> = tenants.iter().filter_map(memory_answers).collect();
    if memory.is_empty() {
        memory.push(Finding::MemoryDoesNotPay {
            memory_blocks: advice.capacity_blocks / FLASH_OF_MEMORY,
        });
    }
    findings.extend(memory);
    findings
}

/// What memory would answer of a tenant's reads, if that is worth naming. A block has a copy in memory from its first
/// hit on, so a curve of LRU says what memory does at most; of the sizes on it the next smaller one is taken.
fn memory_answers(tenant: &Tenant<'_>) -> Option<Finding> {
    let memory_blocks = tenant.share.share_blocks / FLASH_OF_MEMORY;
    let points = tenant.share.curve.points.iter();
    let smaller = points.take_while(|point| point.size_blocks <= memory_blocks);
    let ratio = smaller.last()?.read_hit_ratio;
    (ratio >= MEMORY_HITS_MIN).then(|| Finding::MemoryAnswers {
        vm: tenant.name.to_owned(),
        memory_blocks,
        hits_per_second: ratio * tenant.share.demand.reads_per_second,
    })
}

/// Why nothing is known to have been read.
fn idle(tenants: &[Tenant<'_>]) -> Finding {
    let demands = || tenants.iter().map(|of| of.share.demand);
    if demands().any(|demand| demand.predicted_blocks.is_some()) {
        return Finding::Idle;
    }
    let window_seconds = demands().map(|demand| demand.window_seconds);
    Finding::FirstWindow {
        window_seconds: window_seconds.fold(0.0, f64::max),
    }
}

/// Whether dividing better would gain nothing, so that nobody has to give.
fn moves_nothing(advice: &CacheAdvice) -> bool {
    let gain = advice.best_hits_per_second - advice.hits_per_second;
    gain <= GAIN_MIN * advice.reads_per_second
}

fn budget_limits(tenant: &Tenant<'_>) -> Option<Finding> {
    let admission = &tenant.share.admission;
    let refused_blocks = admission.refused_blocks.get("budget").copied()?;
    let asked = refused_blocks + admission.admitted_blocks;
    let part = real(refused_blocks) / real(asked.max(1));
    (part > REFUSED_MIN).then(|| Finding::BudgetLimits {
        vm: Some(tenant.name.to_owned()),
        refused_blocks,
        part,
    })
}

/// The concave hull of a curve, from no flash and no hits, in hits a second.
fn hull(curve: &Curve, reads_per_second: f64) -> Vec<Point> {
    let mut hull = vec![Point {
        blocks: 0.0,
        hits: 0.0,
    }];
    for point in &curve.points {
        let next = Point {
            blocks: real(point.size_blocks),
            hits: point.read_hit_ratio * reads_per_second,
        };
        while let [.., a, b] = hull[..] {
            // `b` lies below the line from `a` to the new point.
            let is_below = (b.hits - a.hits) * (next.blocks - a.blocks)
                <= (next.hits - a.hits) * (b.blocks - a.blocks);
            if !is_below {
                break;
            }
            hull.pop();
        }
        if hull.last().is_some_and(|last| next.hits > last.hits) {
            hull.push(next);
        }
    }
    hull
}

/// Hits a second at a size, on the hull.
fn at(hull: &[Point], blocks: f64) -> f64 {
    let above = hull.partition_point(|point| point.blocks <= blocks);
    let Some(below) = above.checked_sub(1).map(|at| hull[at]) else {
        return 0.0;
    };
    match hull.get(above) {
        None => below.hits,
        Some(next) => {
            let part = (blocks - below.blocks) / (next.blocks - below.blocks);
            below.hits + part * (next.hits - below.hits)
        }
    }
}

fn present_hits(tenant: &Tenant<'_>) -> f64 {
    tenant.share.curve.present_read_hit_ratio * tenant.share.demand.reads_per_second
}

/// The best division of so many blocks: what each has.
fn divide(tenants: &[Tenant<'_>], capacity: u64) -> Vec<f64> {
    let mut steps: Vec<(f64, usize, f64)> = Vec::new();
    for (number, tenant) in tenants.iter().enumerate() {
        for pair in tenant.hull.windows(2) {
            let blocks = pair[1].blocks - pair[0].blocks;
            steps.push(((pair[1].hits - pair[0].hits) / blocks, number, blocks));
        }
    }
    // Steps of one hull are in falling order already, and stay so: the sort is stable.
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut parts = vec![0.0; tenants.len()];
    let mut left = real(capacity);
    for (_, number, blocks) in steps {
        let taken = blocks.min(left);
        parts[number] += taken;
        left -= taken;
    }
    parts
}

fn hits_of(tenants: &[Tenant<'_>], parts: &[f64]) -> f64 {
    let each = tenants.iter().zip(parts);
    each.map(|(tenant, blocks)| at(&tenant.hull, *blocks)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::samples;

    const GIB: u64 = 1 << 18;

    /// A VM that reads 1000 blocks a second and whose hits grow in proportion to its flash, up to a size.
    fn share(size: u64, most: f64, has: u64) -> Share {
        let point = |size_blocks: u64, read_hit_ratio: f64| api::vms::CurvePoint {
            size_blocks,
            read_hit_ratio,
            hit_ratio: read_hit_ratio,
        };
        let mut share = samples::share();
        let part = (real(has) / real(size)).min(1.0);
        share.share_blocks = has;
        share.demand.reads_per_second = 1000.0;
        share.blocks.reads = 1_000_000;
        share.admission.refused_blocks.clear();
        share.curve.points = vec![
            point(size / 2, most / 2.0),
            point(size, most),
            point(4 * size, most),
        ];
        share.curve.present_read_hit_ratio = most * part;
        share
    }

    fn host(shares: [(&str, Share); 2], load: f64) -> CacheAdvice {
        let mut vms = samples::vms();
        let template = vms.vms[0].clone();
        vms.images.clear();
        vms.vms = shares
            .into_iter()
            .map(|(name, share)| {
                let mut vm = template.clone();
                vm.name = name.parse().unwrap();
                vm.shares = vec![share];
                vm
            })
            .collect();
        let cache = Divided {
            cache: samples::share().cache,
            capacity_blocks: 10 * GIB,
            load,
        };
        advise(&[cache], &vms).caches.remove(0)
    }

    #[test]
    fn flash_goes_where_a_block_brings_most_hits() {
        // `a` hits 90 % with 6 GiB, `b` 10 % with 6 GiB: the best is 6 and 4.
        let advice = host(
            [
                ("a", share(6 * GIB, 0.9, 2 * GIB)),
                ("b", share(6 * GIB, 0.1, 8 * GIB)),
            ],
            1.2,
        );
        assert!((advice.best_hits_per_second - (900.0 + 100.0 * 4.0 / 6.0)).abs() < 1e-6);
        assert!((advice.hits_per_second - 400.0).abs() < 1e-6);
        let Finding::Overloaded { missing_blocks } = advice.findings[0] else {
            panic!("{:?}", advice.findings);
        };
        assert_eq!(missing_blocks, 2 * GIB);
        let gains = advice.findings.iter().find_map(|finding| match finding {
            Finding::Gains {
                vm,
                more_blocks,
                hits_per_second,
            } => Some((vm.as_str(), *more_blocks, *hits_per_second)),
            _ => None,
        });
        let (vm, more, hits) = gains.unwrap();
        assert_eq!((vm, more), ("a", 4 * GIB));
        assert!((hits - 600.0).abs() < 1e-6);
    }

    #[test]
    fn enough_is_said_to_be_enough() {
        let advice = host(
            [
                ("a", share(4 * GIB, 0.9, 5 * GIB)),
                ("b", share(4 * GIB, 0.5, 5 * GIB)),
            ],
            0.8,
        );
        let memory_blocks = 10 * GIB / 100;
        let expected = [
            Finding::FlashIsEnough,
            Finding::MemoryDoesNotPay { memory_blocks },
        ];
        assert_eq!(advice.findings, expected);
    }

    #[test]
    fn memory_is_advised_to_who_reads_little_often() {
        let mut reads_little = share(4 * GIB, 0.9, 5 * GIB);
        let point = |size_blocks, read_hit_ratio| api::vms::CurvePoint {
            size_blocks,
            read_hit_ratio,
            hit_ratio: read_hit_ratio,
        };
        let memory_blocks = 5 * GIB / 100;
        let small = [point(memory_blocks / 2, 0.3), point(memory_blocks * 2, 0.6)];
        reads_little.curve.points.splice(0..0, small);
        let advice = host(
            [("a", reads_little), ("b", share(4 * GIB, 0.5, 5 * GIB))],
            0.8,
        );
        let expected = Finding::MemoryAnswers {
            vm: "a".to_owned(),
            memory_blocks,
            hits_per_second: 300.0,
        };
        assert_eq!(advice.findings.last(), Some(&expected));
    }

    #[test]
    fn more_flash_pays_where_curves_still_rise() {
        let advice = host(
            [
                ("a", share(20 * GIB, 0.9, 5 * GIB)),
                ("b", share(20 * GIB, 0.9, 5 * GIB)),
            ],
            4.0,
        );
        let pays = advice.findings.iter().find_map(|finding| match finding {
            Finding::MoreFlashPays {
                more_blocks,
                hits_per_second,
            } => Some((*more_blocks, *hits_per_second)),
            _ => None,
        });
        let (more, hits) = pays.unwrap();
        // A quarter more: 2.5 GiB of 20 for 90 % of 1000 reads a second.
        assert_eq!(more, 10 * GIB / 100 * 25);
        assert!((hits - 112.5).abs() < 0.1, "{hits}");
    }

    #[test]
    fn a_budget_that_keeps_blocks_out_is_named() {
        let mut limited = share(4 * GIB, 0.9, 5 * GIB);
        limited.admission.admitted_blocks = 300;
        limited
            .admission
            .refused_blocks
            .insert("budget".to_owned(), 100);
        let advice = host([("a", limited), ("b", share(4 * GIB, 0.5, 5 * GIB))], 0.8);
        let expected = Finding::BudgetLimits {
            vm: Some("a".to_owned()),
            refused_blocks: 100,
            part: 0.25,
        };
        assert_eq!(advice.findings[0], expected);
    }

    #[test]
    fn a_host_that_was_hardly_read_gets_no_advice() {
        let mut early = share(4 * GIB, 0.9, 5 * GIB);
        early.blocks.reads = 10;
        let advice = host([("a", early.clone()), ("b", early)], 0.1);
        let too_early = Finding::TooEarly {
            read_blocks: 20,
            needed_blocks: READS_MIN,
        };
        assert_eq!(advice.findings, [too_early]);
        let mut idle = share(4 * GIB, 0.9, 5 * GIB);
        idle.demand.reads_per_second = 0.0;
        idle.demand.predicted_blocks = Some(7.0);
        let advice = host([("a", idle.clone()), ("b", idle.clone())], 0.1);
        assert_eq!(advice.findings, [Finding::Idle]);
        // Whether anything was read is known when the first window has ended.
        idle.demand.predicted_blocks = None;
        idle.demand.window_seconds = 600.0;
        let advice = host([("a", idle.clone()), ("b", idle)], 0.1);
        let window_seconds = 600.0;
        assert_eq!(advice.findings, [Finding::FirstWindow { window_seconds }]);
    }
}
