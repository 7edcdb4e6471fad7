//! Indexes that keep many memory reads in flight at once.
