//! Filling a table that nobody else has seen.
//!
//! A table that is made of another one is filled at once, in the order of the old one's buckets, which is that of the new ones where
//! names stay what they were. While it is filled, how many nodes a bucket has is known from a byte for each, which stay in L1:
//! so no bucket is read before it is written, none has a version, and no node changes its slot.
//!
//! ```text
//! bytes     wide 5 bits | others 3 bits                   of each bucket
//! slots     wide: 0, 1, 2     others: 2, 3, 1, 4, 0, as they come (T8)
//! ```
//!
//! 1. All nodes go to the first bucket of their state; those that have no room there wait.
//! 2. These go to their second buckets, and are marked as away (T12).
//! 3. For what is left others have to move: it is placed as in a table that is in use (`place.rs`).
//!
//! # Cost
//!
//! A node is some 30 instructions. Nodes in their first bucket come in the order of the buckets, if those of the old table do.
//!
//! PAPER: not there.

#![allow(
    clippy::missing_errors_doc,
    reason = "inside, errors are that a node has no room, or that there is no memory"
)]

use super::layout::{Form, Head, Home, Kind, NoRoom, SLOTS};
use super::place::{place_at, place_other};
use super::raw::Trie;
use super::state::State;
use crate::mem::{AllocError, make_room};

/// A table that is being filled.
#[derive(Debug)]
pub(super) struct Draft<'g> {
    trie: Trie<'g>,
    /// Nodes in each bucket.
    crowds: Vec<u8>,
    /// Nodes whose first bucket was full.
    late: Vec<(State, Form)>,
    /// Nodes that may have the state of another.
    unsure: Vec<(State, Form)>,
}

/// A byte of so many wide nodes and others.
const WIDE: u8 = 1 << 3;
const OTHER: u8 = 1;

/// Of the bytes that a bucket can have, those that have room for a wide node more, a bit for each; and for another node.
const ROOM_FOR_WIDE: u32 = with_room(1, 0);
const ROOM_FOR_OTHER: u32 = with_room(0, 1);

const fn with_room(more_wides: u32, more_others: u32) -> u32 {
    let (mut rooms, mut crowd) = (0, 0);
    while crowd < u32::BITS {
        let wides = crowd / WIDE as u32 + more_wides;
        let others = crowd % WIDE as u32 + more_others;
        // Three wide nodes, or five nodes of which wide ones count twice.
        if 2 * wides + others <= SLOTS as u32 || wides == 3 && others == 0 {
            rooms |= 1 << crowd;
        }
        crowd += 1;
    }
    rooms
}

impl<'g> Draft<'g> {
    /// Begins to fill a trie that has no nodes. For so many, or some more.
    pub(super) fn new(trie: Trie<'g>, nodes: usize) -> Result<Self, AllocError> {
        let (buckets, mut crowds, mut late) = (trie.buckets() as usize, Vec::new(), Vec::new());
        make_room(&mut crowds, buckets)?;
        crowds.resize(buckets, 0);
        make_room(&mut late, nodes / 4)?;
        Ok(Self { trie, crowds, late, unsure: Vec::new() })
    }

    /// The trie.
    pub(super) fn trie(&self) -> Trie<'g> {
        self.trie
    }

    /// Adds a wide node whose state is another than those of all other nodes.
    #[inline(always)]
    pub(super) fn add_wide(&mut self, state: State, kind: Kind, body: u64, second: u64) {
        let (first, name) = self.first(state);
        if !self.put_wide(first, Head::new(name, kind), body, second) {
            self.late.push((state, Form { kind, body, second: Some(second) }));
        }
    }

    /// Adds another node, whose state is another than those of all others.
    #[inline(always)]
    pub(super) fn add_other(&mut self, state: State, kind: Kind, body: u64) {
        let (first, name) = self.first(state);
        if !self.put_other(first, Head::new(name, kind), body) {
            self.late.push((state, Form { kind, body, second: None }));
        }
    }

    /// The first bucket of a state, and the name there.
    #[inline(always)]
    fn first(&self, state: State) -> (u32, u32) {
        let Home { first, tag, .. } = self.trie.home(state);
        (first, Head::first(tag))
    }

    /// Adds a short leaf that may have the state of another node.
    pub(super) fn add_unsure(&mut self, state: State, key: u64, value: u64) {
        self.unsure.push((state, Form { kind: Kind::Short, body: key, second: Some(value) }));
    }

    /// Puts a wide node into a bucket, if there is room.
    #[inline(always)]
    fn put_wide(&mut self, number: u32, head: Head, body: u64, second: u64) -> bool {
        let crowd = &mut self.crowds[number as usize];
        let has_room = ROOM_FOR_WIDE >> (*crowd % 32) & 1 != 0;
        if has_room {
            self.trie.bucket(number).draw_wide((*crowd / WIDE).into(), head, body, second);
            *crowd += WIDE;
        }
        has_room
    }

    /// Puts another node into a bucket, if there is room.
    #[inline(always)]
    fn put_other(&mut self, number: u32, head: Head, body: u64) -> bool {
        let crowd = &mut self.crowds[number as usize];
        let has_room = ROOM_FOR_OTHER >> (*crowd % 32) & 1 != 0;
        if has_room {
            self.trie.bucket(number).draw_other((*crowd % WIDE).into(), head, body);
            *crowd += OTHER;
        }
        has_room
    }

    /// Places the nodes that wait.
    ///
    /// # Errors
    ///
    /// [`NoRoom::Full`] if the table is too small, [`NoRoom::Collision`] if two nodes have one state.
    pub(super) fn finish(mut self) -> Result<(), NoRoom> {
        let trie = self.trie;
        let mut left = Vec::new();
        for (state, form) in core::mem::take(&mut self.late) {
            let home = trie.home(state);
            let head = Head::new(Head::second(home.tag), form.kind);
            let has_room = match form.second {
                Some(second) => self.put_wide(home.second, head, form.body, second),
                None => self.put_other(home.second, head, form.body),
            };
            if has_room {
                trie.mark_away(home);
            } else {
                left.push((home, form));
            }
        }
        if left.is_empty() && self.unsure.is_empty() {
            return Ok(());
        }
        left.into_iter().try_for_each(|(home, form)| place_other(trie, home, form))?;
        let mut unsure = self.unsure.into_iter();
        unsure.try_for_each(|(state, form)| place_at(trie, trie.home(state), form))?;
        trie.start();
        Ok(())
    }
}
