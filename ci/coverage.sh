#!/usr/bin/env bash
# Reports which branches the tests of table files take, file by file; those that read a file's numbers are block.rs,
# layout.rs and properties.rs. Needs a nightly compiler, and llvm-profdata and llvm-cov of its LLVM or a newer one: in
# LLVM_BIN, of rustup's component llvm-tools, or Debian's package llvm-22. Arguments go to llvm-cov.
set -euo pipefail
cd "$(dirname "$0")/.."

major=$(rustc +nightly -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
tools=$(rustc +nightly --print target-libdir)/../bin
for bin in "${LLVM_BIN:-}" "$tools" "/usr/lib/llvm-$major/bin"; do
  if [ -x "$bin/llvm-cov" ]; then break; fi
done
[ -x "$bin/llvm-cov" ] || { echo "ci/coverage.sh: install llvm-$major, or rustup's llvm-tools" >&2; exit 2; }

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/coverage" CARGO_INCREMENTAL=0
export RUSTFLAGS="-C instrument-coverage -Z coverage-options=branch"
profiles=$(mktemp -d)
trap 'rm -rf "$profiles"' EXIT
# Build scripts are instrumented too, and not of interest.
programs=$(LLVM_PROFILE_FILE=/dev/null cargo +nightly test --locked -p fanread --lib --test table --no-run \
  --config 'profile.test.opt-level=0' 2>&1 | tee /dev/stderr | sed -n 's/.*Executable .*(\(.*\))/\1/p')
for program in $programs; do
  case $program in */fanread-*) only=table:: ;; *) only= ;; esac
  # The one left out takes minutes like this, and no branch that others do not take.
  (cd crates/fanread && LLVM_PROFILE_FILE="$profiles/%p.profraw" "$program" --quiet $only \
    --skip a_changed_byte_is_noticed_or_harmless)
done
"$bin/llvm-profdata" merge -sparse "$profiles"/*.profraw -o "$profiles/all"
objects=$(printf -- '-object %s ' $programs)
"$bin/llvm-cov" report ${objects#-object } -instr-profile="$profiles/all" --show-branch-summary "$@" \
  --sources crates/fanread/src/table/*.rs
