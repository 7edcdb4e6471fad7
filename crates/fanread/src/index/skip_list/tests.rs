//! Cases at the edges.
