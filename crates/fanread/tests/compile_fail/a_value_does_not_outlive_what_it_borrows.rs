//! A map drops its values, which may look at what they borrow.

use fanread::Wormhole;

fn main() {
    let map = Wormhole::new();
    {
        let text = String::from("short-lived");
        map.pin().insert(b"a", text.as_str());
    }
    println!("{}", map.len());
}
