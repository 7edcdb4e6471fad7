//! What the tests of every map share: operations from a seed, a model to
//! compare with, values that watch their own life, and recorded histories of
//! threads with a checker.
//!
//! Nothing here knows a map of ours. A test wraps its map in
//! [`Subject`](model::Subject) for one thread and in
//! [`Shared`](stress::Shared) for many, and names the shape of keys it wants.
//!
//! ```
//! use testkit::model::Reference;
//! use testkit::ops::Keys;
//!
//! // A map against the model; here the model against itself.
//! testkit::model::agree(Reference::default, 1, Keys::Short, 1_000);
//! ```

pub mod dummy;
pub mod effort;
pub mod history;
pub mod model;
pub mod ops;
pub mod rng;
pub mod scan;
pub mod spelled;
pub mod stress;

pub use effort::seeds;
pub use model::range;
pub use ops::{Keys, Op, Ops};
pub use rng::Rng;
