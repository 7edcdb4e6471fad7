//! The Python package `fanread`: its compiled half.
//!
//! | file | what |
//! | --- | --- |
//! | `key.rs` | keys of a `SortedMap`: objects as byte strings, or as numbers |
//! | `body.rs` | what it keeps its entries in |
//! | `map.rs` | the base of `SortedMap`; the rest of it is in `python/fanread/_sorted_map.py` |
//! | `cursor.rs` | its iterators |
//! | `u64_map.rs`, `arrays.rs` | `U64Map`; arrays of numpy |
//! | `bytes_map.rs`, `store.rs`, `table.rs` | `BytesMap`, `PersistentMap`, `CuckooTable`; the rest of them is in `_maps.py` |
//! | `scan.rs` | their iterators |
//! | `error.rs` | exceptions |
//!
//! What is exposed, who owns what, and what it costs is in `docs/design/python.md`.

#![expect(
    unsafe_code,
    reason = "an adapter: objects of Python are counted by hand where a map holds them"
)]
#![allow(unreachable_pub, reason = "the macros of pyo3 want what they name to be pub")]
#![allow(
    missing_docs,
    reason = "doc comments are docstrings here, and the macros add items without"
)]
#![allow(missing_debug_implementations, reason = "classes of Python's, which have a repr")]
#![allow(
    clippy::doc_markdown,
    reason = "docstrings are read in Python, where there is no markdown"
)]
#![allow(clippy::needless_pass_by_value, reason = "arguments of Python's calls are handed over")]
#![allow(clippy::missing_errors_doc, reason = "docstrings say what is raised, in Python's words")]

mod arrays;
mod body;
mod bytes_map;
mod cursor;
mod error;
mod key;
mod map;
mod scan;
mod store;
mod table;
mod u64_map;

use pyo3::prelude::*;

// A Python that can do without the lock takes it for this: a `SortedMap` is safe under it alone (`map.rs`, G1).
/// The compiled half of fanread; use the package `fanread`.
#[pymodule(gil_used = true)]
fn _fanread(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<map::SortedMapBase>()?;
    module.add_class::<cursor::SortedMapIterator>()?;
    module.add_class::<u64_map::U64Map>()?;
    module.add_class::<bytes_map::BytesMapBase>()?;
    module.add_class::<scan::BytesIterator>()?;
    module.add_class::<store::PersistentMapBase>()?;
    module.add_class::<table::CuckooTableBase>()?;
    module.add_function(wrap_pyfunction!(error::_panic, module)?)?;
    Ok(())
}
