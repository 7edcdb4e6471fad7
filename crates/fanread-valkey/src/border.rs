//! The border to the server: no panic crosses it.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `inside`; `None` if it panicked, which is a defect of ours. What it was changing is whole, as the maps' own tests show.
#[inline]
pub(crate) fn guard<T>(inside: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(inside)).ok()
}
