//! What is told of a disk's changes to a host that copies its cache.

use borrowing::{Changes, Guard, Run, remove};
use units::{BlockIndex, Bytes, Offset};

const ALL: usize = usize::MAX;

fn write(changes: &mut Changes<u32>, request: u32, offset: u64, length: u64) {
    changes.begins(request, Offset::new(offset), Bytes::new(length));
}

fn run(first: u64, count: u32) -> Run {
    Run {
        first: BlockIndex::new(first),
        count,
    }
}

fn tells_of_a_change() -> bool {
    let mut changes = Changes::default();
    write(&mut changes, 1, 4095, 2);
    changes.watch(0);
    let before = changes.take(ALL, 0);
    changes.ends(&1, false);
    before == Some(Vec::new()) && changes.take(ALL, 0) == Some(vec![run(0, 2)])
}

fn tells_nothing_after_a_failure() -> bool {
    let mut changes = Changes::default();
    changes.watch(0);
    write(&mut changes, 1, 0, 512);
    changes.ends(&1, true);
    let after = changes.take(ALL, 0);
    changes.watch(0);
    after.is_none() && changes.take(ALL, 0) == Some(Vec::new())
}

#[test]
fn a_change_is_told_once_it_has_ended_even_if_it_began_before_the_watch() {
    assert!(tells_of_a_change());
    remove(Some(Guard::ChangesAreTold));
    assert!(!tells_of_a_change());
    remove(None);
}

#[test]
fn nothing_is_told_after_a_failure_until_the_other_host_begins_anew() {
    assert!(tells_nothing_after_a_failure());
    remove(Some(Guard::FailureEndsWatch));
    assert!(!tells_nothing_after_a_failure());
    remove(None);
}

fn tells_nothing_after_a_failed_flush() -> bool {
    let mut changes = Changes::<u32>::default();
    changes.watch(3);
    let before = changes.take(ALL, 3);
    let after = changes.take(ALL, 4);
    changes.watch(4);
    before.is_some() && after.is_none() && changes.take(ALL, 4).is_some()
}

#[test]
fn nothing_is_told_after_a_failed_flush_of_the_origin_until_the_other_host_begins_anew() {
    assert!(tells_nothing_after_a_failed_flush());
    remove(Some(Guard::FailedFlushEndsCopy));
    assert!(!tells_nothing_after_a_failed_flush());
    remove(None);
}

#[test]
fn changes_are_told_once_and_in_parts() {
    let mut changes = Changes::default();
    assert_eq!(changes.take(ALL, 0), None);
    changes.watch(0);
    for (request, block) in [(1, 9), (2, 4), (3, 5)] {
        write(&mut changes, request, block * 4096, 4096);
        changes.ends(&request, false);
    }
    assert_eq!(changes.take(1, 0), Some(vec![run(4, 2)]));
    assert_eq!(changes.take(1, 0), Some(vec![run(9, 1)]));
    assert_eq!(changes.take(1, 0), Some(Vec::new()));
    changes.unwatch();
    assert_eq!(changes.take(1, 0), None);
}
