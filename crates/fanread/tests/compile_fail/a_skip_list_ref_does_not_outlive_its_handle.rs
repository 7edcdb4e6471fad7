//! A key and a value that were found may be freed once the handle is gone.

use fanread::SkipList;

fn main() {
    let map = SkipList::new();
    let found = {
        let pinned = map.pin();
        pinned.insert(1, String::from("b"));
        pinned.first_key_value()
    };
    println!("{found:?}");
}
