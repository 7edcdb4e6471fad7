//! What a handle hands out may be freed once the handle is gone.

use fanread::Wormhole;

fn main() {
    let map = Wormhole::new();
    let found = {
        let pinned = map.pin();
        pinned.insert(b"a", String::from("b"));
        pinned.get(b"a")
    };
    println!("{found:?}");
}
