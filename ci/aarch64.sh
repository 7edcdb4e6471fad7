#!/usr/bin/env bash
# Compiles the library's tests for Linux on aarch64 and runs them in an emulator: the portable twins of all kernels, another
# compiler back end, and another C library. Of weak memory it says nothing, as an x86-64 processor keeps the order of stores.
# Needs rustup; installs QEMU and a cross linker from Debian's packages. A quarter of an hour on two cores.
#
#   ci/aarch64.sh                     the unit tests, but for those of persistent maps: the emulator keeps memory for each file that was
#                                     ever mapped, and these map thousands
#   ci/aarch64.sh ARGUMENTS           what `cargo test -p fanread` has behind its options: `--lib mlp_index`, `--test suites ::model::`
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v qemu-aarch64-static >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
  command -v apt-get >/dev/null 2>&1 || { echo "ci/aarch64.sh: install QEMU's user emulation and a cross compiler" >&2 && exit 2; }
  root=
  [ "$(id -u)" = 0 ] || root=sudo
  $root apt-get update -q
  DEBIAN_FRONTEND=noninteractive $root apt-get install -qy --no-install-recommends qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross
fi
target=aarch64-unknown-linux-gnu
rustup target add "$target"
[ $# -gt 0 ] || set -- --lib -- --skip persist::cceh::tests
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu" \
  CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/aarch64" \
  cargo test --locked -p fanread --target "$target" "$@"
