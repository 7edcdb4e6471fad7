//! Takes any bytes for a table file and asks it everything.

#![no_main]

#[path = "../tests/fuzzed/tables.rs"]
mod tables;

libfuzzer_sys::fuzz_target!(|file: &[u8]| tables::run(file));
