//! See `crates/hostile/src/traffic.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("traffic", bytes));
