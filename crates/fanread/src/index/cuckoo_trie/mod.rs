//! An ordered map on byte strings: a forest of small tries, each in a cuckoo hash table of its own.
//!
//! How it works, its invariants and its budget of line fetches are in `docs/design/cuckoo-trie.md`.

#![allow(dead_code, reason = "under construction")]
#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]

mod bucket;
mod build;
mod check;
mod descend;
mod edit;
mod layout;
mod place;
mod raw;
mod state;
mod walk;

#[cfg(test)]
mod trie_tests;
