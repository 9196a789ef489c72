//! A tenant that comes from another host: its share begins with what it wanted there, not with an equal part.

#![allow(clippy::unwrap_used, reason = "a test may end where it finds nothing")]

use policy::allocation::Size;
use tenancy::{Capacity, Settings, Tenancy, TenantSettings, Wanted};
use units::{Duration, Instant, TenantSlot};

const RESIDENT: TenantSlot = TenantSlot::new(0);
const NEWCOMER: TenantSlot = TenantSlot::new(1);
const WINDOW: Duration = Duration::from_secs(300);
/// Segments, of 1,000 blocks each.
const SEGMENTS: u32 = 100;

/// A cache whose resident uses half of it, and another tenant that has just been attached.
fn two_tenants(allocation: &str) -> Tenancy<u64> {
    let settings = Settings {
        allocation: allocation.parse().unwrap(),
        ..Settings::default()
    };
    let capacity = Capacity {
        segments: SEGMENTS,
        segment_blocks: 1000,
        checkpoint: units::Bytes::ZERO,
    };
    let mut tenancy = Tenancy::new(settings, capacity, Instant::ZERO).unwrap();
    let mut left = Vec::new();
    for (slot, blocks) in [(RESIDENT, Some(50_000)), (NEWCOMER, None)] {
        tenancy
            .attach(slot, TenantSettings::default(), &mut left)
            .unwrap();
        if let Some(blocks) = blocks {
            assert!(tenancy.comes(slot, wanted(blocks), &mut left));
        }
    }
    tenancy
}

/// It read these blocks again and again.
fn wanted(blocks: u64) -> Wanted {
    Wanted {
        wss: blocks,
        rwss: blocks,
        reads_a_second: 1000.0,
        curve: vec![Size {
            blocks,
            hit_ratio: 1.0,
        }],
    }
}

fn share(tenancy: &Tenancy<u64>) -> u32 {
    tenancy.shares().get(NEWCOMER).unwrap().segments
}

#[test]
fn its_share_begins_with_what_it_wanted_elsewhere() {
    for allocation in ["rwss", "wss", "utility"] {
        let mut tenancy = two_tenants(allocation);
        let before = share(&tenancy);
        assert_eq!(before, SEGMENTS / 2, "{allocation}: a fair part");
        let wanted = Wanted {
            reads_a_second: 4000.0,
            ..wanted(80_000)
        };
        assert!(tenancy.comes(NEWCOMER, wanted, &mut Vec::new()));
        let after = share(&tenancy);
        assert!(after >= 60, "{allocation}: {before} became {after}");
    }
}

#[test]
fn it_counts_until_a_window_of_its_own_has_passed() {
    let mut tenancy = two_tenants("rwss");
    tenancy.comes(NEWCOMER, wanted(5_000), &mut Vec::new());
    let mut predicted = Vec::new();
    let mut now = Instant::ZERO;
    for _ in 0..20 {
        now = now + WINDOW;
        tenancy.tick(now, |_| 0, &mut Vec::new());
        predicted.push(tenancy.wants(NEWCOMER).unwrap().rwss_predicted.unwrap());
    }
    // Of the window in which it came a part was seen.
    assert!(predicted[0] >= 4_999.0, "{predicted:?}");
    // It reads nothing here, and that is seen at last.
    assert!(predicted[19] < 500.0, "{predicted:?}");
}

#[test]
fn one_that_is_not_here_gets_nothing() {
    let mut tenancy = two_tenants("rwss");
    let nobody = TenantSlot::new(7);
    assert!(!tenancy.comes(nobody, wanted(5_000), &mut Vec::new()));
}
