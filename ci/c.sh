#!/usr/bin/env bash
# Checks the library for C and C++: the header, the border, the tests of both languages with the address
# and the undefined behaviour sanitizer, the examples, and the plugins for the harness. Two minutes of a processor from scratch, one after that.
#
#   ci/c.sh             installs GoogleTest where it is missing
#   ci/c.sh HARNESS     also runs that harness (its lab_bench) over the plugins of all maps; KEYS=1M for more keys
set -euo pipefail
cd "$(dirname "$0")/.."
harness=${1:-}

if ! printf '#include <gtest/gtest.h>\n' | "${CXX:-c++}" -std=c++17 -fsyntax-only -x c++ - 2>/dev/null ||
  ! command -v pkg-config >/dev/null 2>&1; then
  command -v apt-get >/dev/null 2>&1 || { echo "ci/c.sh: install GoogleTest and pkg-config" >&2 && exit 2; }
  root=
  [ "$(id -u)" = 0 ] || root=sudo
  $root apt-get update -q
  DEBIAN_FRONTEND=noninteractive $root apt-get install -qy --no-install-recommends libgtest-dev pkg-config
fi

# Debug builds: what is compiled here is mostly twelve maps, which takes a seventh of the time without optimisation.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
cargo test --locked --profile dev -p fanread-c --features checks

to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
FLAGS="--features checks" PROFILE=dev crates/fanread-c/install.sh "$to"
export PKG_CONFIG_PATH="$to/lib/pkgconfig" LD_LIBRARY_PATH="$to/lib"
read -ra fanread <<<"$(pkg-config --cflags --libs fanread)"
warnings=(-Wall -Wextra -pedantic -Werror)
sanitized=(-g1 -fsanitize=address,undefined -fno-sanitize-recover=all)
c=("${CC:-cc}" -std=c99 "${warnings[@]}")
cpp=("${CXX:-c++}" "${warnings[@]}")

# What the library exports is what the header declares, and its name is that of its version.
nm -D --defined-only "$to/lib/libfanread.so" | awk '/ T fanread_/ { print $3 }' | sort >"$to/exported"
sed -n 's/^\(fanread_status \|const char \*\)\(fanread_[a-z0-9_]*\)(.*/\2/p' "$to/include/fanread.h" | sort >"$to/declared"
diff "$to/exported" "$to/declared"
soname=$(objdump -p "$to/lib/libfanread.so" | awk '/SONAME/ { print $2 }')
version=$(sed -n '0,/^version = /s/^version = "\(.*\)"/\1/p' Cargo.toml)
case $version in 0.*) [ "$soname" = "libfanread.so.${version%.*}" ] ;; *) [ "$soname" = "libfanread.so.${version%%.*}" ] ;; esac

# Each header alone, in each language that takes it.
echo '#include <fanread.h>' | "${c[@]}" -fsyntax-only -x c - "${fanread[@]}"
for standard in 17 20; do
  for header in fanread.h fanread.hpp; do
    echo "#include <$header>" | "${cpp[@]}" "-std=c++$standard" -fsyntax-only -x c++ - "${fanread[@]}"
  done
done

run() ( # runs a program in the folder of the build
  cd "$to"
  "$@"
)

# Compilers take a processor each, two at a time.
"${cpp[@]}" -std=c++17 "${sanitized[@]}" crates/fanread-c/tests/cpp/wrapper.cpp "${fanread[@]}" \
  -lgtest -lgtest_main -pthread -o "$to/wrapper" &
wrapper=$!
for test in crates/fanread-c/tests/c/*.c; do
  name=$(basename "$test" .c)
  "${c[@]}" "${sanitized[@]}" "$test" "${fanread[@]}" -pthread -o "$to/$name"
  run "./$name"
done
wait "$wrapper"
"${cpp[@]}" -std=c++20 crates/fanread-c/tests/cpp/wrapper.cpp "${fanread[@]}" -fsyntax-only &
syntax=$!
run ./wrapper --gtest_brief=1
wait "$syntax"

# Examples, as their first lines say, and once against the static library.
"${c[@]}" "${sanitized[@]}" examples/c/words.c "${fanread[@]}" -o "$to/words"
printf 'One two, two three: three THREE. Thirty!' | run ./words th >"$to/said"
diff "$to/said" - <<<"     1 thirty
     3 three"
read -ra static <<<"$(pkg-config --static --libs-only-l fanread)"
"${c[@]}" examples/c/words.c -I"$to/include" "$to/lib/libfanread.a" "${static[@]:1}" -o "$to/words-static"
printf 'One two, two' | run ./words-static | diff - <(printf '     1 one\n     2 two\n')
"${cpp[@]}" -std=c++17 "${sanitized[@]}" examples/cpp/trades.cpp "${fanread[@]}" -o "$to/trades"
run ./trades | tee "$to/said"
grep -q '^100001 trades, u64-map$' "$to/said"

# Plugins: a small driver compares every answer with a sorted array, and the harness does if there is one.
"${c[@]}" -D_DEFAULT_SOURCE "${sanitized[@]}" examples/c/harness_driver.c -ldl -pthread -o "$to/driver"
for kind in ordered-map u64-map wormhole cuckoo-trie mlp-index skip-list; do
  numbers=0
  case $kind in u64-map | mlp-index) numbers=1 ;; esac
  "${c[@]}" -O2 -fPIC -shared "-DKIND=\"$kind\"" -DNUMBERS=$numbers examples/c/harness_plugin.c \
    "${fanread[@]}" -o "$to/$kind.so"
  run ./driver "./$kind.so"
  [ -n "$harness" ] || continue
  sets="rand-8 seq-8 osm mlp-A mlp-B"
  [ $numbers = 1 ] || sets="$sets rand-16 az reddit url long-prefix"
  for set in $sets; do
    for threads in 1 2; do
      "$harness" --index "$to/$kind.so" --dataset "$set" --keys "${KEYS:-100k}" --ops "${KEYS:-100k}" \
        --threads $threads --repeat 1 \
        --work load,get-dep,get-ind,get-miss,lower-bound,get-batch,scan100,A,B,C,D,E,F,remove
    done
  done
done
echo "ci/c.sh: all is well"
