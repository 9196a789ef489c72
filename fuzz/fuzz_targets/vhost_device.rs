//! See `crates/hostile/src/vhost_device.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::run("vhost_device", bytes));
