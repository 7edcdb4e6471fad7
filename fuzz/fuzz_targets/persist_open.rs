//! Opens damaged files of persistent maps, and uses whatever is opened.

#![no_main]

#[path = "../tests/fuzzed/files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::run(bytes));
