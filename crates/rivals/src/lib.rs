//! Other maps behind the trait of a measured map.
//!
//! A map generic over its key type stands here in two forms: [`Word`] keys where every key is an
//! eight-byte number, [`Text`] keys (boxed byte strings) elsewhere. That is how a program would
//! use it, and it is to the map's advantage: it compares numbers in one instruction.
//!
//! | map | keys | threads |
//! | --- | --- | --- |
//! | std `BTreeMap` | both forms | reads |
//! | `indexset::BTreeMap` | both forms | reads |
//! | `crossbeam_skiplist::SkipMap` | both forms | all |
//! | `scc::TreeIndex` | both forms | all |
//! | `masstree::MassTree` | byte strings up to 256 bytes, no scans | all |
//! | `congee::U64Congee` | numbers | all |
//! | `hashbrown::HashMap` | both forms, no order | reads |
//! | [`LinearProbing`], one array that is rehashed as a whole | numbers, no order | reads |
//! | [`Eytzinger`], a sorted array | numbers, all inserted before the first is looked up | reads |

mod concurrent;
mod exclusive;
mod eytzinger;
mod form;
mod linear;
mod radix;

pub use concurrent::{SkipMap, TreeIndex};
pub use exclusive::{BTreeMap, HashMap, IndexSet};
pub use eytzinger::{Eytzinger, EytzingerMaker};
pub use form::{Form, Text, Word};
pub use linear::LinearProbing;
pub use radix::{Congee, Masstree};
