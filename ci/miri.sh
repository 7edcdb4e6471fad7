#!/usr/bin/env bash
# Runs the unit tests of the library under Miri, which finds undefined behaviour that no machine
# shows. Needs a nightly toolchain with the components miri and rust-src. Arguments go to the tests.
#
# By the rules of tree borrows and with permissive provenance: crossbeam-epoch, by which all maps free memory, follows neither
# stacked borrows nor strict provenance.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
  echo "ci/miri.sh: rustup +nightly component add miri rust-src, then run this again" >&2
  exit 2
fi
MIRIFLAGS="${MIRIFLAGS:--Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-disable-isolation}" \
  CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri" \
  FANREAD_SEEDS="${FANREAD_SEEDS:-1}" \
  cargo +nightly miri test --locked -p fanread --lib -- "$@"
