#!/usr/bin/env bash
# Builds the Python package, installs it into a fresh virtual environment, and tests it there: its tests, its type stubs and the
# example. Needs Python 3.11 or newer and the network. About a minute and a half on two cores.
#
#   ci/python.sh          builds for tests: not optimised, with debug assertions
#   ci/python.sh release  builds as published
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  command -v apt-get >/dev/null || { echo "ci/python.sh: install Python 3.11 or newer, with venv" >&2; exit 2; }
  root=
  [ "$(id -u)" = 0 ] || root=sudo
  $root apt-get update -q
  DEBIAN_FRONTEND=noninteractive $root apt-get install -qy --no-install-recommends python3 python3-venv python3-pip libpython3-stdlib
fi
if ! "$python" -c 'import test.mapping_tests' 2>/dev/null; then
  # Some systems have the tests of Python's own apart.
  command -v apt-get >/dev/null || { echo "ci/python.sh: install the module test of Python's" >&2; exit 2; }
  root=
  [ "$(id -u)" = 0 ] || root=sudo
  $root apt-get update -q
  DEBIAN_FRONTEND=noninteractive $root apt-get install -qy --no-install-recommends libpython3-testsuite
fi

work=$(mktemp -d)
running=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null || true; rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
PATH="$work/venv/bin:$PATH"
# Beside the compiler, which has the processors.
pip install --no-compile --quiet --disable-pip-version-check maturin
pip install --no-compile --quiet --disable-pip-version-check numpy pytest hypothesis mypy sortedcontainers matplotlib &
wheels=$!

profile=dev
if [ "${1:-}" = release ]; then profile=release; fi
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
maturin build --quiet --locked --profile "$profile" --manifest-path crates/fanread-python/Cargo.toml --out "$work/dist"
wait "$wheels"
pip install --no-compile --quiet --disable-pip-version-check "$work"/dist/fanread-*.whl

# From elsewhere, so that what is imported is what was installed.
tests=$PWD/crates/fanread-python/tests bench=$PWD/crates/fanread-python/bench example=$PWD/examples/python/get_time.py
guide=$PWD/docs/guide/python.md
cd "$work"
python -c 'import fanread; print(fanread.SortedMap(ready=True))'
# Two processors: the tests on one, the rest on the other.
PYTHONDONTWRITEBYTECODE=1 python -m pytest --quiet -p no:cacheprovider "$tests" >"$work/tests.txt" 2>&1 &
running=$!
python -m mypy.stubtest --concise fanread
python -m doctest "$guide"
python -m mypy --strict --cache-dir "$work/mypy" "$tests/typed.py"
python "$bench/bench.py" --count 3000 --lookups 3000 --rounds 1 >"$work/bench.txt"
MPLBACKEND=Agg python "$example" --most 5000 --out "$work/get_time.png" >"$work/example.txt"
test -s "$work/get_time.png"
wait "$running" || { cat "$work/tests.txt"; exit 1; }
tail -n 1 "$work/tests.txt"
