#!/usr/bin/env bash
# Runs the models of the protocols: loom tries every interleaving and every value a load may return,
# shuttle tries many interleavings of longer scenes. Arguments go to the test programs.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${CARGO_TARGET_DIR:-target}

# The cfg rebuilds everything, so each has a folder of its own. Models are far too slow unoptimised, but
# unit tests take longer to optimise than to run, and none needs what is inlined across parts of a crate.
export CARGO_PROFILE_RELEASE_LTO="${CARGO_PROFILE_RELEASE_LTO:-off}"
light=(--config 'profile.release.package.fanread.opt-level=1')
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$base/loom" LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}" \
  cargo test --locked --release "${light[@]}" -p fanread --lib loom -- "$@"

for file in crates/fanread/tests/loom_*.rs; do
  [ -e "$file" ] || continue
  RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$base/loom" LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}" \
    cargo test --locked --release -p fanread --test "$(basename "$file" .rs)" -- "$@"
done

# A few hundred of each kind find most of what can be planted; more are for nights (ci/prove.sh).
export FANREAD_SCHEDULES="${FANREAD_SCHEDULES:-400}"
if [ -e crates/fanread/tests/shuttle.rs ]; then
  RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR="$base/shuttle" \
    cargo test --locked --release -p fanread --test shuttle -- "$@"
  RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR="$base/shuttle" \
    cargo test --locked --release "${light[@]}" -p fanread --lib shuttle_ -- "$@"
fi
