#!/usr/bin/env bash
# Feeds bytes to the fuzz targets, guided by coverage, with AddressSanitizer, and says how many inputs each has run. Needs
# rustup, from which it installs a nightly compiler, and a C++ compiler; three minutes to compile.
#
#   ci/fuzz.sh                    all targets, FANREAD_FUZZ_SECONDS each (60 if unset), on all processors
#   ci/fuzz.sh maps               those named
#   ci/fuzz.sh build              only compiles them
#
#   key_order     any bytes as encoded keys of every type
#   maps          operations on every map, with tiny leaves, compared with std's BTreeMap
#   persist_open  damaged files of persistent maps
#   table_reader  damaged table files, starting from files that RocksDB wrote
#
# FANREAD_SEED replays the choices of a run as far as the clock lets it; FANREAD_COUNTS names a file for the counts. An input that fails stays in
# fuzz/artifacts/TARGET: under fuzz/regressions/TARGET every `cargo test` runs it again.
#
# What cargo-fuzz would do, with nothing to install.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(key_order maps persist_open table_reader)

if ! cargo +nightly --version >/dev/null 2>&1; then
  command -v rustup >/dev/null || { echo "ci/fuzz.sh: install rustup (https://rustup.rs)" >&2; exit 2; }
  rustup toolchain install nightly --profile minimal
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
RUSTFLAGS="--cfg fuzzing --cfg small_leaves -Zsanitizer=address -Ccodegen-units=1 -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares" \
  cargo +nightly build --locked --quiet --release --manifest-path fuzz/Cargo.toml --target "$host"
[ "${targets[0]}" != build ] || exit 0
programs="${CARGO_TARGET_DIR:-fuzz/target}/$host/release"

logs=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; rm -rf "$logs"' EXIT
seconds=${FANREAD_FUZZ_SECONDS:-60}
failed=
for target in "${targets[@]}"; do
  corpus=fuzz/corpus/$target
  mkdir -p "$corpus" "fuzz/artifacts/$target"
  starts=("fuzz/regressions/$target")
  [ "$target" != table_reader ] || starts+=(crates/fanread/tests/golden)
  # One process for each processor; they share the corpus.
  running=()
  for number in $(seq "$(nproc)"); do
    seed=$((${FANREAD_SEED:-RANDOM * 32768 + RANDOM} % 2147483646 + number))
    "$programs/$target" -max_len=8192 -max_total_time="$seconds" -print_final_stats=1 -rss_limit_mb=4096 -timeout=60 \
      -seed="$seed" -artifact_prefix="fuzz/artifacts/$target/" "$corpus" "${starts[@]}" >"$logs/$number" 2>&1 &
    running+=($!)
  done
  for number in "${!running[@]}"; do
    if ! wait "${running[number]}"; then
      failed=1
      tail -n 60 "$logs/$((number + 1))" >&2
    fi
  done
  running=()
  count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs"/* | awk '{ n += $1 } END { print n + 0 }')
  echo "$target: $count executions in $seconds seconds"
  [ -z "${FANREAD_COUNTS:-}" ] || echo "fuzz-executions $target $count" >>"$FANREAD_COUNTS"
  rm -f "$logs"/*
done
[ -z "$failed" ]
