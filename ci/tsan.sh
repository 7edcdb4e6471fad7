#!/usr/bin/env bash
# Runs the suites in which threads share a map under ThreadSanitizer, which finds accesses that no ordering keeps apart. Leaves are
# tiny, so that they split and merge all the time. Needs rustup, from which it installs a nightly compiler with the sources
# of std, since std is compiled for it too; five minutes to compile.
#
#   ci/tsan.sh            histories of threads, and what other maps got wrong under threads
#   ci/tsan.sh build      only compiles, and prints where the program is
#   ci/tsan.sh PROGRAM    runs that program
#
# ThreadSanitizer does not know fences: `cfg(fanread_tsan)` puts something that it knows in their place (`sync/shim.rs`).
# FANREAD_HISTORIES says how many histories each test makes.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-build}

if [ "$program" = build ]; then
  if ! cargo +nightly --version >/dev/null 2>&1 || [ ! -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust" ]; then
    command -v rustup >/dev/null || { echo "ci/tsan.sh: install rustup (https://rustup.rs)" >&2; exit 2; }
    rustup toolchain install nightly --profile minimal --component rust-src >&2
  fi
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  # `crossbeam_sanitize_thread` does for its epochs what `fanread_tsan` does for us.
  RUSTFLAGS="-Zsanitizer=thread --cfg fanread_tsan --cfg small_leaves --cfg crossbeam_sanitize_thread" \
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan" \
    cargo +nightly test --locked -Zbuild-std --target "$(rustc +nightly -vV | sed -n 's/^host: //p')" -p fanread --test suites --no-run \
    --config 'profile.test.package.fanread.opt-level=1' >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  program=$(sed -n 's/.*Executable .*(\(.*\))$/\1/p' "$log" | xargs -n 1 realpath)
  [ "${1:-}" != build ] || { echo "$program"; exit; }
fi
cd crates/fanread
FANREAD_HISTORIES="${FANREAD_HISTORIES:-40}" TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}" \
  "$program" ::linear:: everything_may_be_deleted a_split_under_parallel a_value_is_never_seen iterators_step_over
