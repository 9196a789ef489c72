//! See `crates/hostile/src/trace.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("trace", bytes));
