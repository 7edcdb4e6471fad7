//! The commands, one file each: parse, call, print.

pub(crate) mod bench;
pub(crate) mod probe;
pub(crate) mod query;
pub(crate) mod report;
pub(crate) mod store;
pub(crate) mod table;
