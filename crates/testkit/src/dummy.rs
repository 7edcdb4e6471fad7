//! Values that watch their own life: born, cloned, dropped once, or panicking
//! on demand; and patience, which user code of a test loses.
//!
//! A [`Census`] hands out values and counts what becomes of them. At the end
//! [`Census::verify`] tells leaks and double drops apart: each value has a
//! number and one bit, set at its birth and cleared at its drop.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How many values of a census have a bit of their own.
///
/// Later ones share the bits of earlier ones only by count, so a leak among
/// them is found but not named. 2^20 bits are 128 KB.
const TRACKED: usize = 1 << 20;

/// Counts the values it has handed out.
///
/// ```
/// use testkit::dummy::Census;
///
/// let census = Census::new();
/// let value = census.value(7);
/// assert_eq!(census.alive(), 1);
/// drop(value);
/// census.verify(0).unwrap();
/// ```
#[derive(Clone)]
pub struct Census {
    shared: Arc<Counters>,
}

struct Counters {
    born: AtomicUsize,
    cloned: AtomicUsize,
    dropped: AtomicUsize,
    dropped_twice: AtomicUsize,
    alive: Box<[AtomicU64]>,
}

thread_local! {
    /// How many more calls this thread's patience lasts.
    static PATIENCE: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Lets the `calls` next calls of [`lose_patience`] by this thread return, and the one behind them panic.
pub fn be_patient_for(calls: u32) {
    PATIENCE.set(calls);
}

/// Lets this thread be patient again.
pub fn be_patient() {
    PATIENCE.set(u32::MAX);
}

/// Counts a call of user code.
///
/// # Panics
///
/// Once the patience of this thread is spent.
pub fn lose_patience() {
    let left = PATIENCE.get();
    assert!(left > 0, "as planned");
    PATIENCE.set(if left == u32::MAX { left } else { left - 1 });
}

/// A value of a census.
///
/// Equal if the content is equal; the number of the value does not count. A comparison and a clone cost
/// [patience](lose_patience). It is aligned as few types are, so that all that is tested with it is tested with such values.
#[repr(align(64))]
pub struct Counted {
    /// What the test stores.
    pub content: u64,
    number: usize,
    armed: AtomicBool,
    census: Census,
}

/// What a census found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miscount {
    /// How many values should be alive.
    pub expected: usize,
    /// How many were born, by creation or clone.
    pub born: usize,
    /// How many drops there were.
    pub dropped: usize,
    /// How many of the drops hit a value that had been dropped before.
    pub dropped_twice: usize,
    /// The numbers of the first few values still alive.
    pub first_alive: Vec<usize>,
}

impl fmt::Display for Miscount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, born, dropped, dropped_twice, first_alive } = self;
        write!(
            f,
            "{born} values born, {dropped} drops ({dropped_twice} of a dropped value), \
             {expected} should be alive; alive are {first_alive:?} ..."
        )
    }
}

impl std::error::Error for Miscount {}

impl Default for Census {
    fn default() -> Self {
        let alive = (0..TRACKED / 64).map(|_| AtomicU64::new(0)).collect();
        let zero = || AtomicUsize::new(0);
        let counters = Counters {
            born: zero(),
            cloned: zero(),
            dropped: zero(),
            dropped_twice: zero(),
            alive,
        };
        Self { shared: Arc::new(counters) }
    }
}

// The counts are read when the threads that made them are joined, or for a
// message; Relaxed is enough for both.
impl Census {
    /// Opens a census without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a value.
    pub fn value(&self, content: u64) -> Counted {
        let number = self.shared.born.fetch_add(1, Relaxed);
        if number < TRACKED {
            self.shared.alive[number / 64].fetch_or(1 << (number % 64), Relaxed);
        }
        Counted { content, number, armed: AtomicBool::new(false), census: self.clone() }
    }

    /// Makes a value that panics when it is dropped, once it has counted the drop.
    pub fn bomb(&self, content: u64) -> Counted {
        let value = self.value(content);
        value.arm();
        value
    }

    /// Returns how many values are alive.
    pub fn alive(&self) -> usize {
        self.shared.born.load(Relaxed).wrapping_sub(self.shared.dropped.load(Relaxed))
    }

    /// Returns how many values were made by cloning.
    pub fn cloned(&self) -> usize {
        self.shared.cloned.load(Relaxed)
    }

    /// Checks that exactly `alive` values are alive and none was dropped twice.
    ///
    /// # Errors
    ///
    /// What was counted instead.
    pub fn verify(&self, alive: usize) -> Result<(), Miscount> {
        let born = self.shared.born.load(Relaxed);
        let dropped = self.shared.dropped.load(Relaxed);
        let dropped_twice = self.shared.dropped_twice.load(Relaxed);
        if dropped_twice == 0 && born.wrapping_sub(dropped) == alive {
            return Ok(());
        }
        let first_alive = (0..born.min(TRACKED))
            .filter(|n| self.shared.alive[n / 64].load(Relaxed) >> (n % 64) & 1 == 1)
            .take(8)
            .collect();
        Err(Miscount { expected: alive, born, dropped, dropped_twice, first_alive })
    }
}

impl Counted {
    /// Makes this value panic when it is dropped.
    pub fn arm(&self) {
        self.armed.store(true, Relaxed);
    }

    /// Takes the panic out of this value.
    pub fn disarm(&self) {
        self.armed.store(false, Relaxed);
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        lose_patience();
        self.census.shared.cloned.fetch_add(1, Relaxed);
        self.census.value(self.content)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let counters = &self.census.shared;
        counters.dropped.fetch_add(1, Relaxed);
        if self.number < TRACKED {
            let bit = 1 << (self.number % 64);
            if counters.alive[self.number / 64].fetch_and(!bit, Relaxed) & bit == 0 {
                counters.dropped_twice.fetch_add(1, Relaxed);
            }
        }
        // A second panic while the first unwinds would end the process.
        let quiet = !self.armed.load(Relaxed) || std::thread::panicking();
        assert!(quiet, "{} {}", Self::BANG, self.content);
    }
}

impl Counted {
    /// How the panic message of a bomb begins.
    pub const BANG: &str = "a value panics on drop:";
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        lose_patience();
        self.content == other.content
    }
}

impl Eq for Counted {}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counted({} #{})", self.content, self.number)
    }
}

impl fmt::Debug for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Census").field("alive", &self.alive()).finish_non_exhaustive()
    }
}

/// Runs `f` and returns whether a bomb went off in it; another panic goes on.
pub fn bangs(f: impl FnOnce()) -> bool {
    let Err(cause) = catch_unwind(AssertUnwindSafe(f)) else { return false };
    match cause.downcast_ref::<String>() {
        Some(text) if text.starts_with(Counted::BANG) => true,
        _ => std::panic::resume_unwind(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaked_value_is_counted_and_named() {
        let census = Census::new();
        let kept: Vec<_> = (0..3).map(|i| census.value(i)).collect();
        std::mem::forget(census.value(3));
        drop(kept.clone());
        drop(kept);
        let miscount = census.verify(0).unwrap_err();
        assert_eq!((miscount.born, miscount.dropped, census.cloned()), (7, 6, 3));
        assert_eq!(miscount.first_alive, [3]);
    }

    #[test]
    fn a_second_drop_is_not_hidden_by_a_leak() {
        let census = Census::new();
        let (first, second) = (census.value(1), census.value(2));
        // A forged twin stands for a value that is dropped twice.
        drop(Counted {
            content: 1,
            number: first.number,
            armed: AtomicBool::new(false),
            census: census.clone(),
        });
        drop(first);
        std::mem::forget(second);
        assert_eq!(census.alive(), 0);
        assert_eq!(census.verify(0).unwrap_err().dropped_twice, 1);
    }

    #[test]
    fn a_bomb_counts_its_drop_and_panics() {
        let census = Census::new();
        let bomb = census.bomb(9);
        assert!(bangs(|| drop(bomb)));
        census.verify(0).unwrap();
        let defused = census.bomb(9);
        defused.disarm();
        assert!(!bangs(|| drop(defused)));
    }
}
