#!/bin/sh
# The compiler, with AddressSanitizer and tiny leaves (`--cfg small_leaves`). As RUSTC_WORKSPACE_WRAPPER it compiles the crates of this
# workspace only, so that their dependencies are those that every other test uses: what they do in
# code that is compiled into ours is seen, and so is whatever they allocate and free.
#
# The sanitizer comes with every compiler, but its option is still called unstable.
RUSTC_BOOTSTRAP=1 exec "$@" --cfg small_leaves -Zsanitizer=address
