// Included for each map on byte strings by `maps/mod.rs`, behind `../panics.rs`.

/// A key that is longer every time it is asked.
struct Growing(Cell<usize>);

impl AsRef<[u8]> for Growing {
    fn as_ref(&self) -> &[u8] {
        const BYTES: [u8; 4_096] = [b'g'; 4_096];
        self.0.set((self.0.get() + 100).min(BYTES.len()));
        &BYTES[..self.0.get()]
    }
}

#[test]
fn a_key_that_grows_while_it_is_loaded_writes_nothing_out_of_bounds() {
    for first in 0..300 {
        let keys = [Growing(Cell::new(first)), Growing(Cell::new(first + 2_000))];
        // Whatever comes of it, it is memory of the map's own.
        let _ = catch_unwind(|| Map::from_sorted(keys.into_iter().map(|key| (key, 1_u64))));
    }
}
