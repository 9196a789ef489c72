//! See `crates/hostile/src/guest_frames.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("guest_frames", bytes));
