//! Examples worked by hand.

use policy::admission::limits::FIXED_MEMORY;
use policy::admission::sequential::Runs;
use policy::admission::staging::Staging;
use policy::admission::{Admission, Fate, Reason, Share, Spec, Staged, Verdict};
use units::{BLOCK_BYTES, Bytes, Offset};

use crate::steps::{access, share};

const FIRST: Verdict = Verdict::Refuse(Reason::FirstTouch);
const ROW: u64 = Staging::<u64>::address_bytes();

fn build(spec: &str, share: Share) -> Box<dyn Admission<u64>> {
    spec.parse::<Spec>().unwrap().build(share)
}

fn read(policy: &mut dyn Admission<u64>, key: u64) -> Verdict {
    let mut left = Vec::new();
    let verdict = policy.missed(key, access(key, false), &mut left);
    assert!(left.is_empty(), "{left:?} left at {key}");
    verdict
}

#[test]
fn address_staging_admits_on_the_second_access() {
    let mut policy = build("staging:kind=address", share(100, 10));
    let verdicts = [1, 2, 1, 2, 1].map(|key| read(policy.as_mut(), key));
    let admit = Verdict::Admit;
    assert_eq!(verdicts, [FIRST, FIRST, admit, admit, FIRST]);
}

#[test]
fn address_staging_with_n_2_admits_on_the_third_access() {
    let mut policy = build("staging:kind=address,n=2", share(100, 10));
    let verdicts = [1, 1, 1].map(|key| read(policy.as_mut(), key));
    assert_eq!(verdicts, [FIRST, FIRST, Verdict::Admit]);
}

#[test]
fn with_n_0_everything_is_admitted() {
    let mut policy = build("staging:n=0", share(100, 10));
    assert_eq!(read(policy.as_mut(), 1), Verdict::Admit);
}

/// Room for 16 addresses: the seventeenth pushes the one out that was used longest ago, not the first.
#[test]
fn staged_addresses_leave_by_last_access() {
    let mut policy = build(
        "staging:kind=address,n=2",
        Share::new(100, Bytes::new(17 * ROW)),
    );
    for key in (1..=16).chain([1, 17]) {
        assert_eq!(read(policy.as_mut(), key), FIRST);
    }
    assert_eq!(read(policy.as_mut(), 1), Verdict::Admit, "used once more");
    assert_eq!(
        read(policy.as_mut(), 2),
        FIRST,
        "forgotten: this is its first"
    );
    assert_eq!(read(policy.as_mut(), 2), FIRST);
    assert_eq!(read(policy.as_mut(), 2), Verdict::Admit);
}

/// Room for two blocks' bytes.
#[test]
fn data_staging_keeps_the_bytes_of_reads_alone() {
    let two = Bytes::new(2 * (BLOCK_BYTES + ROW) + ROW);
    let mut policy = build("staging:kind=data", Share::new(100, two));
    let mut left = Vec::new();
    assert_eq!(
        policy.missed(1, access(1, false), &mut left),
        Verdict::Stage
    );
    assert_eq!(policy.missed(2, access(2, true), &mut left), FIRST);
    assert_eq!(
        policy.missed(3, access(3, false), &mut left),
        Verdict::Stage
    );
    assert_eq!(left, [(1, Fate::Drop)]);
    assert_eq!(
        policy.staged_hit(3, access(3, false), &mut left),
        Staged::Admit
    );
    assert_eq!(
        policy.missed(2, access(2, false), &mut left),
        Verdict::Admit
    );
}

#[test]
fn in_hybrid_staging_a_block_that_loses_its_bytes_is_still_known() {
    // 7/8 of the RAM hold one block's bytes; 1/8 is 25 addresses.
    let ram = (BLOCK_BYTES + ROW) * 8 / 7 + ROW + 8;
    let mut policy = build("staging", Share::new(100, Bytes::new(ram)));
    let mut left = Vec::new();
    assert_eq!(
        policy.missed(1, access(1, false), &mut left),
        Verdict::Stage
    );
    assert_eq!(
        policy.missed(2, access(2, false), &mut left),
        Verdict::Stage
    );
    assert_eq!(left, [(1, Fate::Drop)]);
    assert_eq!(
        policy.missed(1, access(1, false), &mut left),
        Verdict::Admit
    );
}

/// With N = 2 a write of a staged block leaves its address.
#[test]
fn a_write_takes_a_blocks_bytes_out_of_staging() {
    let mut policy = build("staging:n=2", share(100, 100));
    let mut left = Vec::new();
    assert_eq!(
        policy.missed(1, access(1, false), &mut left),
        Verdict::Stage
    );
    assert_eq!(
        policy.staged_hit(1, access(1, true), &mut left),
        Staged::Drop
    );
    assert_eq!(
        policy.missed(1, access(1, false), &mut left),
        Verdict::Admit
    );
}

#[test]
fn what_is_withheld_is_asked_for_again_at_once() {
    for spec in [
        "staging",
        "staging:kind=address,n=3",
        "larc",
        "hec",
        "frequency",
        "probation",
        "reuse-age",
    ] {
        let mut policy = build(spec, share(1000, 1000));
        let mut left = Vec::new();
        let mut tries = 0;
        // Pushed out of any RAM for data before it is tried again.
        while policy.missed(7, access(7, false), &mut left) != Verdict::Admit {
            for key in 0..30 {
                let key = 1000 + tries * 100 + key;
                policy.missed(key, access(key, false), &mut left);
            }
            left.clear();
            tries += 1;
            assert!(tries < 5, "{spec}");
        }
        policy.withheld(7);
        let again = policy.missed(7, access(7, false), &mut left);
        assert_eq!(again, Verdict::Admit, "{spec}");
    }
}

/// RAM for one block: it leaves for the next newcomer, used twice to flash, used once to the ghosts.
#[test]
fn probation_admits_what_was_used_in_ram_and_what_comes_back() {
    let spec = format!("probation:data={}B", BLOCK_BYTES + ROW);
    let mut policy = build(&spec, share(100, 100));
    let mut left = Vec::new();
    assert_eq!(
        policy.missed(1, access(1, false), &mut left),
        Verdict::Stage
    );
    assert_eq!(
        policy.staged_hit(1, access(1, false), &mut left),
        Staged::Stays
    );
    assert_eq!(
        policy.staged_hit(1, access(1, false), &mut left),
        Staged::Stays
    );
    assert_eq!(
        policy.missed(2, access(2, false), &mut left),
        Verdict::Stage
    );
    assert_eq!(std::mem::take(&mut left), [(1, Fate::Admit)]);
    assert_eq!(
        policy.staged_hit(2, access(2, false), &mut left),
        Staged::Stays
    );
    assert_eq!(
        policy.missed(3, access(3, false), &mut left),
        Verdict::Stage
    );
    assert_eq!(std::mem::take(&mut left), [(2, Fate::Drop)]);
    assert_eq!(
        policy.missed(2, access(2, false), &mut left),
        Verdict::Admit
    );
}

#[test]
fn probation_can_admit_at_once() {
    let mut policy = build("probation:data=1,threshold=1,when=at-once", share(100, 100));
    let mut left = Vec::new();
    assert_eq!(
        policy.missed(1, access(1, false), &mut left),
        Verdict::Stage
    );
    assert_eq!(
        policy.staged_hit(1, access(1, false), &mut left),
        Staged::Admit
    );
}

/// Ten blocks of flash, no RAM for data, `once` 4, `again` 2.
///
/// Misses 1 to 10 are first touches, 11 to 20 come back and fill flash. When the first block leaves it, 20
/// misses and 10 admissions make an age of 10 x 20 / 10 = 20 misses. Block 30 is missed as the 21st and again
/// as the 26th: an interval of 5, four times that is 20, the age by then 10 x 26 / 10 = 26: admitted. Block 31
/// comes back after 9 misses, the age being 10 x 36 / 11 = 32.7: 36 is too late; then after 9 more, twice of which
/// is 18: admitted.
#[test]
fn reuse_age_compares_the_interval_with_the_age_of_flash() {
    let mut policy = build("reuse-age:data=0,once=4,again=2,ghosts=16", share(10, 100));
    let policy = policy.as_mut();
    for key in 0..10 {
        assert_eq!(read(policy, key), FIRST);
    }
    for key in 0..10 {
        assert_eq!(read(policy, key), Verdict::Admit, "flash is not full");
    }
    policy.evicted(0);
    assert_eq!(read(policy, 30), FIRST);
    for key in 40..44 {
        assert_eq!(read(policy, key), FIRST);
    }
    assert_eq!(read(policy, 30), Verdict::Admit);
    assert_eq!(read(policy, 31), FIRST);
    for key in 50..58 {
        assert_eq!(read(policy, key), FIRST);
    }
    assert_eq!(read(policy, 31), Verdict::Refuse(Reason::TooLate));
    for key in 60..68 {
        assert_eq!(read(policy, key), FIRST);
    }
    assert_eq!(read(policy, 31), Verdict::Admit);
}

#[test]
fn reuse_age_remembers_writes_and_admits_reads() {
    let mut policy = build("reuse-age:data=0", share(10, 100));
    let mut left = Vec::new();
    let wrote = Verdict::Refuse(Reason::Write);
    assert_eq!(policy.missed(1, access(1, true), &mut left), wrote);
    assert_eq!(policy.missed(1, access(1, true), &mut left), wrote);
    assert_eq!(
        policy.missed(1, access(1, false), &mut left),
        Verdict::Admit
    );
}

/// Blocks that are written once, in turn, and what the last of them meet.
fn written_in_turn(
    policy: &mut dyn Admission<u64>,
    blocks: u64,
    read_next: impl Fn(u64) -> bool,
) -> usize {
    let mut left = Vec::new();
    let verdicts = (0..blocks).map(|key| {
        let verdict = policy.missed(key, access(key, true), &mut left);
        if read_next(key) && verdict != Verdict::Admit {
            policy.missed(key, access(key, false), &mut left);
        }
        verdict
    });
    let verdicts: Vec<_> = verdicts.collect();
    let last = &verdicts[verdicts.len() - 100..];
    last.iter()
        .filter(|verdict| **verdict == Verdict::Admit)
        .count()
}

/// A sample of one block in sixteen is never admitted with a write, so that it is known what becomes of it.
#[test]
fn reuse_age_learns_whether_written_blocks_are_read() {
    let build = || build("reuse-age:data=0", share(1_000, 10_000));
    let mut policy = build();
    let admitted = written_in_turn(policy.as_mut(), 2_000, |_| true);
    assert!((80..100).contains(&admitted), "all are read: {admitted}");
    let third = written_in_turn(build().as_mut(), 2_000, |key| key % 3 == 0);
    assert!((80..100).contains(&third), "a third is read: {third}");
    let none = written_in_turn(build().as_mut(), 2_000, |_| false);
    assert_eq!(none, 0, "none is read");
    policy.evicted(0);
    let full = written_in_turn(policy.as_mut(), 2_000, |_| true);
    assert_eq!(full, 0, "a full flash takes what comes back");
}

/// Where no written block is read, a write is not even evidence; where one in six is, a read behind a write admits.
#[test]
fn reuse_age_learns_whether_writes_say_anything() {
    let read_after_write = |read_next: fn(u64) -> bool| {
        let mut policy = build("reuse-age:data=0", share(1_000, 10_000));
        written_in_turn(policy.as_mut(), 2_000, read_next);
        let reads = 5_000..5_100;
        let mut left = Vec::new();
        let verdicts = reads.map(|key| {
            policy.missed(key, access(key, true), &mut left);
            policy.missed(key, access(key, false), &mut left)
        });
        verdicts
            .filter(|verdict| *verdict == Verdict::Admit)
            .count()
    };
    assert!(
        read_after_write(|_| false) < 20,
        "but for those in the sample"
    );
    assert_eq!(read_after_write(|key| key % 6 == 0), 100);
}

/// The fill's copy and two more may end unread; a read begins anew, and so does whoever comes back.
#[test]
fn reuse_age_does_not_write_what_is_written_thrice_and_not_read() {
    for spec in ["reuse-age:data=0", "reuse-age:data=0,cutoff=1MiB"] {
        let mut policy = build(spec, share(10, 100));
        let enter = |policy: &mut dyn Admission<u64>| {
            assert_eq!(read(policy, 1), FIRST);
            assert_eq!(read(policy, 1), Verdict::Admit);
        };
        let write = access(1, true);
        enter(policy.as_mut());
        for was_read in [false, false, true, false, false] {
            assert!(policy.rewrites(1, write, was_read), "{spec}");
        }
        assert!(!policy.rewrites(1, write, false), "{spec}");
        assert!(!policy.remove(1));
        enter(policy.as_mut());
        assert!(policy.rewrites(1, write, false), "{spec}");
    }
    let mut always = build("reuse-age:rewrites=always", share(10, 100));
    assert!((0..9).all(|_| always.rewrites(1, access(1, true), false)));
    let mut other = build("larc", share(10, 100));
    assert!((0..9).all(|_| other.rewrites(1, access(1, true), false)));
}

#[test]
fn what_no_longer_fits_leaves_and_the_rest_stays() {
    for spec in [
        "staging:kind=data",
        "staging",
        "probation:data=1",
        "reuse-age:data=1",
    ] {
        let mut policy = build(spec, share(100, 400));
        let mut left = Vec::new();
        for key in 0..50 {
            assert_eq!(
                policy.missed(key, access(key, false), &mut left),
                Verdict::Stage,
                "{spec}"
            );
        }
        assert!(left.is_empty(), "{spec}");
        policy.resize(share(100, 200), &mut left);
        let gone = left.len() as u64;
        let expected: Vec<_> = (0..gone).map(|key| (key, Fate::Drop)).collect();
        assert_eq!(left, expected, "{spec}: the oldest");
        assert!((1..50).contains(&gone), "{spec}: {gone}");
        assert!((gone..50).all(|key| policy.remove(key)), "{spec}");
    }
}

#[test]
fn runs_of_several_streams_are_told_apart() {
    let mut runs = Runs::new();
    let (at, kib) = (Offset::kib, Bytes::kib);
    assert_eq!(runs.note(at(0), kib(64)), kib(64));
    assert_eq!(runs.note(at(1000), kib(4)), kib(4));
    assert_eq!(runs.note(at(64), kib(64)), kib(128), "the first goes on");
    assert_eq!(runs.note(at(1004), kib(4)), kib(8), "so does the second");
    assert_eq!(
        runs.note(at(1004), kib(4)),
        kib(4),
        "a repetition is no run"
    );
    assert_eq!(runs.note(at(60), kib(4)), kib(4), "nor is a step back");
}

/// Sixteen other streams push the seventeenth, lengthened longest ago, out.
#[test]
fn of_many_streams_the_oldest_is_forgotten() {
    let mut runs = Runs::new();
    let (at, mib) = (Offset::mib, Bytes::mib);
    runs.note(at(1), mib(1));
    for stream in 1..16 {
        runs.note(at(100 * stream), mib(1));
    }
    assert_eq!(runs.note(at(2), mib(1)), mib(2), "sixteen are known");
    for stream in 20..36 {
        runs.note(at(100 * stream), mib(1));
    }
    assert_eq!(runs.note(at(3), mib(1)), mib(1));
    let end = Offset::new(u64::MAX);
    assert_eq!(runs.note(end, mib(1)), mib(1), "the end of everything");
    assert_eq!(runs.note(Offset::ZERO, mib(1)), mib(1));
}

/// Fifteen blocks with bytes fill the memory, so that none but these could leave for one that is withheld: it is
/// remembered all the same, and its next access asks again.
#[test]
fn data_staging_remembers_what_was_withheld_where_all_else_has_bytes() {
    let spec: Spec = "staging:kind=data".parse().unwrap();
    let mut policy = spec.build::<u64>(share(1000, 64));
    let (mut left, mut staged) = (Vec::new(), 0);
    while left.is_empty() {
        assert_eq!(
            policy.missed(staged, access(staged, false), &mut left),
            Verdict::Stage
        );
        staged += 1;
    }
    left.clear();
    for key in 100..110 {
        policy.withheld(key);
    }
    for key in 100..110 {
        let verdict = policy.missed(key, access(key, false), &mut left);
        assert_eq!(verdict, Verdict::Admit, "{key}");
    }
    assert!(left.is_empty(), "nobody left for them: {left:?}");
    for key in 100..400 {
        policy.withheld(key);
    }
    assert_eq!(
        policy.missed(399, access(399, false), &mut left),
        Verdict::Stage,
        "beyond the rows"
    );
    assert!(!left.is_empty());
    assert!(policy.memory() <= Bytes::kib(64) + FIXED_MEMORY);
}

/// From one block to eight: rows for what is withheld are not taken for those of blocks.
#[test]
fn data_staging_has_all_blocks_of_a_share_that_has_grown() {
    let of = |blocks: u64| Share::new(100, Bytes::new(blocks * (BLOCK_BYTES + ROW) + ROW));
    let mut policy = build("staging:kind=data", of(1));
    let mut left = Vec::new();
    policy.resize(of(8), &mut left);
    for key in 0..8 {
        assert_eq!(read(policy.as_mut(), key), Verdict::Stage);
    }
    policy.missed(8, access(8, false), &mut left);
    assert_eq!(left, [(0, Fate::Drop)]);
}
