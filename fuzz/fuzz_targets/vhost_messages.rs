//! See `crates/hostile/src/vhost_messages.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("vhost_messages", bytes));
