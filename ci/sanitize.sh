#!/usr/bin/env bash
# Runs the suites that can find memory errors under AddressSanitizer, which also finds leaks at the end
# of each test program: those in which maps are compared with a model, shared by threads, broken into
# and left by panics. Leaves, runs and blocks are tiny, so that they split and merge all the time.
# Arguments go to the test programs; `FANREAD_SANITIZE_UNITS=1` takes the unit tests too.
#
# Left out are the tests that measure how much memory is taken, which the sanitizer changes (memory), and that need no map; of the
# unit tests those that crash or damage a map in a million ways in code without `unsafe`.
#
# Compiling takes more processor time than running, so the maps are optimised less than in other tests.
set -euo pipefail
cd "$(dirname "$0")/.."

runtimes=("$(rustc --print target-libdir)"/librustc-*_rt.asan.a)
if [ ! -e "${runtimes[0]}" ]; then
  echo "ci/sanitize.sh: this compiler comes without AddressSanitizer; those of rustup have it" >&2
  exit 2
fi

units=()
[ -z "${FANREAD_SANITIZE_UNITS:-}" ] || units=(--lib)

# With all of the workspace, dependencies have the features that they have in the other tests.
# `a_leaked_value_is_counted_and_named` and `a_second_drop_is_not_hidden_by_a_leak`, of the test kit,
# leak a value to see that its census notices.
RUSTC_WORKSPACE_WRAPPER="$PWD/ci/rustc-address.sh" \
  FANREAD_SEEDS="${FANREAD_SEEDS:-1}" \
  FANREAD_HISTORIES="${FANREAD_HISTORIES:-15}" FANREAD_CALLS="${FANREAD_CALLS:-50}" \
  cargo test --locked --workspace --exclude fanread-valkey --config 'profile.test.package.fanread.opt-level=1' \
  ${units[@]+"${units[@]}"} --test suites -- \
  --skip a_crash_after_any_store --skip every_flush_and_every_fence \
  --skip what_was_mended_may_split --skip a_file_of_any_bytes_is_refused \
  --skip a_leaked_value_is_counted_and_named --skip a_second_drop_is_not_hidden_by_a_leak "$@"
