//! See `crates/hostile/src/nbd_options.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("nbd_options", bytes));
