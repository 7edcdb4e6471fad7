//! Verifies the invariants of a map at rest.

use core::cmp::Ordering;
use core::fmt;
use std::collections::BTreeSet;

use super::key::SkipKey;
use super::layout::{BUILT, DEAD, LEVELS, Newest, Older, PENDING, PRUNING, SWEPT, Stamp};
use super::raw::Node;
use super::{Pinned, SkipList};
use crate::sync::shim::Ordering::Relaxed;

/// The first invariant found broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    invariant: &'static str,
    found: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken: {}", self.invariant, self.found)
    }
}

impl std::error::Error for Broken {}

fn broken(invariant: &'static str, found: impl Into<String>) -> Broken {
    Broken { invariant, found: found.into() }
}

impl<K: SkipKey, V> Pinned<'_, K, V> {
    /// Verifies the structure of the map, which no other thread is writing to.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<(), Broken> {
        let (mut entries, mut pending) = (0, 0);
        let mut of_level: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); LEVELS];
        let mut last: Option<Node<'_, K, V>> = None;
        for node in self.map.level(0) {
            if last.is_some_and(|last| last.key().cmp(node.key()) != Ordering::Less) {
                return Err(broken("S1", "two keys of level 0 do not ascend"));
            }
            last = Some(node);
            if K::KEEPS_PREFIX && node.prefix() != node.key().prefix() {
                return Err(broken("S1", "a prefix is not the one of the key"));
            }
            let height = node.state().height();
            for nodes in &mut of_level[..height] {
                nodes.insert(node.unit().get());
            }
            self.check_node(node)?;
            entries += usize::from(self.map.value(node).is_some());
            pending += usize::from(node.state().has(PENDING));
        }
        for (level, expected) in of_level.iter().enumerate() {
            let mut found = BTreeSet::new();
            let mut last: Option<Node<'_, K, V>> = None;
            for node in self.map.level(level) {
                if last.is_some_and(|last| last.key().cmp(node.key()) != Ordering::Less) {
                    return Err(broken("S1", format!("two keys of level {level} do not ascend")));
                }
                last = Some(node);
                found.insert(node.unit().get());
            }
            if found != *expected {
                let (found, expected) = (found.len(), expected.len());
                return Err(broken(
                    "S2",
                    format!("{found} nodes on level {level}, not {expected}"),
                ));
            }
            if level >= self.map.levels() && !found.is_empty() {
                return Err(broken("S3", format!("level {level} is not in use")));
            }
        }
        if entries != self.len() {
            return Err(broken("S4", format!("{entries} entries, {} counted", self.len())));
        }
        if pending > 0 && self.map.held(self).is_empty() {
            return Err(broken("V5", format!("{pending} nodes wait for no snapshot")));
        }
        Ok(())
    }

    /// Checks the state and the chain of a node.
    fn check_node(&self, node: Node<'_, K, V>) -> Result<(), Broken> {
        let state = node.state();
        if !state.has(BUILT) || state.has(PRUNING | DEAD | SWEPT) {
            return Err(broken("S5", format!("a node at rest has state {state:?}")));
        }
        let held = self.map.held(self);
        let mut before = Stamp::MAX;
        let mut unit = match state.newest() {
            Newest::Inline(stamp) | Newest::InlineGone(stamp) if stamp == 0 => {
                return Err(broken("V1", "a stamp is not decided"));
            }
            Newest::Inline(_) => return Ok(()),
            Newest::InlineGone(ended) => {
                return self.check_gone(ended);
            }
            Newest::Chain(unit) | Newest::ChainGone(unit) => unit,
        };
        loop {
            let version = self.map.memory.version(unit);
            // Relaxed: nobody writes.
            let began = version.begin().load(Relaxed);
            if began == 0 || began > before {
                return Err(broken("V1", format!("{began} comes after {before}")));
            }
            if before != Stamp::MAX && held.is_empty() {
                return Err(broken("V3", "a version that nobody needs"));
            }
            before = began;
            unit = match version.older() {
                Older::Nothing => return Ok(()),
                Older::Inline if held.is_empty() => {
                    return Err(broken("V3", "a first version that nobody needs"));
                }
                Older::Inline => return Ok(()),
                Older::Version(unit) => unit,
            };
        }
    }

    /// Checks that a key that was removed is there for a snapshot.
    fn check_gone(&self, ended: Stamp) -> Result<(), Broken> {
        if self.map.held(self).first().is_some_and(|oldest| *oldest < ended) {
            return Ok(());
        }
        Err(broken("V3", "a node that nobody needs"))
    }
}

impl<K: SkipKey, V> SkipList<K, V> {
    /// The nodes of a level.
    pub(super) fn level(&self, level: usize) -> impl Iterator<Item = Node<'_, K, V>> {
        let mut next = self.head().at(level).load();
        core::iter::from_fn(move || {
            let node = self.memory.node(next.unit()?);
            next = node.tower().at(level).load();
            Some(node)
        })
    }
}
