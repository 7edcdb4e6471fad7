//! Verifies the invariants of a table at rest against the anchors it was made for.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::{BTreeMap, BTreeSet};

use super::layout::{
    BLOCK_LINES, Children, EXACT, Image, LANES, LINE_REFS, LeafRef, Line, is_marked, tag_of,
};
use super::node::Node;
use super::raw::Table;
use super::{Books, PrefixTable, Prefixes, Writer};

/// The first invariant found broken, and the prefix at which it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken {
    invariant: &'static str,
    prefix: Vec<u8>,
    found: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, prefix, found } = self;
        write!(f, "{invariant} at prefix \"{}\": {found}", prefix.escape_ascii())
    }
}

impl std::error::Error for Broken {}

/// What a node has to hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Expected {
    at: u32,
    is_anchor: bool,
    children: Vec<(u8, u32)>,
}

impl PrefixTable {
    /// Checks that the table is what `anchors`, ascending from the empty one, with their leaves prescribe.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub(crate) fn check(
        &self,
        writer: &Writer,
        anchors: &[(&[u8], LeafRef)],
    ) -> Result<(), Broken> {
        if self.first() != anchors.first().map(|(_, leaf)| *leaf) {
            return Err(broken("P2", b"", format!("first leaf {:?}", self.first())));
        }
        if writer.books.anchors != anchors.len() {
            return Err(broken(
                "P1",
                b"",
                format!("{} anchors on the books", writer.books.anchors),
            ));
        }
        let Some(table) = self.current.get_for_writer(&writer.exclusive) else {
            return match anchors.len() {
                0 | 1 => Ok(()),
                count => Err(broken("P1", b"", format!("no table for {count} anchors"))),
            };
        };
        let mut slots = BTreeSet::new();
        let expected = expected(anchors);
        for (prefix, expected) in &expected {
            let node = if prefix.is_empty() {
                Node::root(table)
            } else {
                let slot = self.check_place(table, prefix)?;
                slots.insert(slot);
                Node::new(table, slot)
            };
            check_node(node, prefix, expected)?;
        }
        check_rest(table, &writer.books, &slots)?;
        check_rests(table, &writer.books, &expected)
    }

    /// Checks P4 for the node of `prefix` and returns its slot.
    ///
    /// # Errors
    ///
    /// If there is none, or in the wrong place.
    fn check_place(&self, table: &Table, prefix: &[u8]) -> Result<usize, Broken> {
        let mut prefixes = Prefixes::new(table, &self.seed, prefix);
        let Some(slot) = prefixes.slot(prefix.len()) else {
            return Err(broken("P1", prefix, "missing".to_string()));
        };
        let (hash, _) = prefixes.identity(prefix.len());
        if table.buckets()[slot / LANES].tag(slot % LANES) != tag_of(hash) {
            return Err(broken("P4", prefix, "another tag".to_string()));
        }
        let (mut bucket, _) = table.home(hash);
        while bucket != slot / LANES {
            if !is_marked(table.buckets()[bucket].mark_word()) {
                return Err(broken("P4", prefix, format!("bucket {bucket} is not marked")));
            }
            bucket = table.after(bucket);
        }
        Ok(slot)
    }
}

fn broken(invariant: &'static str, prefix: &[u8], found: String) -> Broken {
    Broken { invariant, prefix: prefix.to_vec(), found }
}

/// Checks P2, P3 and N1 to N3 for one node.
///
/// # Errors
///
/// If the node is not as expected.
fn check_node(node: Node<'_>, prefix: &[u8], expected: &Expected) -> Result<(), Broken> {
    let image = node.image();
    if (image.at, image.is_anchor) != (expected.at, expected.is_anchor) {
        return Err(broken("P2", prefix, format!("{image:?}, expected {expected:?}")));
    }
    if node.children() != expected.children {
        return Err(broken("P3", prefix, format!("{:?}, expected {expected:?}", node.children())));
    }
    node.misshapen().map_or(Ok(()), |found| Err(broken("N1 to N3", prefix, found)))
}

/// Checks that nothing is in use but the nodes in `slots` and their blocks, and that all else is zero (N2).
///
/// # Errors
///
/// If there is more, or if the books differ.
fn check_rest(table: &Table, books: &Books, slots: &BTreeSet<usize>) -> Result<(), Broken> {
    let is_zero = |line: &Line| (0..8).all(|i| line.word(i) == 0);
    let mut lines: BTreeSet<usize> = (0..BLOCK_LINES).collect();
    for (slot, line) in table.nodes().iter().enumerate() {
        let tag = table.buckets()[slot / LANES].tag(slot % LANES);
        if (tag != 0) != slots.contains(&slot) {
            return Err(broken("P1", b"", format!("slot {slot} has tag {tag:#x}")));
        }
        if tag == 0 && !is_zero(line) {
            return Err(broken("N2", b"", format!("slot {slot} is free and not zero")));
        }
        if let Children::Wide(at) = Image::load(line).children {
            for line in (at.line as usize..).take(at.lines) {
                if !lines.insert(line) {
                    return Err(broken("N3", b"", format!("two nodes use line {line}")));
                }
            }
        }
    }
    let mut free =
        table.blocks().iter().enumerate().filter(|(i, _)| !lines.contains(&(i / LINE_REFS)));
    if let Some((i, _)) = free.find(|(_, slot)| slot.load(Relaxed) != 0) {
        return Err(broken("N2", b"", format!("ref {i} is free and not zero")));
    }
    if (slots.len(), lines.len()) != (books.nodes, BLOCK_LINES + books.live_lines) {
        return Err(broken("P1", b"", format!("{books:?}")));
    }
    Ok(())
}

/// Checks P7.
///
/// # Errors
///
/// If the lengths on the books, or those that readers look at, are not those of the stored prefixes.
fn check_rests(
    table: &Table,
    books: &Books,
    expected: &BTreeMap<Vec<u8>, Expected>,
) -> Result<(), Broken> {
    let mut rests = [0; 8];
    expected.keys().filter(|p| p.len() % 8 > 0).for_each(|prefix| rests[prefix.len() % 8] += 1);
    if (books.rests, table.rests()) == (rests, books.rests()) {
        return Ok(());
    }
    Err(broken("P7", b"", format!("{:#b}, {:?}, {rests:?}", table.rests(), books.rests)))
}

impl Node<'_> {
    /// Says what is wrong with the form of the node, if anything.
    fn misshapen(&self) -> Option<String> {
        let image = self.image();
        let children = self.children();
        if !children.is_sorted_by(|a, b| a.0 < b.0) {
            return Some(format!("children out of order: {children:?}"));
        }
        if children.len() != self.count() {
            return Some(format!("{} children, {} on the books", children.len(), self.count()));
        }
        match image.children {
            Children::Narrow { count, bytes, refs } => {
                let unused = bytes[count..].iter().any(|b| *b != 0);
                (unused || refs[count..].iter().any(|slot| *slot != 0))
                    .then(|| "leftovers behind the last child".to_string())
            }
            Children::Wide(at) => (0..at.refs()).find_map(|i| {
                let end = at.first + i;
                let is_child = children.iter().any(|child| usize::from(child.0) + 1 == end);
                let before = children.iter().rfind(|child| usize::from(child.0) + 1 < end);
                let filled = before.map_or(image.at, |child| child.1) | EXACT;
                let found = self.raw_ref(i);
                (!is_child && found != filled).then(|| format!("ref {i} is {found:#x}"))
            }),
        }
    }
}

/// Computes every node from the definition.
fn expected(anchors: &[(&[u8], LeafRef)]) -> BTreeMap<Vec<u8>, Expected> {
    let mut stored = BTreeSet::from([Vec::new()]);
    for (i, (anchor, _)) in anchors.iter().enumerate() {
        stored.extend((0..=anchor.len()).step_by(8).map(|len| anchor[..len].to_vec()));
        if let Some((next, _)) = anchors.get(i + 1) {
            stored.insert(next[..crate::arch::common_prefix(anchor, next)].to_vec());
        }
    }
    let expect = |prefix: &Vec<u8>| {
        let below = anchors.partition_point(|(anchor, _)| *anchor <= &prefix[..]);
        let (anchor, leaf) = anchors[below - 1];
        let is_anchor = anchor == &prefix[..];
        let mut node = Expected { at: leaf.get(), is_anchor, children: Vec::new() };
        for (anchor, leaf) in anchors[below..].iter().take_while(|(a, _)| a.starts_with(prefix)) {
            let byte = anchor[prefix.len()];
            let single = anchor.len() == prefix.len() + 1;
            match node.children.last_mut() {
                Some((last, slot)) if *last == byte => *slot = leaf.get(),
                _ => node.children.push((byte, leaf.get() | if single { EXACT } else { 0 })),
            }
        }
        node
    };
    stored.into_iter().map(|prefix| (prefix.clone(), expect(&prefix))).collect()
}
