//! The maps of `fanread` for C: opaque handles, a status for every call, and no panic that crosses the border.
//!
//! `include/fanread.h` is what this crate says, in C; a test compares. `docs/design/c.md` has the
//! reasons: who owns what, what threads may do, what a call costs. For Rust there is `fanread`
//! itself.
//!
//! | file | what |
//! | --- | --- |
//! | `error.rs`, `panic.rs` | statuses, messages, and the border |
//! | `handle.rs` | pointers: handles, arrays, byte strings, places for answers |
//! | `value.rs`, `face.rs`, `index.rs` | keys and values in their forms, and all maps behind one face |
//! | `call.rs` | what the calls of maps have in common |
//! | `map.rs`, `map_bytes.rs`, `map_u64.rs` | maps |
//! | `cursor.rs`, `scan.rs` | entries in order |
//! | `pin.rs`, `held.rs` | pins that are held for many calls |
//! | `table.rs`, `store.rs`, `u64_store.rs` | files |

#![expect(unsafe_code, reason = "C has pointers; each is checked where it comes in")]
#![allow(non_camel_case_types, reason = "types have the names that they have in C")]
#![allow(clippy::missing_errors_doc, reason = "a fault says by itself what it is")]

mod call;
pub mod cursor;
pub mod error;
mod face;
pub mod handle;
mod held;
mod index;
pub mod map;
pub mod map_bytes;
pub mod map_u64;
mod panic;
pub mod pin;
pub mod scan;
pub mod store;
pub mod table;
pub mod u64_store;
mod value;

pub use face::fanread_kind;
