//! Searches for keys of eight bytes, as numbers have, in a table whose anchors are all shorter.
//!
//! Such a key is one word and has no landmark, so a search is the hashes of its first bytes and one round of probes. What is
//! the same for all keys is looked up once for as many of them as are searched for together.
//!
//! A table that grows meanwhile is left for the new one by the next who asks; what the old one says is as good a guess as what
//! it said before (P5), and tables live as long as the guard (M4).

use super::layout::{Head, Line, id_low, is_marked, ref_of};
use super::raw::Table;
use super::search::{Last, Route, in_narrow, in_wide, len_in};
use super::{LeafRef, PrefixTable};
use crate::arch::{Lanes, prefetch};
use crate::hash::prefix::{Behind, PrefixHashes};
use crate::sync::epoch::Guard;
use crate::sync::shim::{Ordering::Acquire, fence};

/// A table for keys of eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eights<'g, K> {
    kernel: K,
    table: &'g Table,
    /// What is hashed before a key's first byte.
    empty: Behind<'g>,
    rests: u32,
}

/// A node that was asked for and not looked at yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EightProbe<'g> {
    node: &'g Line,
    /// What the node has to show.
    id: u32,
    /// Bits of its prefix.
    len_bits: u32,
}

/// What a node says of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opened {
    /// The number of its ref, which was asked for.
    Wide(usize),
    /// The refs themselves.
    Narrow(u32, u32),
}

impl PrefixTable {
    /// The table as it is now; `None` if there is none, or some anchor is as long as a key.
    #[inline(always)]
    pub(crate) fn eights<'g, K: Lanes>(
        &'g self,
        kernel: K,
        guard: &'g Guard,
    ) -> Option<Eights<'g, K>> {
        let table = self.current.get(guard)?;
        let (_, landmarks) = table.limits();
        let hashes = PrefixHashes::new(&self.seed, &[]);
        let empty = hashes.behind(0, hashes.start());
        (landmarks == 0).then(|| Eights { kernel, table, empty, rests: table.rests() })
    }
}

impl<'g, K: Lanes> Eights<'g, K> {
    /// Finds the deepest stored prefix of a key, the first byte of which is the lowest of `word`, and asks for its node. `None`
    /// if it takes the search for keys of all lengths.
    ///
    /// # Cost
    ///
    /// Up to seven lines of tags, in one wait.
    #[inline(always)]
    pub(crate) fn probe(&self, word: u64) -> Option<EightProbe<'g>> {
        let mut last = Last::new(self.kernel, self.table);
        last.try_lengths(self.rests, self.empty.with(word));
        let Last { hash, found, marks, .. } = last;
        let node = self.table.node(hash, found as u32);
        prefetch(node);
        let probe = EightProbe { node, id: id_low(hash), len_bits: 8 * len_in(found) };
        (!is_marked(marks)).then_some(probe)
    }

    /// Reads the node of a key and asks for the ref that follows, if that is elsewhere. `None` as in `probe`.
    #[inline(always)]
    pub(crate) fn open(&self, word: u64, probe: EightProbe<'g>) -> Option<Opened> {
        let head = Head::of(probe.node);
        if head.id_low() != probe.id {
            return None;
        }
        // All prefixes are shorter than the key: there are no landmarks.
        let byte = word.wrapping_shr(probe.len_bits) as u8;
        if head.is_wide() {
            let at = ref_of(probe.node.word(0), byte);
            prefetch(self.table.blocks().as_ptr().wrapping_add(at));
            return Some(Opened::Wide(at));
        }
        let (first, second) = in_narrow(probe.node, head, byte);
        Some(Opened::Narrow(first, second))
    }

    /// Returns the leaves that may hold the key of that node. `None` as in `probe`.
    #[inline(always)]
    pub(crate) fn route(&self, opened: Opened) -> Option<Route> {
        let (first, second) = match opened {
            Opened::Wide(at) => in_wide(self.table, at),
            Opened::Narrow(first, second) => (first, second),
        };
        // ORDER: Acquire fence, pairs with the Release fences of the writer: a leaf that was found is complete.
        fence(Acquire);
        Some(Route { first: LeafRef::of(first)?, second: LeafRef::of(second) })
    }
}
