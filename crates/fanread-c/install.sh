#!/usr/bin/env bash
# Builds the library and installs it for programs in C and C++: lib/libfanread.so with its versioned name, lib/libfanread.a,
# include/fanread.h and, for C++, fanread.hpp and fanread_calls.hpp; lib/pkgconfig/fanread.pc.
#
#   crates/fanread-c/install.sh PREFIX       such as /usr/local; DESTDIR is put in front, as in other build systems
#
# PROFILE=dev builds without optimisation, which is what the tests take. FLAGS go to cargo.
set -euo pipefail
prefix=${1:?usage: install.sh PREFIX}
case $prefix in /*) ;; *) echo "install.sh: PREFIX must begin with a slash" >&2 && exit 2 ;; esac
cd "$(dirname "$0")"

profile=${PROFILE:-release}
# shellcheck disable=SC2086 # several flags
built=$(cargo build --locked -p fanread-c --lib --profile "$profile" ${FLAGS:-} --message-format=json |
  sed -n 's/.*"filenames":\["\([^"]*\)libfanread_c\.[a-z]*".*/\1/p' | tail -n 1)
[ -n "$built" ] || { echo "install.sh: cargo has built no library" >&2 && exit 1; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' ../../Cargo.toml | head -n 1)
# As in build.rs: below 1.0 each minor version may change functions.
case $version in 0.*) soname=${version%.*} ;; *) soname=${version%%.*} ;; esac

to=${DESTDIR:-}$prefix
mkdir -p "$to/lib/pkgconfig" "$to/include"
install -m 644 include/fanread.h include/fanread.hpp include/fanread_calls.hpp "$to/include"
install -m 644 "${built}libfanread_c.a" "$to/lib/libfanread.a"
install -m 755 "${built}libfanread_c.so" "$to/lib/libfanread.so.$version"
ln -sf "libfanread.so.$version" "$to/lib/libfanread.so.$soname"
ln -sf "libfanread.so.$soname" "$to/lib/libfanread.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" fanread.pc.in >"$to/lib/pkgconfig/fanread.pc"
