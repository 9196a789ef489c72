//! Every input of the corpus, and seeded mutations of them, in each ordinary test run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hostile::TARGETS;
use std::path::PathBuf;
use units::Prng;

/// Mutations of the corpus that a target of cost 1 is tried on: a few seconds for all. The
/// environment's `HOSTILE_MUTATIONS` asks for another number.
const MUTATIONS: u64 = 60_000;

fn mutations() -> u64 {
    let asked = std::env::var("HOSTILE_MUTATIONS");
    asked.map_or(MUTATIONS, |number| number.parse().unwrap())
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = folder.join(target);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has a corpus");
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

/// Bytes that parsers of lengths and counts like least.
const TRICKY: [&[u8]; 7] = [
    &[0],
    &[0xff],
    &[0, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xff],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0, 0, 0, 0, 0, 0, 0],
    &[0xff; 8],
];

fn index(dice: &mut Prng, bound: usize) -> usize {
    usize::try_from(dice.below(bound as u64)).unwrap()
}

fn mutate(corpus: &[Vec<u8>], dice: &mut Prng) -> Vec<u8> {
    let mut bytes = corpus[index(dice, corpus.len())].clone();
    for _ in 0..=dice.below(4) {
        let at = index(dice, bytes.len() + 1);
        match dice.below(6) {
            0 => bytes.truncate(at),
            1 => {
                let tail = &corpus[index(dice, corpus.len())];
                let from = index(dice, tail.len() + 1);
                bytes.extend_from_slice(&tail[from..]);
            }
            2 => {
                let tricky = TRICKY[index(dice, TRICKY.len())];
                bytes.splice(at..at, tricky.iter().copied());
            }
            3 => {
                let tricky = TRICKY[index(dice, TRICKY.len())];
                let end = bytes.len().min(at + tricky.len());
                bytes.splice(at..end, tricky.iter().copied());
            }
            4 => {
                let end = bytes.len().min(at + index(dice, 9));
                bytes.drain(at..end);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
    bytes
}

#[test]
fn the_corpus_finds_nothing() {
    for target in TARGETS {
        for input in corpus(target.name) {
            (target.body)(&input);
        }
    }
}

#[test]
fn mutations_of_the_corpus_find_nothing() {
    for target in TARGETS {
        let corpus = corpus(target.name);
        for seed in 0..mutations() / target.cost {
            let input = mutate(&corpus, &mut Prng::new(seed));
            let caught = std::panic::catch_unwind(|| (target.body)(&input));
            assert!(caught.is_ok(), "{} seed {seed}: {input:02x?}", target.name);
        }
    }
}

#[test]
fn every_target_has_a_file_for_the_fuzzer() {
    let fuzz = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for target in TARGETS {
        let file = fuzz.join(format!("fuzz_targets/{}.rs", target.name));
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains(&format!("\"{}\"", target.name)));
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)));
    }
}
