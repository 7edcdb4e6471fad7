//! What fuzz targets do with bytes, for these and for `found.rs`, which runs again what they found.

pub(crate) mod files;
pub(crate) mod key_order;
pub(crate) mod persistent;
pub(crate) mod tables;
