//! Carries out operations on a map and on std's `BTreeMap`, and compares every answer.

#![no_main]

#[macro_use]
#[path = "../tests/maps/mod.rs"]
mod maps;

#[path = "../tests/fuzzed/persistent.rs"]
mod persistent;

for_each_map! {
    spelled: "spelled.rs";
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match testkit::spelled::map_of(bytes) {
        "wormhole" => wormhole::spelled::run(bytes),
        "ordered_map" => ordered_map::spelled::run(bytes),
        "cuckoo_trie" => cuckoo_trie::spelled::run(bytes),
        "mlp_index" => mlp_index::spelled::run(bytes),
        "u64_map" => u64_map::spelled::run(bytes),
        "skip_list" => skip_list::spelled::run(bytes),
        _ => persistent::run(bytes),
    }
});
