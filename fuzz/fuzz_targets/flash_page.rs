//! See `crates/hostile/src/flash_page.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("flash_page", bytes));
