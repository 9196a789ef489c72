//! What encryption costs a 4 KiB block, in nanoseconds: the median of rounds, the least and the
//! most.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use at_rest::{KeyStore, WrappingKey, XtsCipher};
use block_io::BlockCipher as _;
use std::time::Instant;
use units::{BlockIndex, DiskId};

const BLOCKS: u64 = 100_000;
const ROUNDS: usize = 9;

fn measure(what: &str, mut each: impl FnMut(BlockIndex)) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            (0..BLOCKS).map(BlockIndex::new).for_each(&mut each);
            began.elapsed().as_secs_f64() * 1e9 / 1e5
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (least, median, most) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    println!("{what}: {median:.0} ns a block ({least:.0}-{most:.0})");
}

fn main() {
    let dir = tempfile::tempdir().expect("a folder for a key");
    let store = KeyStore::new(dir.path());
    let key = store.open(DiskId::from_u128(1), &WrappingKey::new([1; 32]));
    let cipher = XtsCipher::new(&key.expect("a key")).expect("a cipher");
    let mut bytes = vec![7; 4096];
    measure("encrypt", |block| cipher.encrypt(block, &mut bytes));
    measure("decrypt", |block| cipher.decrypt(block, &mut bytes));
}
