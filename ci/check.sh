#!/usr/bin/env bash
# Installs what is missing, then checks everything: format, lints, documentation, models, memory
# errors, every test, the packages for C, C++, Python and Redis, and a short benchmark. CI runs this; so
# can you. 13 minutes on two fast cores.
#
#   ci/check.sh          all of it
#   ci/check.sh quick    format, lints, documentation and tests
set -euo pipefail
cd "$(dirname "$0")/.."

say() { # names a step, and says how long all before it took, on the clock and of processors
  local cpu=
  [ ! -r /proc/$$/stat ] || cpu=", $(awk '{ print int(($16 + $17) / 6000) }' /proc/$$/stat) min of cpu"
  printf '\n== %d:%02d%s: %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$cpu" "$*"
}
has() { command -v "$1" >/dev/null 2>&1; }

fail() {
  printf 'ci/check.sh: %s\n' "$*" >&2
  exit 2
}

# A Rust that was installed by rustup but is not in the path of this shell.
if ! has cargo && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
  PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi

msrv=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

recent() { # whether cargo is there and at least as new as the workspace asks for
  local version
  version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || return 1
  [ -n "$version" ] && [ "$(printf '%s\n' "$msrv" "$version" | sort -V | head -n 1)" = "$msrv" ]
}

apt_updated=
apt_install() { # installs the packages named, as root
  local root=
  [ "$(id -u)" = 0 ] || root=sudo
  [ -z "$root" ] || has sudo || fail "install these packages as root: $*"
  if [ -z "$apt_updated" ]; then
    $root apt-get update -q
    apt_updated=1
  fi
  DEBIAN_FRONTEND=noninteractive $root apt-get install -qy --no-install-recommends "$@"
}

apt_offers() { # whether apt knows a version of the package that can be installed
  local policy
  policy=$(apt-cache policy "$1" 2>/dev/null)
  [[ $policy =~ Candidate:\ [0-9] ]]
}

install_rust() {
  has apt-get || fail "install Rust $msrv or newer (https://rustup.rs)"
  apt_install ca-certificates
  if apt_offers rustup; then
    apt_install rustup
    rustup default stable
  elif apt_offers rustc-web; then
    # Debian 12: the compiler kept recent for browsers, beside its old rustc.
    apt_install rustc-web cargo-web rustfmt-web
    if apt_offers rust-web-clippy; then apt_install rust-web-clippy; fi
  fi
  hash -r
  recent || fail "apt has no Rust $msrv; install it from https://rustup.rs and run this again"
}

if [ "${1:-}" != quick ]; then
  # From scratch nearly all of the time goes into compiling, and none of it into what would make the
  # next build faster, or a debugger happier. A failed test still names its line; for more, run it again.
  export CARGO_INCREMENTAL=0
  export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_RELEASE_DEBUG=0
fi
# The tests and those under AddressSanitizer share their dependencies: both name the whole workspace,
# and flags reach our crates through RUSTC_WORKSPACE_WRAPPER.

declare -A running=()
logs=
beside() { # starts a step that goes on in the background, its words in a file: its name, and the command
  local name=$1
  shift
  [ -n "$logs" ] || logs=$(mktemp -d)
  (say "$name" && "$@") >"$logs/$name" 2>&1 &
  running[$name]=$!
}
finish() { # waits for the step of this name, and shows what it said
  local status=0
  say "$1, which began before"
  wait "${running[$1]}" || status=$?
  unset "running[$1]"
  cat "$logs/$1"
  [ "$status" = 0 ] || exit "$status"
}
stop() {
  [ -z "${running[*]}" ] || kill "${running[@]}" 2>/dev/null || true
  [ -z "$logs" ] || rm -rf "$logs"
}
trap stop EXIT

packages() { # the packages for C, C++, Python and Redis, in a folder of their own: cargo holds a lock on that of the tests
  mkdir -p "${CARGO_TARGET_DIR:-target}/packages"
  CARGO_TARGET_DIR=$(cd "${CARGO_TARGET_DIR:-target}/packages" && pwd)
  export CARGO_TARGET_DIR
  local step
  for step in ci/c.sh ci/python.sh ci/module.sh; do
    say "$step"
    # The caller's `set -e` does not reach into here.
    "$step" || return
  done
}

# The module for Redis has all memory from one allocator, which the others must not: ci/module.sh lints and tests it.
crates=(--workspace --exclude fanread-valkey)

say "tools"
recent || install_rust
if ! has cc; then
  has apt-get || fail "install a C compiler: gcc and the C library's headers"
  apt_install gcc libc6-dev
fi
# Table files are compared with RocksDB's own; the tests compile a program against it.
if ! has "${CXX:-c++}"; then
  has apt-get || fail "install a C++ compiler"
  apt_install g++
fi
if ! printf '#include <rocksdb/db.h>\n' | "${CXX:-c++}" -std=c++17 -fsyntax-only -x c++ - 2>/dev/null; then
  has apt-get || fail "install RocksDB 7.8 with its headers (librocksdb-dev)"
  apt_install librocksdb-dev
fi
for component in rustfmt clippy; do
  tool=cargo-${component/rustfmt/fmt}
  if ! has "$tool" || ! "$tool" --version >/dev/null 2>&1; then
    if has rustup; then rustup component add "$component"; fi
  fi
done
cargo --version

if cargo fmt --version >/dev/null 2>&1; then
  say "format"
  cargo fmt --all --check
  # Included by macros, which cargo fmt does not follow.
  rustfmt --check --edition 2024 crates/fanread/tests/suite/*.rs crates/fanread/tests/suite/*/*.rs \
    crates/fanread/tests/maps/*.rs
else
  say "format: left out, there is no rustfmt"
fi

if cargo clippy --version >/dev/null 2>&1; then
  say "lints"
  cargo clippy --locked "${crates[@]}" --all-targets -- -D warnings
else
  say "lints: left out, there is no clippy; the compiler's warnings fail instead"
  RUSTFLAGS="-D warnings" cargo check --locked "${crates[@]}" --all-targets
fi

say "other systems"
if has rustup; then
  for target in aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-pc-windows-gnu; do
    rustup target add "$target"
    RUSTFLAGS="-D warnings" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/others" \
      cargo check --locked -p fanread --target "$target"
  done
else
  echo "left out, there is no rustup"
fi

say "planted faults"
ci/mutants.sh plant

say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --locked "${crates[@]}" --no-deps

if [ "${1:-}" != quick ]; then
  # Compiling the suites, and running test programs one after another, often keeps one processor busy: the models and the
  # packages have the other.
  beside models ci/loom.sh

  if compgen -G "$(rustc --print target-libdir)/librustc-*_rt.asan.a" >/dev/null; then
    say "memory errors, with tiny leaves, which split and merge all the time"
    ci/sanitize.sh
  else
    say "tests with tiny leaves; memory errors left out, this compiler comes without AddressSanitizer"
    RUSTC_WORKSPACE_WRAPPER="$PWD/ci/rustc-small-leaves.sh" \
      cargo test --locked "${crates[@]}" --test suites
  fi
  finish models
  beside packages packages
fi

say "tests"
if [ "${1:-}" != quick ]; then
  # The suites have run with tiny leaves; compiling them once more takes seven minutes. `quick` and ci/prove.sh run them as they are.
  export RUSTC_WORKSPACE_WRAPPER="$PWD/ci/rustc-suites-ran.sh" FANREAD_SEEDS="${FANREAD_SEEDS:-1}"
  cargo test --locked "${crates[@]}" --no-run
  # Of answers, not of time: the program that the tests use will do.
  FANREAD="${CARGO_TARGET_DIR:-target}/debug/fanread" beside "short benchmark" ci/bench-smoke.sh
fi
cargo test --locked "${crates[@]}"

if [ "${1:-}" != quick ]; then
  finish "short benchmark"
  finish packages
fi

say "done"
