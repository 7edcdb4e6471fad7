//! Waiting for a lock that is held for some tens of instructions.

use super::shim;

/// Spins a little, then gives the processor away.
///
/// Who waits is a writer, or a reader of a bucket that a writer is storing into. A holder that lost its processor keeps it for
/// a time slice, so after a few short rounds the waiter gives up its own.
#[derive(Debug)]
pub(crate) struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// Rounds of spinning before the first yield. 2^6 pauses last about a microsecond, some ten times what a
    /// holder needs that is running; fewer yield to a holder that is about to finish, more burn a time slice
    /// beside one that is not running.
    const SPIN_ROUNDS: u32 = if cfg!(any(shuttle, loom)) { 1 } else { 6 };

    pub(crate) fn new() -> Self {
        Self { rounds: 0 }
    }

    /// Whether nobody has waited yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.rounds == 0
    }

    /// Takes notice that something else was done meanwhile that took a while.
    pub(crate) fn has_waited(&mut self) {
        self.rounds = self.rounds.max(1);
    }

    /// Whether a holder that is running and needs as long as most do would have finished.
    pub(crate) fn is_long(&self) -> bool {
        self.rounds == Self::SPIN_ROUNDS
    }

    /// Waits a little longer than the last time.
    pub(crate) fn wait(&mut self) {
        shim::wait_for_others();
        #[cfg(all(test, loom))]
        loom::thread::yield_now();
        let spins = self.rounds < Self::SPIN_ROUNDS;
        self.rounds += u32::from(spins);
        if cfg!(any(shuttle, loom)) {
            return;
        }
        if spins {
            for _ in 0..1_u32 << (self.rounds - 1) {
                core::hint::spin_loop();
            }
        } else {
            std::thread::yield_now();
        }
    }
}
