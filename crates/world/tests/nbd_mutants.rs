//! Each rule of the NBD client is needed: without it the world finds that the invariant is broken for
//! which the rule is there.
//!
//! `cargo nextest run -p world --features mutants --test nbd_mutants`; with `--no-capture` it prints
//! the seed that found each, for the table in the book.

#![allow(
    clippy::print_stdout,
    reason = "the seeds that it finds are for the book"
)]

use block_io::{BufPool, OriginOp, OriginVerb, Token};
use nbd_client::guard::{self, Guard};
use nbd_client::{Client, Effect, LinkId, SentChange};
use units::{Bytes, DiskSlot, Duration, Instant, Offset, Prng};
use world::{Options, Violation, nbd};

/// Seeds to look through: every rule is missed long before. Where the search begins is where a rule was
/// missed last, if that takes long.
const SEEDS: u64 = 50_000;
const SETTLE_TIME: Duration = Duration::from_secs(30);

/// The first seed in which the client breaks `expected` without this rule, and nothing with it.
fn first_violation(rule: Guard, from: u64, expected: &str) -> Option<(u64, Violation)> {
    (from..from + SEEDS).find_map(|seed| {
        guard::remove(Some(rule));
        let failure = nbd::run(Options::new(seed)).err();
        guard::remove(None);
        let violation = failure?.violation;
        let counts = violation.invariant == expected && nbd::run(Options::new(seed)).is_ok();
        counts.then_some((seed, violation))
    })
}

macro_rules! missed {
    ($($name:ident: $rule:ident from $from:literal $expected:literal,)+) => {
        $(
            #[test]
            fn $name() {
                let found = first_violation(Guard::$rule, $from, $expected);
                let Some((seed, violation)) = found else {
                    panic!("{SEEDS} seeds broke no {} without {:?}", $expected, Guard::$rule);
                };
                println!("{:?}: seed {seed}: {violation}", Guard::$rule);
            }
        )+

        /// Rules that have a test here.
        const TESTED: &[Guard] = &[Guard::FormerChangesFirst, Guard::CutMayLand, $(Guard::$rule,)+];
    };
}

#[test]
fn no_rule_is_without_a_test() {
    let mut untested = Guard::ALL.iter().filter(|rule| !TESTED.contains(rule));
    assert_eq!(untested.next(), None);
}

fn client() -> (Client, LinkId) {
    let settings = nbd::Settings::of(&mut Prng::new(1));
    let terms = settings.terms(8);
    let geometry = nbd_client::geometry(&terms, false).expect("a disk of whole sectors");
    let limits = nbd_client::Settings {
        request_timeout: Duration::from_secs(1),
        reconnect_pause_max: Duration::from_secs(1),
        settle_time: SETTLE_TIME,
        first_cookie: 1,
    };
    let (client, links) = Client::new(&[terms], geometry, limits, &BufPool::new());
    (client, links[0])
}

/// Writes the first sector.
fn write(client: &mut Client) {
    let op = OriginOp {
        token: Token(1),
        disk: DiskSlot::new(0),
        verb: OriginVerb::WriteZeroes {
            offset: Offset::ZERO,
            length: Bytes::new(512),
            may_unmap: false,
            fua: false,
        },
    };
    client.submit(op, Instant::ZERO);
}

/// Whether a client writes to a range that a former session's write may still land on. The worlds have
/// one session each, so this one is played by hand.
fn overtakes_a_former_session() -> bool {
    let (mut client, _) = client();
    let left = SentChange {
        cookie: 99,
        offset: 0,
        length: 512,
    };
    client.expect_late_changes(&[left], Instant::ZERO + Duration::from_secs(30));
    write(&mut client);
    matches!(client.next_effect(), Some(Effect::Remember(_)))
}

#[test]
fn wait_for_the_changes_of_former_sessions() {
    assert!(!overtakes_a_former_session());
    guard::remove(Some(Guard::FormerChangesFirst));
    let overtakes = overtakes_a_former_session();
    guard::remove(None);
    assert!(overtakes, "the rule is not needed");
}

/// Whether a client would let another host write while the first attempt of a write may still land.
fn lets_another_host_write_too_early() -> bool {
    let (mut client, link) = client();
    write(&mut client);
    client.ended(link, "the network".to_owned());
    let settled = Instant::ZERO + SETTLE_TIME;
    client.poll(Instant::ZERO, &mut Vec::new());
    let may_land = !client.cut_bytes().is_zero();
    client.poll(settled, &mut Vec::new());
    // No connection, no answer, and time: the write itself has failed by now, and its first attempt is over.
    assert_eq!(client.cut_bytes(), Bytes::ZERO);
    !may_land
}

#[test]
fn wait_for_the_changes_of_connections_that_were_cut() {
    assert!(!lets_another_host_write_too_early());
    guard::remove(Some(Guard::CutMayLand));
    let too_early = lets_another_host_write_too_early();
    guard::remove(None);
    assert!(too_early, "the rule is not needed");
}

missed! {
    send_changes_of_a_range_in_order: ChangesInOrder from 0 "I1",
    read_after_the_changes_before: ReadsAfterChanges from 0 "I1",
    change_after_the_reads_before: ChangesAfterReads from 0 "I1",
    let_a_late_change_hold_its_range: LateHoldsRange from 0 "I1",
    doubt_what_a_failed_change_left: FailedLeavesDoubt from 0 "I1",
    doubt_what_was_sent_before_a_loss: SentBeforeLossLeavesDoubt from 45000 "I1",
    say_that_no_flush_vouches_for_what_is_in_doubt: DoubtIsVolatile from 0 "I3",
    drain_before_connecting_anew: DrainBeforeDial from 0 "I1",
    drain_what_carries_nonsense: NonsenseIsDrained from 0 "I1",
    repeat_what_may_be_forgotten: RepeatUnstable from 0 "I1",
    repeat_before_anything_else: RepeatFirst from 0 "I1",
    undo_nothing_durable: DurableReplacesUnstable from 0 "I1",
    flush_for_what_was_acknowledged_before: FlushVouchesForEarlier from 0 "I2",
    repeat_after_a_failed_flush: FailedFlushRepeats from 0 "I2",
    send_one_flush_at_a_time: OneFlushAtATime from 0 "I2",
    flush_for_fua: FlushForFua from 0 "I2",
    take_a_shutdown_for_a_loss: ShutdownIsLoss from 0 "never hostage",
    take_nothing_refused_for_done: RefusedIsNotDone from 0 "I1",
}
