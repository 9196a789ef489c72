//! What holds of every registered miner, whatever a guest reads: memory stays what it was when the miner was
//! built, and nothing is guessed that the disk does not have.

use policy::registry::Registered;
use prefetch::miner::{GUESS_BLOCKS_MAX, GUESSES_MAX};
use prefetch::{Run, Setup, Spec};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Read { run: Run, hit: bool, refuse: bool },
    Change(Run),
}

/// A disk, and requests within it: some go on where the last one ended, some repeat, most go anywhere.
fn events(disk_blocks: u64) -> impl Strategy<Value = Vec<Event>> {
    let place = prop_oneof![
        3 => 0..disk_blocks,
        2 => (0..disk_blocks.min(40)).prop_map(move |near| near * 7 % disk_blocks),
        1 => disk_blocks.saturating_sub(3)..disk_blocks,
    ];
    let one = (
        place,
        1..600_u64,
        any::<bool>(),
        any::<bool>(),
        0..12_u8,
        any::<bool>(),
    );
    prop::collection::vec(one, 1..400).prop_map(move |drawn| {
        let mut next = 0;
        let mut all = Vec::new();
        for (place, blocks, hit, refuse, what, goes_on) in drawn {
            let first = if goes_on && next < disk_blocks {
                next
            } else {
                place
            };
            let run = Run::new(first, blocks.min(disk_blocks - first));
            let run = run.expect("it lies on the disk");
            next = run.end();
            all.push(match what {
                0 => Event::Change(run),
                _ => Event::Read { run, hit, refuse },
            });
        }
        all
    })
}

fn specs() -> Vec<Spec> {
    let names = Spec::ALL.iter().map(|about| about.name.to_owned());
    let small = ["vip", "mithril", "delta"].map(|name| format!("{name}:memory=128KiB"));
    let bold = [
        "vip:length=8,conf=0.01",
        "delta:degree=16,conf=0.01",
        "readahead:window=4",
    ];
    let texts = names.chain(small).chain(bold.map(str::to_owned));
    texts
        .map(|text| text.parse().expect("it is registered"))
        .collect()
}

/// Feeds a miner and looks at all that it says.
fn feed(spec: &Spec, setup: Setup, events: &[Event]) -> Result<(), TestCaseError> {
    let mut miner = spec.build(setup);
    let memory = miner.memory();
    let mut guesses = Vec::new();
    for event in events {
        match *event {
            Event::Change(run) => miner.changed(run),
            Event::Read { run, hit, refuse } => {
                guesses.clear();
                miner.read(run, hit, &mut guesses);
                prop_assert!(guesses.len() <= GUESSES_MAX, "{spec}: {}", guesses.len());
                for guess in &guesses {
                    prop_assert!(guess.run.end() <= setup.disk_blocks, "{spec}: {guess:?}");
                    prop_assert!(u64::from(guess.run.blocks()) <= GUESS_BLOCKS_MAX);
                    if refuse {
                        miner.refused(guess.run.first());
                    }
                }
            }
        }
        prop_assert_eq!(miner.memory(), memory, "{}", spec);
    }
    if spec
        .about()
        .parameters
        .iter()
        .any(|one| one.name == "memory")
    {
        let limit: units::Bytes = spec.get("memory").parse().expect("it is a size");
        // The miner's own few fields come on top of its tables.
        prop_assert!(memory <= limit + units::Bytes::kib(1), "{spec}: {memory}");
    } else {
        prop_assert!(memory <= units::Bytes::kib(1), "{spec}: {memory}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_what_was_built_and_guesses_lie_on_the_disk(
        (disk_blocks, events) in prop_oneof![1..50_u64, 1..5_000_u64, Just(1_u64 << 36)]
            .prop_flat_map(|blocks| (Just(blocks), events(blocks))),
        memory_blocks in prop_oneof![Just(1_u64), Just(256), Just(100_000)],
    ) {
        let setup = Setup { disk_blocks, memory_blocks };
        for spec in specs() {
            feed(&spec, setup, &events)?;
        }
    }
}

/// Tables that are full take no more: many more places than rows, through a miner with the least memory.
#[test]
fn full_tables_take_the_place_of_what_is_old() {
    let setup = Setup {
        disk_blocks: 1 << 30,
        memory_blocks: 256,
    };
    for name in ["vip", "mithril", "delta"] {
        let spec: Spec = format!("{name}:memory=128KiB")
            .parse()
            .expect("it is registered");
        let mut miner = spec.build(setup);
        let memory = miner.memory();
        let mut guesses = Vec::new();
        // Twice each, so that nothing is pruned for having been seen once.
        for round in 0..4 {
            for place in 0..20_000_u64 {
                let run = Run::new(place * 2_000 % (1 << 30), 8).expect("it lies on the disk");
                miner.read(run, round % 2 == 0, &mut guesses);
                guesses.clear();
            }
        }
        assert_eq!(miner.memory(), memory, "{name}");
    }
}
