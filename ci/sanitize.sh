#!/usr/bin/env bash
# Runs the tests of the library under AddressSanitizer, which also finds leaks at the end of each
# test program. Needs a nightly toolchain; nothing else. Arguments go to the test programs.
#
# The test kit is left out: `a_leaked_value_is_counted_and_named` and `a_second_drop_is_not_hidden_by_a_leak` leak a
# value to see that its census notices.
set -euo pipefail
cd "$(dirname "$0")/.."

# What must not compile is tested with the stable compiler, whose words are expected.
host=$(rustc -vV | sed -n 's/^host: //p')
# With a target named, build scripts and macros are built without the sanitizer.
RUSTFLAGS="-Zsanitizer=address" \
  CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/address" \
  FANREAD_SEEDS="${FANREAD_SEEDS:-1}" \
  cargo +nightly test --locked --target "$host" -p fanread --lib --tests -- \
  --skip what_is_refused_does_not_compile "$@"
