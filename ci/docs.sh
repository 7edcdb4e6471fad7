#!/usr/bin/env bash
# Builds the site of docs/ into target/book, and installs mdbook first if it is missing: some three minutes, once.
#
# That all pages are linked is a test (tests/pages.rs), and so is all Rust on them; what is shown of C and C++ is included from
# programs that ci/c.sh runs, Python is run by ci/python.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.5.4
if ! command -v mdbook >/dev/null && [ ! -x target/tools/bin/mdbook ]; then
  cargo install --locked --root target/tools --no-default-features --features search "mdbook@$version"
fi
PATH="$PWD/target/tools/bin:$PATH"
mdbook build docs
