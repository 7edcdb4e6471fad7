//! Pinning anew frees what was found before.

use fanread::Wormhole;

fn main() {
    let map = Wormhole::new();
    let mut pinned = map.pin();
    pinned.insert(b"a", String::from("b"));
    let found = pinned.get(b"a");
    pinned.repin();
    println!("{found:?}");
}
