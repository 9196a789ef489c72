//! See `crates/hostile/src/nbd_client_replies.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("nbd_client_replies", bytes));
