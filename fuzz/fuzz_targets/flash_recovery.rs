//! See `crates/hostile/src/flash_recovery.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("flash_recovery", bytes));
