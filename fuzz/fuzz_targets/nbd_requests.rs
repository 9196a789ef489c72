//! See `crates/hostile/src/nbd_requests.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("nbd_requests", bytes));
