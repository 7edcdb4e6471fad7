#!/bin/sh
# The compiler, with `--cfg small_leaves`. As RUSTC_WORKSPACE_WRAPPER it compiles the crates of this
# workspace only, so that their dependencies are those that every other test uses.
exec "$@" --cfg small_leaves
