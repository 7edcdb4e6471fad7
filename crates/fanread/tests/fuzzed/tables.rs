//! Any bytes for a table file, which is asked everything. An error or an answer, never a panic or a wild read.

use fanread::CuckooTable;

/// How many entries are asked for one by one: a damaged file can hold thousands in a few bytes.
const ASKED: usize = 64;

/// Opens a file of any bytes, and asks it everything.
pub(crate) fn run(file: &[u8]) {
    let Ok(table) = CuckooTable::from_bytes(file) else { return };
    let stats = table.stats();
    let keys: Vec<&[u8]> = file.chunks(stats.key_bytes).take(ASKED).collect();
    let mut found = vec![None; keys.len()];
    table.get_batch(&keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(table.get(key), found);
        assert_eq!(table.entry(key).and_then(|entry| entry.value), found);
        assert_eq!(table.contains_key(key), found.is_some());
    }
    let forward: Vec<_> = table.entries(..).collect();
    let mut backward: Vec<_> = table.entries(..).rev().collect();
    backward.reverse();
    assert_eq!(forward, backward);
    assert!(forward.is_sorted_by_key(|entry| entry.key));
    if let (Some(low), Some(high)) = (keys.first(), keys.last()) {
        let inside = |key: &[u8]| *low <= key && key < *high;
        let expected = forward.iter().filter(|entry| inside(entry.key)).count();
        assert_eq!(table.entries(*low..*high).count(), expected);
    }
    // A file that passes its check answers as it iterates.
    if table.check().is_ok() {
        for entry in forward.iter().take(ASKED) {
            assert_eq!(table.entry(entry.key), Some(*entry));
        }
        assert_eq!(forward.len() as u64, stats.entries);
    }
    let counted: u64 = table.entries_by_block().iter().sum();
    assert!(counted <= forward.len() as u64);
    for (name, value) in table.properties() {
        assert!(name.len() <= file.len() + (1 << 20) && value.len() <= file.len());
    }
}
