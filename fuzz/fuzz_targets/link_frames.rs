//! See `crates/hostile/src/link_frames.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("link_frames", bytes));
