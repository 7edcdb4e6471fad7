//! The `fanread` program.

fn main() {}
