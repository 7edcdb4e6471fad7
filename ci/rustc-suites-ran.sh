#!/bin/sh
# The compiler, with `--cfg suites_ran`: `tests/suites.rs` has nothing in it then. As RUSTC_WORKSPACE_WRAPPER it compiles the crates of
# this workspace only, so that their dependencies are those that every other test uses.
exec "$@" --cfg suites_ran
