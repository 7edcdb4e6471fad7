//! A short list of words on the stack, which costs nothing to set up.

use core::fmt;
use core::mem::MaybeUninit;

/// Up to `N` words, of which the first `len` are initialised.
pub(crate) struct Words<const N: usize> {
    words: [MaybeUninit<u64>; N],
    len: usize,
}

impl<const N: usize> Words<N> {
    /// Makes an empty list.
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self { words: [const { MaybeUninit::uninit() }; N], len: 0 }
    }

    /// How many words there are.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes the list `first` and then the up to `N - 1` words that `next` makes of one another and of `items`.
    #[inline(always)]
    pub(crate) fn scan<T: Copy>(&mut self, first: u64, items: &[T], next: impl Fn(u64, T) -> u64) {
        self.words[0].write(first);
        let mut last = first;
        for (word, item) in self.words[1..].iter_mut().zip(items) {
            last = next(last, *item);
            word.write(last);
        }
        self.len = 1 + items.len().min(N - 1);
    }

    /// Returns word `i`.
    ///
    /// # Panics
    ///
    /// If there are not that many words.
    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> u64 {
        assert!(i < self.len, "word out of range");
        // SAFETY: `scan` has initialised the words below `len`, which is at most `N`.
        unsafe { self.words.get_unchecked(i).assume_init() }
    }
}

impl<const N: usize> fmt::Debug for Words<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.len).map(|i| self.get(i))).finish()
    }
}
