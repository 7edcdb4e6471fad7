//! The border: no panic passes it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Fault, Outcome, fanread_status};

/// Runs the body of an exported function. What goes wrong there becomes a status, and a message of the thread.
///
/// Maps are whole after a panic (their tests throw them), so nothing that the body holds needs to be given up.
#[inline]
pub(crate) fn border(body: impl FnOnce() -> Outcome) -> fanread_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(fault)) => fault.tell(),
        Err(payload) => panicked(payload),
    }
}

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> fanread_status {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".to_owned(),
    };
    // What a panic carries may panic when it is dropped; that one is leaked.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    Fault::new(fanread_status::FANREAD_PANIC, text).tell()
}
