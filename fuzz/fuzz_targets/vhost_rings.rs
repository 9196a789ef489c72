//! See `crates/hostile/src/vhost_rings.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("vhost_rings", bytes));
