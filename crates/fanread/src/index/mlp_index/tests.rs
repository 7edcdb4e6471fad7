//! Shapes of keys that make every entry change its form, against `BTreeMap`, and memory that runs out at any moment.

use self::map::{Map, Pinned, Whole, library};

/// The map behind keys of eight bytes.
#[allow(dead_code, reason = "the tests here use a part")]
#[allow(clippy::missing_errors_doc, reason = "each error is that of the map's method")]
mod map {
    use crate::api::{InsertError, LoadError, MemoryUsage, Options, Ref};
    pub(super) use crate::index::mlp_index::{self as library, MlpIndex as Whole};

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/numbers.rs"));
}

/// Whether keys are numbers.
const NUMBERS: bool = true;

#[path = "../out_of_memory.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map")]
mod out_of_memory;

#[path = "../shapes.rs"]
#[allow(clippy::duplicate_mod, reason = "the same tests for every map on numbers")]
mod shapes;
