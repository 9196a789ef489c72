//! Admission decides alike in the daemon's cache and in the simulator: one stream of requests of two VMs
//! and a base image that both read, through the cache and through the simulated cache, has the same
//! verdicts by reason, the same shares in each window, the same hits, and the same bytes written to flash
//! for each cause. The journal alone is simulated at its worst: the daemon's may be smaller, as entries of
//! one moment share pages.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

#[path = "../../cache/tests/engine/support/mod.rs"]
#[allow(dead_code, reason = "the tests of the cache use the rest")]
mod support;

use cache::{Config, FlashWritten, Verb};
use flash_format::Geometry;
use policy::admission::Reason;
use policy::admission::budget::Budget;
use policy::reclaim::Kind;
use simulator::divided_log::{Admission, DividedLog, Found};
use simulator::simulated_store::SimulatedStore;
use support::Bench;
use tenancy::{Capacity, Counts, Request, Settings, Share, TenantSettings, Window};
use units::{
    BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Duration, Instant, Offset, Prng, TenantSlot,
};

const FLASH: Bytes = Bytes::mib(24);
const SEGMENT: Bytes = Bytes::kib(256);
/// Blocks that are used of each disk: of disk 1 those from here on, and so forth, so that the number of a
/// block is its name in the simulator.
const BLOCKS: u64 = 8_000;
/// The VMs' tenants, and the image's, in the order in which they come.
const TENANTS: [TenantSlot; 3] = [TenantSlot::new(0), TenantSlot::new(1), TenantSlot::new(2)];
const IMAGE: usize = 2;

#[derive(Clone, Copy, Debug)]
enum What {
    Read,
    Write,
    Discard,
}

/// What a VM asks of its own disk, or of the image.
#[derive(Clone, Copy, Debug)]
struct Ask {
    vm: usize,
    disk: usize,
    what: What,
    first: u64,
    count: u64,
}

/// Half of the requests go to a tenth of the blocks, some are part of a scan, one in four is a write, and
/// one in four goes to the image.
fn requests(count: usize, blocks_max: u64, seed: u64) -> Vec<Ask> {
    let mut dice = Prng::new(seed);
    let mut scan = 0;
    let mut one = || {
        let vm = usize::from(dice.one_in(3));
        let disk = if dice.one_in(4) { IMAGE } else { vm };
        let span = if dice.one_in(2) { BLOCKS / 10 } else { BLOCKS };
        let count = 1 + dice.below(blocks_max);
        let (what, first) = if dice.one_in(10) {
            scan = (scan + 8) % (BLOCKS - 8);
            (What::Read, scan)
        } else if disk != IMAGE && dice.one_in(3) {
            let what = if dice.one_in(8) {
                What::Discard
            } else {
                What::Write
            };
            (what, dice.below(span))
        } else {
            (What::Read, dice.below(span))
        };
        Ask {
            vm,
            disk,
            what,
            first: disk as u64 * BLOCKS + first,
            count: count.min(BLOCKS - first),
        }
    };
    (0..count).map(|_| one()).collect()
}

/// What both have decided and counted.
#[derive(Debug, PartialEq)]
struct Answer {
    /// Each window's shares.
    shares: Vec<Vec<Share>>,
    counts: Vec<Counts>,
    cached: Vec<u64>,
    staged: u64,
    blocks_kept: u64,
    /// Without journal and checkpoints.
    written: FlashWritten,
}

/// What was written without journal and checkpoints, and those.
fn apart(written: FlashWritten) -> (FlashWritten, u64) {
    let blocks = FlashWritten {
        journal: 0,
        checkpoint: 0,
        ..written
    };
    (blocks, written.journal + written.checkpoint)
}

fn note(shares: &mut Vec<Vec<Share>>, now: &tenancy::Shares) {
    while (shares.len() as u64) < now.window {
        shares.push(now.of.clone());
    }
}

fn through_the_cache(asked: &[Ask], case: &Case) -> (Answer, u64) {
    let config = Config {
        reclaim: Kind::default(),
        tenancy: Some(case.settings.clone()),
        allocate_writes: true,
        ..Config::default()
    };
    let (mut bench, mut cache) = Bench::open(FLASH, SEGMENT, config);
    let size = Bytes::new(3 * BLOCKS * BLOCK_BYTES);
    let disks: Vec<DiskSlot> = (0..3)
        .zip(["web", "db", "debian"])
        .map(|(id, name)| bench.attach_to(&mut cache, id, size, name, id == 2))
        .collect();
    for (at, name) in ["web", "db"].into_iter().enumerate() {
        cache.set_tenant(name, case.vms.clone(), bench.now).unwrap();
        assert_eq!(cache.join(disks[IMAGE], name), Ok(TENANTS[at]));
    }
    let before = cache.facts().stats().flash_written;
    let mut shares = Vec::new();
    for ask in asked {
        bench.now = bench.now + case.pause;
        cache.tick(bench.now);
        bench.settle(&mut cache);
        note(&mut shares, cache.facts().shares().unwrap());
        let offset = Offset::new(ask.first * BLOCK_BYTES);
        let length = Bytes::new(ask.count * BLOCK_BYTES);
        let verb = match ask.what {
            What::Read => Verb::Read { offset, length },
            What::Write => Verb::Write {
                offset,
                data: bench.pool.copy_of(&vec![1; length.to_usize()]),
                fua: false,
            },
            What::Discard => Verb::Discard { offset, length },
        };
        let disk = disks[ask.disk];
        bench.ask_for(&mut cache, disk, TENANTS[ask.vm], verb);
        if !matches!(ask.what, What::Read) {
            bench.ask_for(&mut cache, disk, TENANTS[ask.vm], Verb::Flush);
        }
    }
    cache.self_check();
    let now = cache.facts().stats().flash_written;
    let (written, journal) = apart(FlashWritten {
        journal: now.journal - before.journal,
        checkpoint: now.checkpoint - before.checkpoint,
        ..now
    });
    let answer = Answer {
        shares,
        counts: TENANTS
            .iter()
            .map(|tenant| *cache.facts().tenant_counts(*tenant).unwrap())
            .collect(),
        cached: disks
            .iter()
            .map(|disk| cache.facts().stats_of(*disk).unwrap().cached_blocks)
            .collect(),
        staged: cache.facts().status().staged_blocks,
        blocks_kept: cache.facts().stats().blocks_kept,
        written,
    };
    (answer, journal)
}

fn simulate(simulated: &mut DividedLog, ask: Ask, disk: DiskSlot, now: Instant) {
    let request = Request {
        vm: TENANTS[ask.vm],
        tenant: TENANTS[ask.disk],
        disk,
        first: BlockIndex::new(ask.first),
        count: ask.count,
        write: matches!(ask.what, What::Write),
        now,
    };
    let first = u32::try_from(ask.first).unwrap();
    let keys: Vec<u32> = (first..)
        .take(usize::try_from(ask.count).unwrap())
        .collect();
    match ask.what {
        What::Read => {
            let arrival = simulated.arrives(&request);
            simulated.read_run(&arrival, request.disk, &keys, |_, _| {});
        }
        What::Write => {
            let arrival = simulated.arrives(&request);
            simulated.write_run(&arrival, request.disk, &keys, true, |_, _| {});
        }
        What::Discard => {
            for key in keys {
                let found = simulated.invalidate(request.disk, key);
                assert!(matches!(
                    found,
                    Found::Flash | Found::Memory | Found::Nowhere
                ));
            }
            simulated.discarded(&request);
        }
    }
}

fn through_the_simulated_cache(asked: &[Ask], case: &Case) -> (Answer, u64) {
    let geometry = Geometry::new(FLASH, SEGMENT).unwrap();
    let log = SimulatedStore::on(geometry, Kind::default());
    let admission = Admission::new(
        Some(case.settings.clone()),
        Capacity::of(&geometry),
        Instant::ZERO,
    )
    .unwrap();
    let mut simulated = DividedLog::new(log, admission);
    let disks: Vec<DiskSlot> = (0..3).map(DiskSlot::new).collect();
    for (at, tenant) in TENANTS.into_iter().enumerate() {
        let image = TenantSettings {
            image: true,
            ..TenantSettings::default()
        };
        let settings = if at == IMAGE { image } else { case.vms.clone() };
        simulated
            .change(|admission| admission.attach(tenant, settings))
            .unwrap();
        simulated.set_owner(disks[at], tenant);
        let first = at as u64 * BLOCKS;
        let keys: Vec<u32> = (u32::try_from(first).unwrap()..)
            .take(usize::try_from(BLOCKS).unwrap())
            .collect();
        simulated.note_places(disks[at], BlockIndex::new(first), &keys);
    }
    let mut shares = Vec::new();
    let mut now = Instant::ZERO;
    for ask in asked {
        now = now + case.pause;
        simulated.advance(now);
        note(&mut shares, simulated.tenancy().shares());
        simulate(&mut simulated, *ask, disks[ask.disk], now);
    }
    let log = simulated.store().facts();
    let (written, journal) = apart(simulated.store().written());
    let answer = Answer {
        shares,
        counts: TENANTS
            .iter()
            .map(|tenant| *simulated.tenancy().counts(*tenant).unwrap())
            .collect(),
        cached: disks
            .iter()
            .map(|disk| log.cached_blocks_of(*disk))
            .collect(),
        staged: simulated.staged_blocks(),
        blocks_kept: simulated.store().stats().blocks_kept,
        written,
    };
    (answer, journal)
}

struct Case {
    settings: Settings,
    /// Both VMs'.
    vms: TenantSettings,
    /// Between two requests.
    pause: Duration,
}

fn case(admission: &str) -> Case {
    Case {
        settings: Settings {
            admission: admission.parse().unwrap(),
            staging: Bytes::mib(1),
            allocation: "rwss".parse().unwrap(),
            window: Window::Fixed(Duration::from_secs(5)),
            ..Settings::default()
        },
        vms: TenantSettings::default(),
        pause: Duration::from_millis(3),
    }
}

/// The answer, when it was found to be the same from both.
fn compare(asked: &[Ask], case: &Case) -> Answer {
    let (answer, journal) = through_the_cache(asked, case);
    let (simulated, simulated_journal) = through_the_simulated_cache(asked, case);
    let admission = &case.settings.admission;
    let windows = answer.shares.iter().zip(&simulated.shares).enumerate();
    for (window, (cache, simulated)) in windows {
        assert_eq!(cache, simulated, "{admission}: shares of window {window}");
    }
    assert_eq!(answer.counts, simulated.counts, "{admission}");
    assert_eq!(answer, simulated, "{admission}");
    assert!(
        journal <= simulated_journal + journal / 100 + (256 << 10),
        "{admission}: a journal of {journal} bytes, {simulated_journal} at worst"
    );
    answer
}

#[test]
fn every_admission_policy_decides_alike() {
    let asked = requests(20_000, 1, 1);
    for about in policy::admission::Spec::ALL {
        let answer = compare(&asked, &case(about.name));
        assert!(answer.shares.len() >= 11, "{answer:?}");
        let hits: u64 = answer.counts.iter().map(|counts| counts.read_hits).sum();
        assert!(hits > 1000, "{}: {answer:?}", about.name);
        let unread = answer.counts[0].refused.of(Reason::Unread);
        assert_eq!(unread > 0, about.name == "reuse-age", "{unread}");
    }
}

#[test]
fn a_flash_that_was_never_full_is_filled_alike() {
    let asked = requests(20_000, 1, 4);
    for admission in ["reuse-age", "larc"] {
        let mut fill = case(admission);
        fill.settings.fill = true;
        let answer = compare(&asked, &fill);
        assert!(answer.counts.iter().all(|counts| counts.filled > 50));
        let [evicted, refused] = answer.counts.iter().fold([0, 0], |[gone, out], counts| {
            [gone + counts.evicted, out + counts.refused.total()]
        });
        assert!(evicted > 100 && refused > 100, "{answer:?}");
    }
}

/// Reclaim goes on beside a request of many blocks, so there is none here.
#[test]
fn requests_of_many_blocks_are_decided_alike() {
    let asked = requests(600, 16, 2);
    for admission in ["always:cutoff=64KiB", "staging", "probation", "larc"] {
        let slow = Case {
            pause: Duration::from_millis(30),
            ..case(admission)
        };
        let answer = compare(&asked, &slow);
        assert!(answer.counts.iter().all(|counts| counts.evicted == 0));
        assert!(answer.counts[0].read_hits > 100, "{answer:?}");
    }
}

#[test]
fn a_budget_that_runs_out_does_so_at_the_same_block() {
    let asked = requests(20_000, 1, 3);
    let budget = Budget::per_day(Bytes::gib(10)).unwrap();
    let poor = Case {
        vms: TenantSettings {
            budget: Some(budget.with_burst(Bytes::mib(2))),
            ..TenantSettings::default()
        },
        ..case("always")
    };
    let answer = compare(&asked, &poor);
    let refused = |counts: &Counts| counts.refused.of(Reason::Budget);
    assert!(
        answer.counts.iter().map(refused).sum::<u64>() > 1000,
        "{answer:?}"
    );
}
