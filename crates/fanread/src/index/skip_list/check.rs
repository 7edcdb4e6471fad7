//! Verifies the invariants of a map at rest.

use core::cmp::Ordering;

use super::key::SkipKey;
use super::layout::{
    BUILT, DEAD, LEVELS, Link, Newest, Older, PENDING, PRUNING, SWEPT, Stamp, Window,
};
use super::raw::Node;
use super::{Pinned, SkipList};
use crate::api::Broken;
use crate::sync::shim::Ordering::Relaxed;

impl<K: SkipKey, V> Pinned<'_, K, V> {
    /// Verifies the structure of the map, which no other thread is writing to.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<(), Broken> {
        let (mut entries, mut pending) = (0, 0);
        // Where each level goes on; its nodes are those of level 0 that are high enough.
        let mut next: [Link; LEVELS] =
            core::array::from_fn(|level| self.map.head().at(level).load());
        let mut last: Option<Node<'_, K, V>> = None;
        for node in self.map.level(0) {
            if last.is_some_and(|last| last.key().cmp(node.key()) != Ordering::Less) {
                return Err(Broken::new("S1", "two keys of level 0 do not ascend"));
            }
            last = Some(node);
            let window = Window::new(node.window().from(), |from| node.key().word(from));
            if K::KEEPS_PREFIX && node.window() != window {
                return Err(Broken::new("S1", "a window shows another key"));
            }
            for (level, next) in next.iter_mut().enumerate().take(node.state().height()) {
                if next.unit() != Some(node.unit()) {
                    return Err(Broken::new("S2", format!("a node is not on its level {level}")));
                }
                if level >= self.map.levels() {
                    return Err(Broken::new("S3", format!("level {level} is not in use")));
                }
                *next = node.tower().at(level).load();
            }
            self.check_node(node)?;
            entries += usize::from(self.map.value(node).is_some());
            pending += usize::from(node.state().has(PENDING));
        }
        if let Some(level) = next.iter().position(|next| *next != Link::END) {
            return Err(Broken::new("S2", format!("level {level} goes on behind the last key")));
        }
        if entries != self.len() {
            return Err(Broken::new("S4", format!("{entries} entries, {} counted", self.len())));
        }
        if pending > 0 && self.map.held(self).is_empty() {
            return Err(Broken::new("V5", format!("{pending} nodes wait for no snapshot")));
        }
        Ok(())
    }

    /// Checks the state and the chain of a node.
    fn check_node(&self, node: Node<'_, K, V>) -> Result<(), Broken> {
        let state = node.state();
        if !state.has(BUILT) || state.has(PRUNING | DEAD | SWEPT) || state.off() > 0 {
            return Err(Broken::new("S5", format!("a node at rest has state {state:?}")));
        }
        let held = self.map.held(self);
        let mut before = Stamp::MAX;
        let mut unit = match state.newest() {
            Newest::Inline(stamp) | Newest::InlineGone(stamp) if stamp == 0 => {
                return Err(Broken::new("V1", "a stamp is not decided"));
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
                return Err(Broken::new("V1", format!("{began} comes after {before}")));
            }
            if before != Stamp::MAX && held.is_empty() {
                return Err(Broken::new("V3", "a version that nobody needs"));
            }
            before = began;
            unit = match version.older() {
                Older::Inline if held.is_empty() => {
                    return Err(Broken::new("V3", "a first version that nobody needs"));
                }
                Older::Nothing | Older::Inline => return Ok(()),
                Older::Version(unit) => unit,
            };
        }
    }

    /// Checks that a key that was removed is there for a snapshot.
    fn check_gone(&self, ended: Stamp) -> Result<(), Broken> {
        if self.map.held(self).first().is_some_and(|oldest| *oldest < ended) {
            return Ok(());
        }
        Err(Broken::new("V3", "a node that nobody needs"))
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
