#!/usr/bin/env bash
# Feeds hostile bytes to every fuzz target, guided by coverage, for FANREAD_FUZZ_SECONDS each (60 if unset), starting from
# files that RocksDB wrote. Needs a nightly compiler with AddressSanitizer, and a C++ compiler.
#
# What cargo-fuzz would do, with nothing to install.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc +nightly -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Ccodegen-units=1 -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
cargo +nightly build --release --manifest-path fuzz/Cargo.toml --target "$target"
programs="${CARGO_TARGET_DIR:-fuzz/target}/$target/release"

mkdir -p fuzz/corpus/table_reader fuzz/artifacts/table_reader
"$programs/table_reader" -max_len=8192 -max_total_time="${FANREAD_FUZZ_SECONDS:-60}" -print_final_stats=1 \
  -artifact_prefix=fuzz/artifacts/table_reader/ "$@" fuzz/corpus/table_reader crates/fanread/tests/golden
