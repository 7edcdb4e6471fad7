//! Zeroed blocks of memory: small ones from the allocator, large ones as pages of 2 MB where granted. With the feature
//! `global-alloc` all are from the allocator.
//!
//! | a block of | is | what of it is in memory |
//! | --- | --- | --- |
//! | less than 128 KB | from the allocator | all |
//! | less than 4 MB | from the allocator, which is not asked for an alignment | 4 KB where something was touched |
//! | 4 MB or more | mapped | 2 MB where something was touched |
//!
//! An allocator that is asked for zeroed memory of some alignment mostly takes any and writes zeros to all of it; without one it knows
//! whether the kernel has cleared the memory, and touches none. (Where all is from the allocator, which may count what it hands out,
//! blocks are as large as they have to be.) A block that is used in part and lies on pages of 2 MB has up to one of them for nothing: of
//! a map of a hundred thousand entries that would be as much as all of the rest.
//!
//! # Invariants
//!
//! * **G1** A block's bytes are zero when it is handed out, are aligned to a line (to 4 KB if it is at least that large, to
//!   2 MB if it is mapped, and with `global-alloc` never to more than a line), and belong to the block alone until it is dropped.
//! * **G2** Before a block that was taken without an alignment is a word: where what was taken begins.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

use super::arena::PAGE_BYTES;
use super::{AllocError, LINE_BYTES};

/// Size of a huge page on x86-64 and on aarch64 with 4 KB granules.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Whether all blocks are from the allocator.
pub(crate) const FROM_ALLOCATOR: bool = cfg!(feature = "global-alloc");

/// The smallest block of which only what is touched is in memory, if not all are from the allocator.
const LAZY_FROM: usize = 128 << 10;

/// The smallest block that is mapped, likewise.
const MAPPED_FROM: usize = 2 * HUGE_BYTES;

/// Where a block is from.
enum Source {
    Allocator,
    /// The allocator, without an alignment.
    Lazily,
    Mapped,
}

impl Source {
    /// That of a block of so many bytes.
    fn of(bytes: usize) -> Self {
        match bytes {
            _ if FROM_ALLOCATOR => Self::Allocator,
            ..LAZY_FROM => Self::Allocator,
            LAZY_FROM..MAPPED_FROM => Self::Lazily,
            MAPPED_FROM.. => Self::Mapped,
        }
    }
}

/// A block of zeroed memory; see the module.
#[derive(Debug)]
pub(crate) struct Pages {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block is owned memory without thread affinity; what is stored in it is the owner's affair.
unsafe impl Send for Pages {}
// SAFETY: `Pages` itself gives out no references, only its address.
unsafe impl Sync for Pages {}

impl Pages {
    /// Allocates `bytes` zeroed bytes.
    pub(crate) fn zeroed(bytes: usize) -> Result<Self, AllocError> {
        let failed = AllocError { bytes };
        #[cfg(test)]
        if super::failing::fails_now() {
            return Err(failed);
        }
        let base = match Source::of(bytes) {
            Source::Mapped => map_huge(bytes),
            Source::Lazily => take_lazily(bytes, PAGE_BYTES),
            Source::Allocator => Self::layout(bytes).and_then(|layout| {
                // SAFETY: the layout has at least one line.
                NonNull::new(unsafe { alloc_zeroed(layout) })
            }),
        };
        Ok(Self { base: base.ok_or(failed)?, bytes })
    }

    /// How much of a block of so many bytes is in memory if so many of them were touched, from its start.
    pub(crate) fn resident_bytes(bytes: usize, touched: usize) -> usize {
        match Source::of(bytes) {
            Source::Mapped => touched.next_multiple_of(HUGE_BYTES).min(bytes),
            Source::Lazily => touched.next_multiple_of(PAGE_BYTES).min(bytes),
            Source::Allocator => bytes,
        }
    }

    /// The first byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes the block has.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the block as if it were new, for who will use about `wanted` bytes of it after somebody has used `used`: clears
    /// the former, which stay in memory, and gives the rest back. The block is a large one: mapped, where not all are from the
    /// allocator.
    pub(crate) fn renew(&mut self, used: usize, wanted: usize) {
        debug_assert!(FROM_ALLOCATOR || matches!(Source::of(self.bytes), Source::Mapped));
        let used = used.min(self.bytes);
        let kept =
            if FROM_ALLOCATOR { used } else { wanted.next_multiple_of(HUGE_BYTES).min(used) };
        // SAFETY: `kept` bytes of the block are ours alone (G1).
        unsafe { self.base.as_ptr().write_bytes(0, kept) };
        // SAFETY: so are those up to `used`, and `kept` is a multiple of 2 MB if it is less.
        unsafe { forget(self.base.add(kept), used - kept) };
    }

    /// Gives up the block without freeing it; `from_raw` takes it back.
    pub(crate) fn into_raw(self) -> *mut u8 {
        let base = self.base.as_ptr();
        core::mem::forget(self);
        base
    }

    /// Takes back a block.
    ///
    /// # Safety
    ///
    /// `base` came from `into_raw` of a block of `bytes` bytes and is not used elsewhere.
    pub(crate) unsafe fn from_raw(base: NonNull<u8>, bytes: usize) -> Self {
        Self { base, bytes }
    }

    fn layout(bytes: usize) -> Option<Layout> {
        // An allocator that counts memory may count what a higher alignment takes in addition.
        let in_lines = FROM_ALLOCATOR || bytes < PAGE_BYTES;
        let align = if in_lines { LINE_BYTES } else { PAGE_BYTES };
        Layout::from_size_align(bytes.max(LINE_BYTES), align).ok()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        match Source::of(self.bytes) {
            Source::Mapped => unmap(self.base, self.bytes),
            // SAFETY: taken in `zeroed` with this size and alignment.
            Source::Lazily => unsafe { give_back(self.base, self.bytes, PAGE_BYTES) },
            Source::Allocator => {
                if let Some(layout) = Self::layout(self.bytes) {
                    // SAFETY: allocated in `zeroed` with this layout (G1).
                    unsafe { dealloc(self.base.as_ptr(), layout) };
                }
            }
        }
    }
}

/// What is taken of the allocator for a block at a multiple of `align`: as much more.
fn layout_around(bytes: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(align)?, align_of::<*mut u8>()).ok()
}

/// Takes zeroed bytes at a multiple of `align`, of which the allocator touches none if it knows them to be zero.
fn take_lazily(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    let layout = layout_around(bytes, align)?;
    // SAFETY: the layout is not empty.
    let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    let before = align - start.as_ptr().addr() % align;
    // SAFETY: `before` is at most `align`, which was added, and a word at least, as the start is at a multiple of one; so the word
    // before the block is ours (G2).
    unsafe {
        let base = start.add(before);
        base.cast::<NonNull<u8>>().sub(1).write(start);
        Some(base)
    }
}

/// Gives a block back to the allocator.
///
/// # Safety
///
/// It came from `take_lazily` with this size and alignment, and nobody uses it any more.
unsafe fn give_back(base: NonNull<u8>, bytes: usize, align: usize) {
    if let Some(layout) = layout_around(bytes, align) {
        // SAFETY: the word before it says where what was taken begins (G2), and this was its layout.
        unsafe { dealloc(base.cast::<NonNull<u8>>().sub(1).read().as_ptr(), layout) };
    }
}

/// Maps `bytes` at a multiple of 2 MB and asks for huge pages. Pages cost memory when they are first touched.
#[cfg(all(target_os = "linux", not(miri)))]
fn map_huge(bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    let wanted = bytes.checked_next_multiple_of(HUGE_BYTES)?;
    let reserved = wanted.checked_add(HUGE_BYTES)?;
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing of ours.
    let start = unsafe {
        mmap_anonymous(
            core::ptr::null_mut(),
            reserved,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }
    .ok()?
    .cast::<u8>();
    let before = start.align_offset(HUGE_BYTES);
    let behind = reserved - before - wanted;
    // SAFETY: both ends lie inside the mapping just made and are not used.
    unsafe {
        if before > 0 {
            let _ = munmap(start.cast(), before);
        }
        if behind > 0 {
            let _ = munmap(start.add(before + wanted).cast(), behind);
        }
        let base = start.add(before);
        // Refused where the kernel has no huge pages: small ones serve as well, only slower.
        let _ = madvise(base.cast(), wanted, Advice::LinuxHugepage);
        NonNull::new(base)
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn unmap(base: NonNull<u8>, bytes: usize) {
    let wanted = bytes.next_multiple_of(HUGE_BYTES);
    // SAFETY: the block was mapped by `map_huge` with this size and is owned by the caller (G1).
    let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), wanted) };
}

/// Makes bytes zero, and gives back what memory they have.
///
/// # Safety
///
/// They are a part of a block that `map_huge` has mapped, from a multiple of 2 MB on, and of the caller's alone.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn forget(base: NonNull<u8>, bytes: usize) {
    use rustix::mm::{Advice, madvise};

    if bytes > 0 {
        // SAFETY: the caller's own bytes, which are anonymous and private: they are zero when they are touched again.
        let given = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        if given.is_err() {
            // SAFETY: as above.
            unsafe { base.as_ptr().write_bytes(0, bytes) };
        }
    }
}

/// Makes bytes zero.
///
/// # Safety
///
/// They are the caller's alone.
#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe fn forget(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's own bytes.
    unsafe { base.as_ptr().write_bytes(0, bytes) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map_huge(bytes: usize) -> Option<NonNull<u8>> {
    take_lazily(bytes, HUGE_BYTES)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: taken in `map_huge` with this size and alignment, and owned by the caller (G1).
    unsafe { give_back(base, bytes, HUGE_BYTES) };
}

/// How many of this process's bytes lie on huge pages, as the kernel reports it, or `None` where it does not.
pub(crate) fn huge_bytes_granted() -> Option<u64> {
    #[cfg(test)]
    asked::COUNT.set(asked::COUNT.get() + 1);
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let mut kib = 0;
    for line in rollup.lines() {
        let mut fields = line.split_ascii_whitespace();
        if matches!(fields.next(), Some("AnonHugePages:" | "Private_Hugetlb:")) {
            kib += fields.next()?.parse::<u64>().ok()?;
        }
    }
    Some(kib * 1024)
}

#[cfg(test)]
pub(crate) mod asked {
    //! How often this thread has asked the kernel for huge pages.

    use std::cell::Cell;

    thread_local! {
        pub(crate) static COUNT: Cell<u32> = const { Cell::new(0) };
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_zero_and_aligned() {
        for bytes in [64, 100, 4096, LAZY_FROM, HUGE_BYTES, 2 * HUGE_BYTES, 2 * HUGE_BYTES + 4096] {
            let pages = Pages::zeroed(bytes).unwrap();
            assert_eq!(pages.bytes(), bytes);
            let align = match Source::of(bytes) {
                Source::Mapped => HUGE_BYTES,
                Source::Lazily => PAGE_BYTES,
                Source::Allocator => LINE_BYTES,
            };
            assert_eq!(pages.base().as_ptr().addr() % align, 0, "{bytes}");
            // SAFETY: the block has `bytes` initialised bytes and nobody else uses it.
            let all = unsafe { core::slice::from_raw_parts(pages.base().as_ptr(), bytes) };
            assert!(all.iter().all(|byte| *byte == 0), "{bytes}");
        }
    }

    #[test]
    fn a_renewed_block_is_zero_wherever_it_was_used() {
        let mut pages = Pages::zeroed(3 * HUGE_BYTES).unwrap();
        for (used, wanted) in [(5, 1), (3, 2), (2, 5), (6, 1), (1, 6), (6, 6)] {
            let (used, wanted) = (used * HUGE_BYTES / 2, wanted * HUGE_BYTES / 2);
            // SAFETY: the block has so many bytes and nobody else uses it.
            unsafe { pages.base().as_ptr().write_bytes(7, used) };
            pages.renew(used, wanted);
            // SAFETY: as above; all are initialised.
            let all = unsafe { core::slice::from_raw_parts(pages.base().as_ptr(), pages.bytes()) };
            assert!(all.iter().all(|byte| *byte == 0), "{used} {wanted}");
        }
    }

    #[test]
    fn a_block_larger_than_the_machine_is_refused() {
        let bytes = usize::MAX / 2;
        assert_eq!(Pages::zeroed(bytes).unwrap_err(), AllocError { bytes });
    }
}
