//! Keys and operation mixes from a seed, and the trait of a measured map.
