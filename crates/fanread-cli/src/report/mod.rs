//! Results: as records, as a table, as a page with plots, and compared with older ones.

pub(crate) mod compare;
pub(crate) mod html;
pub(crate) mod plot;
pub(crate) mod record;
pub(crate) mod table;
