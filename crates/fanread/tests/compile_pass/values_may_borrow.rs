//! Values need not live for ever, only as long as the map.

use fanread::Wormhole;

fn main() {
    let text = String::from("lives longer than the map");
    let words: Vec<&str> = text.split(' ').collect();
    let map = Wormhole::new();
    std::thread::scope(|scope| {
        for word in &words {
            scope.spawn(|| map.pin().insert(word.as_bytes(), *word).is_none());
        }
    });
    assert_eq!(map.pin().get(b"map").as_deref(), Some(&"map"));
    assert_eq!(map.len(), words.len());
}
