#!/usr/bin/env bash
# The assurance program: every kind of test that gets better with time, with new seeds, for as long as it is given. What CI runs with each
# change is the same tests with less time. docs/proof.md says what each kind does and how to replay it.
#
#   ci/prove.sh [MINUTES] [--record FILE] [PART ...]     10 minutes and all parts if not said; hours are for nights
#   ci/prove.sh sums FILE                                what the records in FILE add up to
#
#   models     loom: every interleaving of each protocol; once, whatever time it takes
#   schedules  shuttle: random and PCT schedules of scenes of each map
#   histories  threads on each map, whose histories have to be linearizable
#   crashes    persistent maps, opened from every state that a crash could have left
#   kills      processes that are killed while they write to a persistent map
#   faults     allocations that fail and user code that panics at the n-th call, threads that come and go, readers that sleep
#   fuzz       ci/fuzz.sh: operations on every map, damaged files
#   address    tiny leaves under AddressSanitizer and LeakSanitizer: model, histories, faults, panics
#   thread     tiny leaves under ThreadSanitizer: histories, faults
#   module     ci/module.sh fuzz: damaged payloads and random commands for the module, in a real server
#
# MINUTES are those of the parts together; compiling comes before, 25 minutes on two cores if nothing is compiled yet, and both are
# said at the end. Needs rustup for a nightly compiler (fuzz, thread), and what ci/fuzz.sh and ci/module.sh install.
#
# FANREAD_FUZZ says which fuzz targets run for how many thousandths of the time, as "maps/70 key_order/50".
# FANREAD_SEED replays a run: its rounds have the seeds that they had. It ends with a summary in JSON, on standard output and in
# prove/summary.json of the target folder, where the log of whatever failed is too, and with status 1 if something did. With --record the
# counts are added to FILE, and the table of sums in it is written anew.
set -euo pipefail
cd "$(dirname "$0")/.."

all=(models schedules histories crashes kills faults fuzz address thread module)

# Adds up records: lines of four spaces, a date, a commit, minutes, and WHAT/OF=NUMBER.
sums() {
  awk '
    /^    [0-9]+-[0-9]+-[0-9]+ / {
      runs++; minutes += $3
      for (i = 4; i <= NF; i++) {
        split($i, pair, "="); split(pair[1], name, "/")
        sum[pair[1]] += pair[2]; total[name[1]] += pair[2]
      }
    }
    function millions(n) { return n >= 1e5 ? sprintf("%.2f M", n / 1e6) : n + 0 }
    END {
      print "| map | histories | schedules | crash images |\n| --- | --- | --- | --- |"
      count = split("wormhole ordered_map bytes_map cuckoo_trie mlp_index u64_map skip_list cceh store", maps, " ")
      for (i = 1; i <= count; i++) {
        map = maps[i]
        print "| " map " | " millions(sum["histories/" map]) " | " millions(sum["schedules/" map]) " | " \
          (i > 7 ? millions(sum["crash-images/" map]) : "-") " |"
      }
      print "| wanted | 1 M each | 1 M each | 10 M together |\n"
      print "In all: " runs + 0 " records of " minutes " minutes; " millions(total["fuzz-executions"]) " fuzz executions (100 M wanted), " \
        millions(total["kills"]) " kills, " millions(total["panics"]) " panics, " millions(total["payloads"]) " payloads and " \
        millions(total["commands"]) " commands to the module."
    }' "$1"
}

minutes=10 record='' parts=()
if [ "${1:-}" = sums ]; then
  sums "$2"
  exit
fi
while [ $# -gt 0 ]; do
  case $1 in
    --record) record=$2 && shift ;;
    *[!0-9]*)
      [[ " ${all[*]} " == *" $1 "* ]] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
      parts+=("$1")
      ;;
    *) minutes=$1 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")
wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }

mkdir -p "${CARGO_TARGET_DIR:-target}/prove"
out=$(cd "${CARGO_TARGET_DIR:-target}/prove" && pwd)
rm -f "$out"/*
export FANREAD_COUNTS=$out/counts CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_RELEASE_DEBUG=0
: >"$FANREAD_COUNTS"
base=${FANREAD_SEED:-0x$(od -An -N7 -tx8 /dev/urandom | tr -d ' ')}
echo "ci/prove.sh: seed $base, $minutes minutes for: ${parts[*]}"

# Compiling.

compiled() { # compiles tests, and prints where their programs are
  local log=$out/compile-$RANDOM.log
  cargo "$@" --no-run >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  sed -n 's/.*Executable .*(\(.*\))$/\1/p' "$log" | xargs -n 1 realpath
  rm "$log"
}

light=(--config 'profile.release.package.fanread.opt-level=1')
target=${CARGO_TARGET_DIR:-target}
# As ci/loom.sh does.
! wanted models || models=$(RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$target/loom compiled test --locked --release "${light[@]}" -p fanread --lib)
if wanted schedules; then
  scenes=$(RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=$target/shuttle compiled test --locked --release -p fanread --test shuttle)
  unit_scenes=$(RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=$target/shuttle compiled test --locked --release "${light[@]}" -p fanread --lib)
fi
if wanted histories || wanted faults; then suites=$(compiled test --locked -p fanread --test suites); fi
# With tiny leaves a history splits and merges as many with a fourth of the keys, and takes half of the time.
! wanted histories || tiny=$(RUSTC_WORKSPACE_WRAPPER="$PWD/ci/rustc-small-leaves.sh" compiled test --locked -p fanread --test suites)
if wanted histories || wanted faults || wanted crashes; then unit=$(compiled test --locked -p fanread --lib); fi
! wanted kills || store=$(compiled test --locked -p fanread --test store)
! wanted faults || memory=$(compiled test --locked -p fanread --test memory)
# As ci/sanitize.sh does.
! wanted address || address=$(RUSTC_WORKSPACE_WRAPPER="$PWD/ci/rustc-address.sh" compiled test --locked -p fanread --test suites \
  --config 'profile.test.package.fanread.opt-level=1')
! wanted thread || thread=$(ci/tsan.sh build)
! wanted fuzz || ci/fuzz.sh build
! wanted module || ci/module.sh fuzz 0 >"$out/module.log" 2>&1 || { cat "$out/module.log" >&2; exit 1; }
compiled_in=$SECONDS
echo "ci/prove.sh: compiled in $compiled_in seconds"

# Running.

seed_of() { # the seed of a round
  echo "0x$(printf '%s' "$base $*" | sha256sum | cut -c1-15)"
}

failures=()
attempt() { # runs a command with a seed; what it says is kept if it fails
  local name=$1 seed=$2 log=$out/$1-$2.log
  shift 2
  # Nothing takes that long: it hangs.
  if (
    cd crates/fanread
    FANREAD_SEED=$seed SHUTTLE_RANDOM_SEED=$((seed)) timeout 3600 "$@"
  ) >"$log" 2>&1; then
    rm "$log"
  else
    failures+=("$name, FANREAD_SEED=$seed: $*")
    echo "ci/prove.sh: FAILED: ${failures[-1]}; see $log" >&2
    grep -a -m 20 -A 4 'panicked at\|ERROR: \|WARNING: ThreadSanitizer' "$log" >&2 || tail -n 20 "$log" >&2
  fi
}

repeat() { # repeats a command for some seconds, with new seeds, at least once; what fails is not repeated
  local seconds=$1 name=$2 end=$((SECONDS + $1)) round=0 failed=${#failures[@]}
  shift 2
  while :; do
    round=$((round + 1))
    attempt "$name" "$(seed_of "$name" $round)" "$@"
    [ $SECONDS -lt $end ] && [ $failed -eq ${#failures[@]} ] || break
  done
  echo "ci/prove.sh: $name: $round rounds in $((SECONDS - end + seconds)) seconds"
}

share() { # of a thousand parts of the time, in seconds
  echo $((minutes * 60 * $1 / 1000))
}

! wanted models || {
  before=$SECONDS
  LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3} attempt models "$base" "$models" loom
  [ ${#failures[@]} -gt 0 ] || echo "models loom $("$models" loom --list | grep -c ': test$')" >>"$FANREAD_COUNTS"
  echo "ci/prove.sh: models: once in $((SECONDS - before)) seconds"
}
! wanted schedules || {
  export FANREAD_SCHEDULES=200
  # Those of the persistent maps take the longest.
  repeat "$(share 60)" schedules "$scenes"
  repeat "$(share 170)" unit-schedules "$unit_scenes" shuttle_
}
! wanted histories || {
  export FANREAD_HISTORIES=300
  repeat "$(share 20)" histories "$suites" ::linear::
  repeat "$(share 120)" tiny-histories "$tiny" ::linear::
  repeat "$(share 30)" unit-histories "$unit" histories_of_threads
}
! wanted crashes || repeat "$(share 120)" crashes "$unit" a_crash_after_any_store a_loss_of_power_leaves
! wanted kills || FANREAD_KILLS=10 repeat "$(share 50)" kills "$store" a_killed_process a_process_that_is_killed
! wanted faults || {
  repeat "$(share 30)" allocations "$unit" out_of_memory
  FANREAD_CALLS=400 repeat "$(share 30)" panics "$suites" ::panics::
  repeat "$(share 20)" faults "$suites" ::faults::
  repeat "$(share 10)" memory "$memory"
}
! wanted fuzz || {
  # Maps have the most to try.
  for each in ${FANREAD_FUZZ:-maps/70 persist_open/25 table_reader/25 key_order/50}; do
    seed=$(seed_of "fuzz" "$each")
    FANREAD_FUZZ_SECONDS=$(share "${each#*/}") attempt "fuzz-${each%/*}" "$seed" ../../ci/fuzz.sh "${each%/*}"
    echo "ci/prove.sh: fuzz ${each%/*}: $(share "${each#*/}") seconds"
  done
}
! wanted address || {
  # As ci/sanitize.sh does, with fewer of each.
  FANREAD_HISTORIES=40 FANREAD_CALLS=100 repeat "$(share 80)" address "$address" ::linear:: ::faults:: ::panics:: ::spelled:: small_pools large_values
}
! wanted thread || FANREAD_HISTORIES=20 repeat "$(share 60)" thread ../../ci/tsan.sh "$thread"
! wanted module || {
  seed=$(seed_of module)
  FANREAD_PAYLOADS=2000 FANREAD_COMMANDS=20000 attempt module "$seed" ../../ci/module.sh fuzz "$(share 50)"
  echo "ci/prove.sh: module: $(share 50) seconds"
}
run_in=$((SECONDS - compiled_in))

# Counting.

commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD || commit=$commit+
{
  printf '{"date":"%s","commit":"%s","minutes":%s,"seconds_run":%s,"seconds_compiled":%s,"seed":"%s"' \
    "$(date -u +%F)" "$commit" "$minutes" "$run_in" "$compiled_in" "$base"
  sort "$FANREAD_COUNTS" | awk '
    { if (!($1 in of)) what[++kinds] = $1; if (!(($1, $2) in sum)) of[$1] = of[$1] " " $2; sum[$1, $2] += $3 }
    END {
      for (i = 1; i <= kinds; i++) {
        printf ",\"%s\":{", what[i]
        count = split(of[what[i]], names, " ")
        for (j = 1; j <= count; j++) printf "%s\"%s\":%.0f", (j > 1 ? "," : ""), names[j], sum[what[i], names[j]]
        printf "}"
      }
    }'
  printf ',"failures":['
  for at in "${!failures[@]}"; do
    [ "$at" = 0 ] || printf ,
    printf '"%s"' "${failures[at]//\"/\'}"
  done
  printf ']}\n'
} | tee "$out/summary.json"

if [ -n "$record" ] && [ ${#failures[@]} -eq 0 ]; then
  {
    printf '    %s %s %s' "$(date -u +%F)" "$commit" $(((run_in + 59) / 60))
    awk '{ sum[$1 "/" $2] += $3 } END { for (name in sum) printf "%s=%.0f\n", name, sum[name] }' "$FANREAD_COUNTS" | sort | awk '{ printf " %s", $1 } END { print "" }'
  } >>"$record"
  sums "$record" >"$out/sums"
  awk -v sums="$out/sums" '
    /<!-- end of sums -->/ { skip = 0 }
    !skip
    /<!-- sums -->/ { print ""; while ((getline line < sums) > 0) print line; print ""; skip = 1 }' "$record" >"$out/recorded"
  cp "$out/recorded" "$record"
fi
[ ${#failures[@]} -eq 0 ] || exit 1
