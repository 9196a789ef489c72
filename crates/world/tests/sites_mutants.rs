//! Each rule of a hand-over is needed: without it the world of two hosts finds that the invariant is broken for which
//! the rule is there.
//!
//! `cargo nextest run -p world --features mutants --test sites_mutants`; with `--no-capture` it prints the seed that
//! found each.

#![allow(
    clippy::print_stdout,
    reason = "the seeds that it finds are told to who asks"
)]

use world::{Options, Rule, Violation, sites};

/// Seeds to look through: every rule is missed long before. Where the search begins is where a rule was missed last, if
/// that takes long.
const SEEDS: u64 = 20_000;

/// The first seed in which one of `expected` is broken without this rule, and nothing with it.
fn first_violation(rule: Rule, from: u64, expected: &[&str]) -> Option<(u64, Violation)> {
    (from..from + SEEDS).find_map(|seed| {
        rule.remove();
        let failure = sites::run(Options::new(seed)).err();
        Rule::put_all_back();
        let violation = failure?.violation;
        let counts = expected.contains(&violation.invariant);
        (counts && sites::run(Options::new(seed)).is_ok()).then_some((seed, violation))
    })
}

macro_rules! missed {
    ($($name:ident: $kind:ident $guards:path, $rule:ident from $from:literal $expected:expr,)+) => {
        $(
            #[test]
            fn $name() {
                use $guards as Guard;
                let rule = Rule::$kind(Guard::$rule);
                let found = first_violation(rule, $from, $expected);
                let Some((seed, violation)) = found else {
                    panic!("{SEEDS} seeds broke none of {:?} without {rule:?}", $expected);
                };
                let what: String = violation.to_string().chars().take(160).collect();
                println!("{rule:?}: seed {seed}: {what}");
            }
        )+
    };
}

missed! {
    ask_the_owner_for_what_a_standby_reads: Site sites::Guard, StandbyAsksOwner from 0 &["I1"],
    give_nothing_away_while_a_change_may_land: Site sites::Guard, GhostsHoldGrant from 0 &["I1", "I3", "I5"],
    let_the_record_only_rise: Site sites::Guard, RecordOnlyRises from 1000 &["I5"],
    let_a_connection_die_with_its_epoch: Site sites::Guard, DeadConnections from 0 &["I5", "I8"],
    close_the_origin_before_the_grant: Site sites::Guard, CloseBeforeGrant from 0 &["I5"],
    take_no_disk_from_a_guest_that_runs: HandOver handoff::Guard, ProofOrSigns from 0 &["guests"],
    take_no_flush_for_a_move: HandOver handoff::Guard, LooksIncoming from 0 &["guests"],
    end_the_hand_over_when_the_guest_asks: HandOver handoff::Guard, HoldWhileGranting from 47 &["assert", "I5", "I8"],
    settle_before_the_grant: HandOver handoff::Guard, SettledBeforeGrant from 2625 &["I1", "I8"],
    decide_before_the_grant: HandOver handoff::Guard, DecisionFirst from 2400 &["I5", "I8"],
    raise_the_epoch_in_doubt: HandOver handoff::Guard, DoubtRaisesEpoch from 3000 &["I5", "I8"],
    return_only_what_is_unchanged: HandOver handoff::Guard, ReturnIfUnchanged from 0 &["I5"],
    know_no_change_after_a_start: HandOver handoff::Guard, ChangedUnlessGranted from 60300 &["I5"],
    grant_again_after_a_loss: HandOver handoff::Guard, GrantAgain from 21000 &["I8"],
    answer_an_old_grant_with_the_later_one: HandOver handoff::Guard, LaterGrantCounts from 10800 &["I5", "I8"],
    let_another_host_read_what_is_durable: Core core_guards::Guard, DurableBeforePeerReads from 0 &["I1"],
    drop_the_leftovers_of_an_earlier_epoch: Core core_guards::Guard, Epoch from 0 &["I1"],
    borrow_nothing_that_was_changed_here: Borrowing borrowing::Guard, ChangedIsNotBorrowed from 0 &["I1"],
    pass_what_the_lender_is_late_with_to_the_origin: Borrowing borrowing::Guard, LateGoesToOrigin from 0 &["I8"],
    borrow_in_the_epoch_that_was_granted: Site sites::Guard, LoansHaveEpochs from 0 &["I1"],
    ship_to_the_end: HandOver handoff::Guard, ShippedToTheEnd from 0 &["I1"],
    hold_what_was_shipped_until_the_disk_is_closed: Site sites::Guard, HeldUntilClosed from 3354 &["I8"],
    decide_who_has_what_the_origin_lacks: Site sites::Guard, DecisionNamesKept from 0 &["I8"],
    tell_what_was_changed: Borrowing borrowing::Guard, ChangesAreTold from 0 &["I1"],
    ask_what_is_stale_once_more: Site sites::Guard, StaleOnceMore from 1100 &["I1"],
    void_leftovers_first: Core core_guards::Guard, LeftoversFirst from 0 &["I5"],
}
