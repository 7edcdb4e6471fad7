//! Maps in mapped files, and what "durable" means for them.
//!
//! A map writes words of 8 bytes into lines of 64, flushes lines, and waits for its flushes at a fence (`medium`). What was
//! fenced survives whatever the medium survives; what was not may be there or not, word by word. A map that is opened
//! is as it was with every call that had returned, and with the one in flight of each thread or without it.

pub mod cceh;
pub(crate) mod medium;

pub use cceh::{Cceh, Store};
pub use medium::{Durability, Flushes};
