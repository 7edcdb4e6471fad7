#!/usr/bin/env bash
# Plants faults in a copy of the library, one at a time, and sees that the tests catch each: ci/mutants/*.txt says what is
# wrong, where, and which tests have to fail. Prints a table of them, with those that the persistent maps' own tests plant;
# docs/mutants.md is one. Ends with 1 if a fault survives, and with 2 if a test fails without one.
#
#   ci/mutants.sh                    all of them: about an hour on two cores, by its parts, most of it to compile
#   ci/mutants.sh mlp-               those whose names have `mlp-` in them
#   ci/mutants.sh >docs/mutants.md   all of them, for the record
#   ci/mutants.sh plant              only says how many faults there are, if each still finds its place and the source with them can be read; in a second
#
# All faults are compiled at once and chosen by a variable when a test program runs (ci/mutants/plant.rs). FANREAD_SCHEDULES is
# the number of schedules of a scene, 3000 if unset; FANREAD_PATIENCE the seconds after which a test that does not end counts as
# failed, 600 if unset: more than any takes without a fault.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = plant ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/src"
  rustc --edition 2024 -o "$work/plant" ci/mutants/plant.rs
  "$work/plant" crates/fanread/src "$work/src" ci/mutants/*.txt >"$work/all"
  # Which complains of what does not parse.
  rustfmt --edition 2024 --quiet "$work/src/lib.rs"
  echo "ci/mutants.sh: $(wc -l <"$work/all") faults find their places"
  exit
fi

runtimes=("$(rustc --print target-libdir)"/librustc-*_rt.asan.a)
if [ ! -e "${runtimes[0]}" ]; then
  echo "ci/mutants.sh: this compiler comes without AddressSanitizer; those of rustup have it" >&2
  exit 2
fi

mkdir -p "${CARGO_TARGET_DIR:-target}/mutants"
base=$(cd "${CARGO_TARGET_DIR:-target}/mutants" && pwd)
export FANREAD_SCHEDULES="${FANREAD_SCHEDULES:-3000}" FANREAD_SEEDS="${FANREAD_SEEDS:-2}"
export FANREAD_HISTORIES="${FANREAD_HISTORIES:-200}" LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
patience=${FANREAD_PATIENCE:-600}

say() { printf '== %d:%02d: %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }

# The tree as it is, and the library with all faults.
say "copy"
source=$base/source
mkdir -p "$source"
git ls-files -z --cached --others --exclude-standard -- . ':!crates/fanread/src' |
  while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
  tar --create --null --files-from=- | tar --extract --directory "$source"
rustc --edition 2024 -O -o "$base/plant" ci/mutants/plant.rs
"$base/plant" crates/fanread/src "$source/crates/fanread/src" ci/mutants/*.txt >"$base/all"
awk -F '\t' -v part="${1:-}" 'index($1, part)' "$base/all" >"$base/faults"
[ -s "$base/faults" ] || { echo "ci/mutants.sh: no fault has '$1' in its name" >&2; exit 2; }
kinds=$(cut -f 2 "$base/faults" | sort -u)
own=()
[ -n "${1:-}" ] || own=(every_flush_and_every_fence_is every_flush_and_every_fence_of every_write_and_every_wait)
count=$(wc -l <"$base/faults")

declare -A programs
build() { # compiles the tests of a kind: its name, then what is asked of cargo
  local kind=$1 output
  shift
  grep -q -x "$kind" <<<"$kinds" || return 0
  say "compile $kind"
  # Models are far too slow unoptimised, and all else takes longer to optimise than to run.
  output=$(cd "$source" && cargo test --locked -p fanread --no-run "$@" \
    --config 'profile.test.package.fanread.opt-level=1' --config 'profile.release.package.fanread.opt-level=1' \
    --config 'profile.test.debug=0' --config 'profile.release.debug=0' --config 'profile.release.lto="off"' 2>&1) ||
    { printf '%s\n' "$output" >&2; exit 2; }
  programs[$kind]=$(sed -n 's/.*Executable .*(\(.*\))/\1/p' <<<"$output")
}
models() { RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$base/models" build "$@"; }
scenes() { RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR="$base/scenes" build "$@"; }
tests() { CARGO_TARGET_DIR="$base/tests" build "$@"; }
tiny() { RUSTC_WORKSPACE_WRAPPER="$source/ci/rustc-address.sh" tests "$@"; }
models models --release --lib
scenes scenes --release --test shuttle
scenes scenes-of-units --release --lib
tests units --lib
tests tables --test table
tiny suites --test suites
tiny memory --test memory

run() { # runs tests of a kind up to the first that fails: the kind, and words that their names have in them
  local kind=$1 tests
  shift
  : >"$base/log" # what the last one has left there is not to be taken for this one's
  (cd "$source/crates/fanread" && exec timeout --kill-after 5 "$patience" "${programs[$kind]}" "$@") >"$base/log" 2>&1 &
  tests=$!
  while kill -0 "$tests" 2>/dev/null; do
    ! grep -q -s '^test .* FAILED$' "$base/log" || kill "$tests" 2>/dev/null || true
    sleep 0.1
  done
  wait "$tests"
}

for kind in $kinds; do
  say "run $kind without a fault"
  mapfile -t words < <(awk -F '\t' -v kind="$kind" '$2 == kind { print $3 }' "$base/faults" | tr ' ' '\n' | sort -u)
  for word in "${words[@]}"; do
    # Read to its end: a list that nobody reads any more is an error of the program's.
    [ -n "$("${programs[$kind]}" --list "$word" 2>/dev/null | sed -n '/: test$/p')" ] ||
      { echo "ci/mutants.sh: no test of $kind has '$word' in its name" >&2; exit 2; }
  done
  patience=3600 run "$kind" "${words[@]}" || { cat "$base/log" >&2; exit 2; }
done

survivors=0
row() { printf '| %s | %s | %s | %s |\n' "$@"; }
printf '# Planted faults\n\nWhat `ci/mutants.sh` plants, and the test that notices it first; [design/proof.md](design/proof.md) says how.\n\n'
row fault 'where' 'caught by' seconds
row --- --- --- ---:
while IFS=$'\t' read -r name kind words place breaks; do
  began=$SECONDS status=0
  # shellcheck disable=SC2086
  FANREAD_PLANT=$name run "$kind" $words || status=$?
  by=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$base/log" | head -n 1)
  case $status:$by in
    0:) by="**nobody**" survivors=$((survivors + 1)) ;;
    124: | 137:) by="$words, without an end" ;;
    12[89]: | 1[3-9][0-9]:) by="$words, by signal $((status - 128))" ;;
    # What AddressSanitizer ends a program with.
    *:) by="$words, with status $status" ;;
  esac
  [ "$status" = 0 ] || say "$name: $by"
  [ "$status" != 0 ] || say "$name SURVIVES"
  row "\`$name\`: $breaks" "\`$place\`" "\`$by\`" $((SECONDS - began))
done <"$base/faults"

# Those that the persistent maps' tests plant themselves, in places of which they keep the list.
for test in ${own[@]+"${own[@]}"}; do
  began=$SECONDS
  patience=3600 run units "$test" --nocapture || { cat "$base/log" >&2; exit 2; }
  seconds=$((SECONDS - began)) planted=$(sed -n 's/^planted: //p' "$base/log")
  while IFS= read -r fault; do
    place=${fault##* at } count=$((count + 1))
    row "${fault%% at *}" "\`${place##*/fanread/src/}\`" "\`$test\`" "$seconds for all"
  done <<<"$planted"
done

say "$count faults, $survivors survived"
[ "$survivors" = 0 ]
