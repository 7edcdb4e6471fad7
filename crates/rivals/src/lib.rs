//! Other maps behind the trait of a measured map.
