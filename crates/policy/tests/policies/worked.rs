//! Examples worked out by hand, in textbooks and in the papers.

use policy::replacement::belady::next_uses;
use policy::replacement::{Capacity, Dense, Setup, Spec};
use std::sync::Arc;

/// Misses of a policy, and who left in order.
fn run(spec: &str, capacity: u64, keys: &[u32]) -> (usize, Vec<u32>) {
    let spec: Spec = spec.parse().unwrap();
    let mut setup = Setup::new(Capacity::new(capacity).unwrap(), Dense::new());
    setup.future = Some(Arc::from(next_uses(keys)));
    let mut policy = spec.build(setup);
    let mut left = Vec::new();
    let misses = keys
        .iter()
        .filter(|key| !policy.access(**key, &mut left))
        .count();
    (misses, left)
}

fn misses(spec: &str, capacity: u64, keys: &[u32]) -> usize {
    run(spec, capacity, keys).0
}

/// L. A. Belady, R. A. Nelson, G. S. Shedler, CACM 12(6), 1969: FIFO faults more often with more frames.
/// LRU cannot.
#[test]
fn fifo_has_beladys_anomaly() {
    let keys = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    assert_eq!(misses("fifo", 3, &keys), 9);
    assert_eq!(misses("fifo", 4, &keys), 10);
    assert_eq!(misses("lru", 3, &keys), 10);
    assert_eq!(misses("lru", 4, &keys), 8);
    assert_eq!(misses("belady", 3, &keys), 7);
    assert_eq!(misses("belady", 4, &keys), 6);
}

/// The reference string of A. Silberschatz, P. B. Galvin, G. Gagne, "Operating System Concepts", with
/// three frames: 15 faults with FIFO, 12 with LRU, 9 at best.
#[test]
fn the_textbooks_reference_string_faults_as_the_textbook_says() {
    let keys = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
    assert_eq!(misses("fifo", 3, &keys), 15);
    assert_eq!(misses("lru", 3, &keys), 12);
    assert_eq!(misses("belady", 3, &keys), 9);
}

/// 1 and 2 are used; the hand clears both and takes 3. At the next miss 1 and 2 are the oldest, unmarked.
#[test]
fn clock_gives_a_used_block_one_more_round() {
    assert_eq!(
        run("clock", 3, &[1, 2, 3, 1, 2, 4, 5, 6]),
        (6, vec![3, 1, 2])
    );
    // With two bits 1 earns two rounds by two uses, 2 one.
    assert_eq!(
        run("clock:bits=2", 3, &[1, 2, 3, 1, 1, 2, 4, 5]),
        (5, vec![3, 2])
    );
}

/// The hand clears 1 and 2, takes 3 and goes on from there: to 4, then 5, the newcomers, while 1 and 2
/// keep their places behind it.
#[test]
fn sieve_takes_newcomers_and_keeps_survivors_in_their_places() {
    let keys = [1, 2, 3, 4, 1, 2, 5, 6, 7, 1, 2];
    assert_eq!(run("sieve", 4, &keys), (7, vec![3, 4, 5]));
    assert_eq!(run("clock", 4, &keys), (9, vec![3, 4, 1, 2, 5]));
}

/// 3 was used least; 1 and 2 as often, 1 longer ago.
#[test]
fn lfu_takes_the_least_used_and_among_equals_the_one_used_longest_ago() {
    assert_eq!(run("lfu", 3, &[1, 2, 3, 1, 2, 4, 4, 4, 5]), (5, vec![3, 1]));
}

/// Two segments of two. 1 and 2 climb; 3 and 4 do not, and a scan passes through the lower segment.
#[test]
fn slru_lets_a_scan_pass_below_what_was_used_twice() {
    assert_eq!(
        run("slru:segments=2", 4, &[1, 2, 1, 2, 3, 4, 5, 6, 7, 1, 2]),
        (7, vec![3, 4, 5])
    );
}

/// `kin` one of four: 1 leaves A1in, is remembered, comes back into Am and survives a scan of four, which
/// LRU does not let it.
#[test]
fn two_q_believes_what_comes_back_after_it_left() {
    let keys = [1, 2, 3, 4, 5, 1, 6, 7, 8, 9, 1];
    assert_eq!(run("2q", 4, &keys), (10, vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(misses("lru", 4, &keys), 11);
}

/// 1 and 2 are in T2; a scan of any length goes through T1 alone.
#[test]
fn arc_keeps_what_was_used_twice_through_a_scan() {
    let mut keys = vec![1, 2, 1, 2];
    keys.extend(10..60);
    keys.extend([1, 2]);
    assert_eq!(misses("arc", 8, &keys), 52);
    assert_eq!(misses("lru", 8, &keys), 54);
}

/// c = 2. 1 goes up to T2; 2, then 3, enter T1; 2 becomes a ghost of B1 and its return takes p to 1, which
/// is what T1 has, so T2's 1 leaves and not 3. The return of 1, from B2, takes p back to 0: T1's 3 leaves.
#[test]
fn arc_learns_from_both_kinds_of_ghosts() {
    assert_eq!(run("arc", 2, &[1, 1, 2, 3, 2, 1]), (5, vec![2, 1, 3]));
}

/// A loop over five blocks in a cache of three, one of them for HIR: LRU never hits, LIRS hits on its two
/// LIR blocks in each round but the first.
#[test]
fn lirs_hits_in_a_loop_that_is_larger_than_the_cache() {
    let keys: Vec<u32> = (0..50).map(|step| step % 5).collect();
    assert_eq!(misses("lirs", 3, &keys), 50 - 9 * 2);
    assert_eq!(misses("lru", 3, &keys), 50);
    assert_eq!(misses("belady", 3, &keys), 27);
}

/// Two LIR blocks 1 and 2, HIR blocks 3 and 4 after them. 3 comes back while it is in S: it becomes LIR,
/// and 1, at the bottom of S, HIR in its place, so that the next newcomer evicts 1.
#[test]
fn lirs_swaps_the_status_of_a_block_used_again_soon() {
    assert_eq!(run("lirs", 3, &[1, 2, 3, 4, 3, 5]), (6, vec![3, 4, 1]));
}

/// One of ten for the small queue: 1 is used twice in it before it is its turn and moves to the main
/// queue; once is not enough for 2.
#[test]
fn s3_fifo_moves_what_was_used_more_than_once() {
    let keys = [1, 2, 1, 1, 2, 3, 4, 5, 6, 2, 1];
    let (misses, left) = run("s3-fifo:small=0.5,ghosts=1", 4, &keys);
    // 1 and 2 are small, 3 and 4 go to main as the cache warms up; 5 moves 1 and evicts 2, 6 evicts 5's
    // predecessor in main.
    assert_eq!(left[0], 2);
    assert!(!left.contains(&1), "{left:?}");
    assert_eq!(misses, 7);
}

/// A window of one arrival: the second use of 1 follows at once and does not count, that of 2 comes after
/// the arrival of 3 and does.
#[test]
fn clock2q_plus_does_not_count_uses_that_follow_too_closely() {
    let keys = [1, 1, 2, 3, 2, 4, 5, 6];
    let (_, left) = run("clock2q+:small=1,window=0.25,ghosts=1", 4, &keys);
    assert_eq!(left, [1, 3]);
}

/// 1 is hot; whatever the scan brings was used less often than 1, and is not admitted in its place.
#[test]
fn w_tiny_lfu_does_not_give_a_hot_block_for_a_cold_one() {
    let mut keys = vec![1, 1, 1, 1, 2, 2, 2, 3, 3, 3];
    keys.extend(10..40);
    let (_, left) = run("w-tinylfu:step=0", 4, &keys);
    assert_eq!(left.len(), 29);
    assert!(left.iter().all(|key| *key >= 10), "{left:?}");
}
