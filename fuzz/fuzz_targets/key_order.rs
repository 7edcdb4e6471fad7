//! Decodes any bytes as keys of every type, and compares the order of bytes and values.

#![no_main]

#[path = "../tests/fuzzed/key_order.rs"]
mod keys;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| keys::run(bytes));
