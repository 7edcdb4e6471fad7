//! A hash directory: buckets of one line, in segments that grow one by one.
//!
//! What a bucket keeps, and how an entry is told from another, is the map's affair ([`Bucket`]); here is what all have in
//! common. Hashes of 64 bits name a *segment* by their top bits and a bucket in it, their *home*, by the bits behind. An entry is
//! in the first bucket that had a free slot from its home on, at most `window - 1` buckets further; behind the last bucket comes the
//! first. **Entries never move inside a segment.** So a reader who goes along the buckets up to one with a free slot needs no
//! version to say that a key is absent.
//!
//! # Threads
//!
//! Readers take no lock. A writer locks the regions of buckets it looks at. A segment that is to grow, shrink or split is
//! *frozen*: marked, and each of its locks taken and given back once. Then nobody writes to it, and it is copied into one or two
//! new ones, which are named in its place, and opened to writers when all names lead to them. Its readers go on: either they came
//! before that, or they find the successor. A writer who comes to it copies another one that will be full soon, and waits only if there
//! is none (`resize.rs`); for that a map has at least four segments for each thread that may run, unless it is small.
//!
//! # Invariants
//!
//! * **B1** The entry of a hash is in one of the `window` buckets from its home on, once, and no bucket before it, from its home
//!   on, has a slot that was never taken. Each of these was told that it was passed (`Bucket::pass`) before the entry came.
//! * **S1** Buckets change only under the locks of all regions of the hash's window, in a segment that is live. A segment that
//!   was replaced is never live again and does not change. One that is new is live when no name leads to the old one any more.
//! * **S2** The names are of one segment for each value of a hash's top bits, 2^k neighbouring ones the same if its bits are k less.
//! * **S3** `counts` of a segment at rest are the numbers of entries, and of slots whose entries were removed and that readers must go
//!   past, in those of its buckets that are counted: all, or in a large segment one of sixteen.

#![allow(clippy::inline_always, reason = "steps of a few instructions on the path of every lookup")]
#![allow(clippy::missing_errors_doc, reason = "inside, the error is that there is no memory")]

mod layout;
mod names;
mod raw;
mod resize;
mod segment;

use crate::mem::{self, AllocError, LINE_BYTES};
use crate::sync::epoch::Guard;
use crate::sync::lock::Lock;
use crate::sync::shared::{Owned, Retired, Shared};

pub(crate) use layout::{BLOCK_BUCKETS, Geometry, Spelling};
pub(crate) use names::Names;
use raw::Blocks;
pub(crate) use raw::Bucket;
pub(crate) use resize::Entries;
pub(crate) use segment::{Again, Held, Place, Segment, Slot};

/// Segments of buckets, and who they are named by; see the module.
#[derive(Debug)]
pub(crate) struct Directory<B: Bucket> {
    names: Shared<Names<B>>,
    blocks: Blocks<B>,
    /// Held by who changes names.
    structure: Lock<()>,
    /// For how many entries the first segments have room.
    expected: usize,
}

/// What a directory no longer uses.
#[derive(Debug)]
#[must_use = "readers may still be there: put it into the limbo"]
pub(crate) enum Garbage<B: Bucket> {
    Segment(Retired<Segment<B>>),
    Names(#[expect(dead_code, reason = "kept to be dropped")] Retired<Names<B>>),
}

impl<B: Bucket> Directory<B> {
    /// Makes an empty directory, which allocates nothing before its first entry, and then room for so many.
    pub(crate) const fn new(expected: usize) -> Self {
        let structure = Lock::new(());
        Self { names: Shared::none(), blocks: Blocks::new(), structure, expected }
    }

    /// The names of all segments; `None` in a map that never had an entry.
    #[inline(always)]
    pub(crate) fn names<'g>(&self, guard: &'g Guard) -> Option<&'g Names<B>> {
        self.names.get(guard)
    }

    /// The segment of a hash; `None` in a map that never had an entry.
    #[inline(always)]
    pub(crate) fn segment<'g>(&self, hash: u64, guard: &'g Guard) -> Option<&'g Segment<B>> {
        Some(self.names.get(guard)?.segment(hash, guard))
    }

    /// Bytes of everything, and of those the ones of slots, taken or not.
    pub(crate) fn bytes(&self, guard: &Guard) -> (usize, usize) {
        let Some(names) = self.names.get(guard) else { return (0, 0) };
        let (mut own, mut slots) = (names.bytes() + self.blocks.bytes(), 0);
        for segment in names.all(guard) {
            own += segment.own_bytes();
            slots += segment.buckets() * size_of::<B>();
        }
        (own, slots)
    }

    /// Bytes of blocks that no segment has, of those that [`bytes`](Self::bytes) counts.
    pub(crate) fn idle_bytes(&self, guard: &Guard) -> usize {
        let Some(names) = self.names.get(guard) else { return 0 };
        let taken: usize = names.all(guard).map(Segment::block_bytes).sum();
        // Below zero if segments were copied meanwhile.
        self.blocks.bytes().saturating_sub(taken)
    }

    /// Takes a piece of garbage back that nobody reads any more.
    pub(crate) fn free(&self, mut garbage: Garbage<B>) {
        if let Garbage::Segment(segment) = &mut garbage {
            segment.get_mut().give_back(&self.blocks);
        }
    }

    /// Takes everything out of a directory that nobody uses any more, and hands each segment to `each` before.
    pub(crate) fn take(&self, guard: &Guard, mut each: impl FnMut(&Segment<B>)) -> Vec<Garbage<B>> {
        let mut all = Vec::new();
        if let Some(names) = self.names.get(guard) {
            for place in names.places() {
                each(place.get(guard).expect("S2"));
                all.extend(place.retire().map(Garbage::Segment));
            }
            all.extend(self.names.retire().map(Garbage::Names));
        }
        all
    }

    /// Makes the first segments of a map that has none, unless somebody else just did.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(crate) fn make_first(&self, guard: &Guard) -> Result<(), AllocError> {
        // Held meanwhile: no other thread has anything to do before there are segments.
        let _held = self.structure.lock();
        if self.names.get(guard).is_none() {
            let sizes = || Names::<B>::parts(self.expected);
            let bytes = sizes().map(|size| size.buckets() * LINE_BYTES);
            mem::may_have(bytes.fold(0, usize::saturating_add))?;
            let segments = self.segments(sizes())?;
            segments.iter().for_each(Segment::thaw);
            self.names.point_to(&Shared::new(Owned::new(Names::of(segments))));
        }
        Ok(())
    }

    /// Makes empty segments, all or none.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    fn segments(
        &self,
        sizes: impl Iterator<Item = Geometry>,
    ) -> Result<Vec<Segment<B>>, AllocError> {
        let mut made = Vec::new();
        for size in sizes {
            match Segment::new(&self.blocks, size) {
                Ok(segment) => made.push(segment),
                Err(error) => {
                    self.discard(made);
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Gives segments back that nobody else has seen.
    fn discard(&self, segments: Vec<Segment<B>>) {
        for mut segment in segments {
            segment.give_back(&self.blocks);
        }
    }
}
