//! Reads the sources and fails on what `docs/style.md` forbids.
//!
//! The rules are section 3.1 (who may use whom), 3.4 (file names inside an
//! index), and of part 1 what a reader cannot check by eye in every file:
//! where `unsafe` stands, notes on memory orderings, lengths, plain ASCII.
//! Each rule is tested itself, on a source that breaks it.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the library with their levels; `index/x` and `persist/x` are one module each.
const LEVELS: [(&str, u8); 15] = [
    ("arch", 0),
    ("mem", 1),
    ("sync", 1),
    ("hash", 1),
    ("key", 1),
    ("api", 2),
    ("shards", 2),
    ("directory", 2),
    ("batch", 3),
    ("prefix", 3),
    ("list", 3),
    ("persist/medium", 3),
    ("persist", 4),
    ("index", 4),
    ("table", 4),
];

/// What a module may use on its own level: atomics are memory's and memory is atomics'; a list has its prefix table.
const NEIGHBOURS: [(&str, &str); 4] =
    [("sync", "mem::line"), ("mem", "sync::shim"), ("mem", "sync::backoff"), ("list", "prefix")];

/// Where `unsafe` may stand; a folder ends in a slash.
const FENCE: [&str; 8] = [
    "arch/",
    "mem/",
    "sync/",
    "directory/raw.rs",
    "prefix/raw.rs",
    "persist/medium/",
    "table/raw.rs",
    "fanread-cli/src/bench/plugin.rs",
];

/// The files of an index, and of the prefix table.
const NAMES: [&str; 10] =
    ["mod", "layout", "raw", "search", "insert", "remove", "resize", "iter", "check", "tests"];

/// Files beside those of the list, each for a reason.
const EXTRA_FILES: &[&str] = &[
    // The map with byte strings in the records of their keys, whose values no macro can name.
    "index/ordered_map/bytes.rs",
    // What who has that map for himself can do with it.
    "index/ordered_map/alone.rs",
    // Its records that were written lately, which only a map that somebody has for himself can use.
    "index/ordered_map/recent.rs",
    // A bucket of its directory and a leaf, as far as they take no unsafe code; what a leaf says of its keys without their records.
    "index/ordered_map/bucket.rs",
    "index/ordered_map/leaf.rs",
    "index/ordered_map/guides.rs",
    // The prefix table has nodes in a table where an index has only one kind of bytes.
    "prefix/node.rs",
    // What every ordered map does when memory runs out.
    "index/out_of_memory.rs",
    // Shapes of keys for every map on numbers.
    "index/shapes.rs",
    // A hash table beside a list of sorted keys: the table's segments, a run of keys, and the list of runs.
    "index/u64_map/table.rs",
    "index/u64_map/row.rs",
    "index/u64_map/run.rs",
    "index/u64_map/order.rs",
    // Where a run has a key, as the list of runs guesses before the run itself is there.
    "index/u64_map/guide.rs",
    // Reading several buckets at one instant and changing several at once, which no other index does.
    "index/mlp_index/edit.rs",
    // How a bucket is read where it lies, apart from how it is changed.
    "index/mlp_index/words.rs",
    // Most insertions, which change a few words in place, apart from those that change the trie's shape.
    "index/mlp_index/quick.rs",
    // A map of keys that ascend, whose trie is known before anything is stored.
    "index/mlp_index/load.rs",
    // The next key, which is mostly found without a branch, apart from the key itself.
    "index/mlp_index/bound.rs",
    // What a walk has asked for and reads next, apart from how it finds its way.
    "index/mlp_index/children.rs",
    // Several keys at once, by fewer lines than each by itself.
    "index/mlp_index/batch.rs",
    // Keys of any type, versions and snapshots, which no other index has; a scan along towers, a directory of tall nodes,
    // and the methods that other maps get from a macro for their kind of keys.
    "index/skip_list/key.rs",
    "index/skip_list/versions.rs",
    "index/skip_list/snapshot.rs",
    "index/skip_list/ahead.rs",
    "index/skip_list/directory.rs",
    "index/skip_list/pieces.rs",
    // Batches of keys that are compared in the node, by steps that are the same for all.
    "index/skip_list/rows.rs",
    "index/skip_list/methods.rs",
    // A forest of tries: the files of the list are the forest's, and these the single trie's, from its bytes to its
    // searches (descend), writes (edit), scans (walk) and growth (build).
    "index/cuckoo_trie/bucket.rs",
    // A trie beside its buckets, and the pieces of memory that it is made of.
    "index/cuckoo_trie/header.rs",
    "index/cuckoo_trie/free.rs",
    "index/cuckoo_trie/state.rs",
    "index/cuckoo_trie/place.rs",
    "index/cuckoo_trie/descend.rs",
    "index/cuckoo_trie/edit.rs",
    "index/cuckoo_trie/walk.rs",
    "index/cuckoo_trie/chain.rs",
    "index/cuckoo_trie/ahead.rs",
    // The ends of the map, without what a walk takes.
    "index/cuckoo_trie/ends.rs",
    "index/cuckoo_trie/build.rs",
    "index/cuckoo_trie/split.rs",
    // Splits of tries of short leaves without a walk, and tables that are filled before anybody sees them.
    "index/cuckoo_trie/deal.rs",
    "index/cuckoo_trie/draft.rs",
    "index/cuckoo_trie/deal_tests.rs",
    // Which nodes are in their second bucket: marks of a bucket, and the stores that set them.
    "index/cuckoo_trie/away.rs",
    "index/cuckoo_trie/borders.rs",
    "index/cuckoo_trie/hints.rs",
    "index/cuckoo_trie/layout_tests.rs",
    "index/cuckoo_trie/raw_tests.rs",
    "index/cuckoo_trie/bucket_tests.rs",
    "index/cuckoo_trie/bucket_models.rs",
    "index/cuckoo_trie/build_tests.rs",
    "index/cuckoo_trie/split_tests.rs",
    "index/cuckoo_trie/trie_tests.rs",
    "index/cuckoo_trie/hints_tests.rs",
    // Symbols and labels, and tests of the nodes that hold two leaves, or a label and children.
    "index/cuckoo_trie/label.rs",
    "index/cuckoo_trie/nodes_tests.rs",
    "index/cuckoo_trie/leaf_level.rs",
    // Searches for keys of eight bytes, and tests of those.
    "index/cuckoo_trie/eights.rs",
    "index/cuckoo_trie/eights_tests.rs",
    // Most insertions of such keys, which place a leaf or two, apart from those that change more of the trie.
    "index/cuckoo_trie/quick.rs",
    "index/cuckoo_trie/quick_tests.rs",
    "prefix/eights.rs",
    "index/cuckoo_trie/walk_tests.rs",
    "index/cuckoo_trie/descend_tests.rs",
    "index/cuckoo_trie/twins_tests.rs",
];

/// The longest file.
const MAX_LINES: usize = 800;

/// How many lines above an ordering its note may stand.
const NOTE_LINES: usize = 10;

/// A source file: its path below `src`, its text, and the text without comments and literals.
struct Source {
    path: String,
    lines: Vec<String>,
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        let lines = text.lines().map(str::to_owned).collect();
        Self { path: path.to_owned(), lines, code: code(text) }
    }

    /// Returns the number of the line that holds byte `at` of the code, from 1.
    fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// Returns whether one of the lines up to `above` before line `number`, or it, says `tag`.
    fn is_noted(&self, number: usize, above: usize, tag: &str) -> bool {
        let first = number.saturating_sub(above + 1);
        self.lines[first..number].iter().any(|line| line.contains(tag))
    }

    /// Returns the first line that only tests see; inline tests end a file.
    fn tests_from(&self) -> usize {
        if self.path.ends_with("tests.rs") || self.path.contains("/tests/") {
            return 0;
        }
        let is_tests = |pair: &[String]| {
            let of_tests = pair[0].starts_with("#[cfg(") && pair[0].contains("test");
            of_tests && pair[1].starts_with("mod ") && pair[1].ends_with('{')
        };
        self.lines.windows(2).position(is_tests).map_or(usize::MAX, |at| at + 1)
    }

    /// Returns every whole word of the code with its place.
    fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut at = 0;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        std::iter::from_fn(move || {
            at += self.code[at..].find(is_word)?;
            let rest = &self.code[at..];
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            at += len;
            Some((at - len, &rest[..len]))
        })
    }
}

/// Blanks comments, strings and characters, and keeps every line end where it is.
fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(len) = raw_string(rest) {
            len
        } else if rest.starts_with('"') {
            quoted(rest, '"')
        } else if rest.starts_with('\'') && is_char(rest) {
            quoted(rest, '\'')
        } else {
            0
        };
        if skip == 0 {
            let c = rest.chars().next().expect("the loop ends with the text");
            // A letter of another script is one byte of code; the rule on ASCII finds it.
            out.push(if c.is_ascii() { c } else { '?' });
            at += c.len_utf8();
        } else {
            out.extend(rest[..skip].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            at += skip;
        }
    }
    out
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

fn raw_string(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    body[hashes..].strip_prefix('"')?;
    let open = rest.len() - body.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(open + rest[open..].find(&close)? + close.len())
}

fn quoted(rest: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Tells a character from a lifetime.
fn is_char(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

/// Returns the module that a path below `src`, or below `crate::`, belongs to.
fn unit(parts: &[&str]) -> Option<(String, u8)> {
    let first = *parts.first()?;
    let own = match first {
        "index" | "persist" => parts.get(1).map(|second| format!("{first}/{second}")),
        _ => None,
    };
    let named = |name: &str| LEVELS.iter().find(|level| level.0 == name).map(|level| level.1);
    let level = own.as_deref().and_then(named).or_else(|| named(first))?;
    Some((own.unwrap_or_else(|| first.to_owned()), level))
}

/// Returns the module path of a file, like `index, wormhole, search`.
fn module(path: &str) -> Vec<&str> {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    if path == "lib" { Vec::new() } else { path.split('/').collect() }
}

/// Returns every path from `crate` that the file uses, with its place.
fn imports(source: &Source) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut inline = 0_usize;
    let mut depths: Vec<usize> = Vec::new();
    let mut depth = 0;
    let mut before = "";
    let mut last_end = 0;
    for (at, word) in source.words() {
        for c in source.code[last_end..at].chars() {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    if depths.last() == Some(&depth) {
                        depths.pop();
                        inline -= 1;
                    }
                }
                _ => {}
            }
        }
        let rest = &source.code[at + word.len()..];
        if before == "mod" && rest.trim_start().starts_with('{') {
            depths.push(depth);
            inline += 1;
        }
        let is_inner = source.code[..at].trim_end().ends_with("::");
        if word == "crate" && rest.starts_with("::") {
            found.extend(spread(Vec::new(), &rest[2..]).into_iter().map(|path| (at, path)));
        } else if word == "super" && !is_inner && rest.starts_with("::") {
            let mut rest = &rest[2..];
            let mut up = 1_usize;
            while let Some(more) = rest.strip_prefix("super::") {
                (rest, up) = (more, up + 1);
            }
            let mut base: Vec<String> = module(&source.path).iter().map(|&m| m.into()).collect();
            // An inline module is one step further down.
            let up = up.saturating_sub(inline);
            base.truncate(base.len().saturating_sub(up));
            found.extend(spread(base, rest).into_iter().map(|path| (at, path)));
        }
        before = word;
        last_end = at + word.len();
    }
    found
}

/// Completes `base` with up to two names of `rest`; braces give one path each.
fn spread(base: Vec<String>, rest: &str) -> Vec<Vec<String>> {
    let name_len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let name_len = name_len.unwrap_or(rest.len());
    if name_len > 0 {
        let mut path = base;
        path.push(rest[..name_len].to_owned());
        return match rest[name_len..].strip_prefix("::") {
            Some(more) if path.len() < 3 => spread(path, more),
            _ => vec![path],
        };
    }
    let Some(inside) = rest.strip_prefix('{') else { return vec![base] };
    let (mut depth, mut start) = (0, 0);
    let mut paths = Vec::new();
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                let item = inside[start..at].trim();
                if !item.is_empty() && item != "self" {
                    paths.extend(spread(base.clone(), item));
                }
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    paths
}

/// The rule of 3.1.
fn dependencies(source: &Source, broken: &mut Vec<String>) {
    let own_path = module(&source.path);
    let Some((own, level)) = unit(&own_path) else { return };
    for (at, path) in imports(source) {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let Some((other, other_level)) = unit(&names) else {
            if !names.is_empty() && names.len() < own_path.len() + 2 && !own.starts_with(names[0]) {
                let line = source.line(at);
                broken.push(format!("{}:{line}: uses {} of lib.rs", source.path, names.join("::")));
            }
            continue;
        };
        let is_parent = own.starts_with(&format!("{other}/"));
        let exempt = NEIGHBOURS.iter().any(|(from, to)| {
            own == *from && format!("{}::", names.join("::")).starts_with(&format!("{to}::"))
        });
        if other != own && other_level >= level && !is_parent && !exempt {
            let line = source.line(at);
            broken.push(format!(
                "{}:{line}: {own} (level {level}) uses {other} (level {other_level})",
                source.path
            ));
        }
    }
}

/// The rules on `unsafe`.
fn fence(source: &Source, broken: &mut Vec<String>) {
    let in_index = source.path.starts_with("index/") && source.path.ends_with("/raw.rs");
    let allowed = in_index || FENCE.iter().any(|place| source.path.starts_with(place));
    for (at, word) in source.words().filter(|(_, word)| *word == "unsafe") {
        let line = source.line(at);
        if !allowed {
            broken.push(format!("{}:{line}: unsafe outside the fence", source.path));
        }
        let rest = source.code[at + word.len()..].trim_start();
        let claims = rest.starts_with('{') || rest.starts_with("impl");
        if claims && !source.is_noted(line, NOTE_LINES, "SAFETY:") {
            broken.push(format!("{}:{line}: unsafe without SAFETY:", source.path));
        }
    }
}

/// The rule on memory orderings; a `use` only names them, and tests may be blunt.
fn orderings(source: &Source, broken: &mut Vec<String>) {
    let tests = source.tests_from();
    for (at, word) in source.words().take_while(|(at, _)| source.line(*at) < tests) {
        if !matches!(word, "Acquire" | "Release" | "AcqRel" | "SeqCst") {
            continue;
        }
        let statement = source.code[..at].rfind(';').map_or(0, |end| end + 1);
        let statement = source.code[statement..at].trim_start();
        let is_use = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
        if is_use.iter().any(|start| statement.starts_with(start)) || statement.starts_with("#[") {
            continue;
        }
        let line = source.line(at);
        if !source.is_noted(line, NOTE_LINES, "ORDER:") {
            broken.push(format!("{}:{line}: {word} without ORDER:", source.path));
        }
    }
}

/// The rules on names, lengths and letters.
fn text(source: &Source, broken: &mut Vec<String>) {
    let Source { path, lines, .. } = source;
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let name = match parts[..] {
        ["index", _, name, ..] | ["prefix", name, ..] => Some(name),
        _ => None,
    };
    if name.is_some_and(|name| !NAMES.contains(&name)) && !EXTRA_FILES.contains(&path.as_str()) {
        broken.push(format!("{path}: no index has a file of this name"));
    }
    if lines.len() > MAX_LINES {
        broken.push(format!("{path}: {} lines, more than {MAX_LINES}", lines.len()));
    }
    for (number, line) in (1..).zip(lines) {
        if !line.is_ascii() {
            broken.push(format!("{path}:{number}: not ASCII"));
        }
    }
    for (at, word) in source.words() {
        let is_stub = matches!(word, "todo" | "unimplemented");
        if is_stub && source.code[at + word.len()..].starts_with('!') {
            broken.push(format!("{path}:{}: {word}!", source.line(at)));
        }
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources(folder: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    rust_files(folder, &mut files);
    files.sort();
    assert!(!files.is_empty(), "no sources in {}", folder.display());
    let source = |file: &PathBuf| {
        let path = file.strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/");
        Source::new(&path, &fs::read_to_string(file).unwrap())
    };
    files.iter().map(source).collect()
}

fn library() -> Vec<Source> {
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

fn broken(sources: &[Source], rule: impl Fn(&Source, &mut Vec<String>)) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        rule(source, &mut broken);
    }
    broken
}

fn assert_kept(sources: &[Source], rule: impl Fn(&Source, &mut Vec<String>)) {
    let broken = broken(sources, rule);
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn modules_use_only_levels_below_their_own() {
    assert_kept(&library(), dependencies);
}

#[test]
fn unsafe_stays_inside_the_fence_and_says_why() {
    assert_kept(&library(), fence);
}

#[test]
fn every_ordering_names_its_partner() {
    assert_kept(&library(), orderings);
}

#[test]
fn files_have_the_names_lengths_and_letters_they_may() {
    assert_kept(&library(), text);
}

#[test]
fn the_other_crates_keep_unsafe_inside_the_fence_and_have_no_stubs() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in ["fanread-cli", "workload", "testkit", "rivals"] {
        // A copy of the library alone, as a registry delivers it, has no neighbours.
        if crates.join(name).is_dir() {
            let sources = sources(&crates.join(name));
            assert_kept(&sources, |source, broken| {
                // These have their own layout; `fence` knows one place where they may.
                let moved = Source {
                    path: format!("{name}/{}", source.path),
                    lines: source.lines.clone(),
                    code: source.code.clone(),
                };
                text(&moved, broken);
                fence(&moved, broken);
            });
        }
    }
}

/// The tests that a page names, as `file::test`.
fn named_tests(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let named = page.split('`').skip(1).step_by(2).filter_map(|word| word.split_once("::"));
    named.filter(|(file, _)| Path::new(file).extension().is_some_and(|extension| extension == "rs"))
}

/// Whether a source has a test of this name: a function, or an entry of a list of tests.
fn has_test(source: &Source, name: &str) -> bool {
    let mut before = "";
    source.words().any(|(at, word)| {
        let is_test = before == "fn" || source.code[at + word.len()..].starts_with(": ");
        before = word;
        word == name && is_test
    })
}

#[test]
fn every_promise_names_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // As above: a copy of the library alone has no pages beside it.
    let Ok(page) = fs::read_to_string(root.join("../../docs/promises.md")) else { return };
    let mut broken = Vec::new();
    for (file, test) in named_tests(&page) {
        let is_there = fs::read_to_string(root.join(file))
            .is_ok_and(|text| has_test(&Source::new(file, &text), test));
        if !is_there {
            broken.push(format!("{file} has no test {test}"));
        }
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
    // Each line of its tables but the first two of each names one.
    let lines = page.lines().filter(|line| line.starts_with('|'));
    let unproved = lines.filter(|line| !line.ends_with("| test |") && !line.contains("---"));
    let unproved: Vec<_> = unproved.filter(|line| named_tests(line).next().is_none()).collect();
    assert!(unproved.is_empty(), "promises without a test: {unproved:#?}");
}

#[test]
fn a_test_is_told_from_what_only_has_its_name() {
    let source = Source::new("x.rs", "// fn a()\nfn b() { c() }\nlist! { d: points::<u64>, e; }");
    let there = ["a", "b", "c", "d", "e"].map(|name| has_test(&source, name));
    assert_eq!(there, [false, true, false, true, false]);
    let page = "| x | `Map` `a/b.rs::c` `Vec::new` | `d.rs::e` |";
    assert!(named_tests(page).eq([("a/b.rs", "c"), ("d.rs", "e")]));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn each_rule_finds_what_breaks_it() {
    type Rule = fn(&Source, &mut Vec<String>);
    let long = "//\n".repeat(801);
    let cases: [(Rule, &str, &str, &str); 24] = [
        (
            dependencies,
            "arch/mod.rs",
            "use crate::mem::line;",
            "arch/mod.rs:1: arch (level 0) uses mem (level 1)",
        ),
        (
            dependencies,
            "hash/mod.rs",
            "\nuse crate::{\n    arch::x, key::y};",
            "hash/mod.rs:2: hash (level 1) uses key (level 1)",
        ),
        (
            dependencies,
            "index/a/mod.rs",
            "use crate::index::b::Map;",
            "index/a/mod.rs:1: index/a (level 4) uses index/b (level 4)",
        ),
        (
            dependencies,
            "index/a/search.rs",
            "use super::super::b::Map;",
            "index/a/search.rs:1: index/a (level 4) uses index/b (level 4)",
        ),
        (
            dependencies,
            "index/a/search.rs",
            "mod tests { use super::super::super::b::X; }",
            "index/a/search.rs:1: index/a (level 4) uses index/b (level 4)",
        ),
        (dependencies, "index/a/search.rs", "mod tests { use super::super::insert::X; }", ""),
        (
            dependencies,
            "batch/mod.rs",
            "fn f() { crate::prefix::f() }",
            "batch/mod.rs:1: batch (level 3) uses prefix (level 3)",
        ),
        (
            dependencies,
            "mem/arena.rs",
            "use crate::sync::{shim::AtomicU64, epoch::Guard};",
            "mem/arena.rs:1: mem (level 1) uses sync (level 1)",
        ),
        (
            dependencies,
            "index/a/mod.rs",
            "use crate::Wormhole;",
            "index/a/mod.rs:1: uses Wormhole of lib.rs",
        ),
        (
            dependencies,
            "index/a/mod.rs",
            "use crate::{api::Key, batch, mem::word};\n// crate::index::b",
            "",
        ),
        (
            fence,
            "index/a/search.rs",
            "// SAFETY: x\nunsafe { f() }",
            "index/a/search.rs:2: unsafe outside the fence",
        ),
        (fence, "index/a/raw.rs", "unsafe { f() }", "index/a/raw.rs:1: unsafe without SAFETY:"),
        (
            fence,
            "index/a/raw.rs",
            "unsafe impl Send for X {}",
            "index/a/raw.rs:1: unsafe without SAFETY:",
        ),
        (fence, "index/a/raw.rs", "// SAFETY: x\nunsafe { f() }\nunsafe fn f() {}", ""),
        (
            fence,
            "key/mod.rs",
            "/* unsafe */ let x = \"unsafe\"; let y = r#\"unsafe \"\"#; // unsafe",
            "",
        ),
        (
            fence,
            "key/mod.rs",
            "fn f<'a>(x: &'a u8) { g('\"'); unsafe { } }",
            "key/mod.rs:1: unsafe outside the fence",
        ),
        (orderings, "sync/lock.rs", "a.load(Acquire)", "sync/lock.rs:1: Acquire without ORDER:"),
        (
            orderings,
            "sync/lock.rs",
            "use x::{\n Acquire, Release};\n// ORDER: Release, pairs\na.store(1, Release)",
            "",
        ),
        (orderings, "sync/lock.rs", "#[cfg(all(test, loom))]\nmod models {\n a.load(Acquire)}", ""),
        (text, "index/a/helpers.rs", "", "index/a/helpers.rs: no index has a file of this name"),
        (text, "index/a/tests/splits.rs", "", ""),
        (text, "key/mod.rs", &long, "key/mod.rs: 801 lines, more than 800"),
        (text, "key/mod.rs", "// caf\u{e9}", "key/mod.rs:1: not ASCII"),
        // What the rule has to find; there is none in the sources.
        (text, "key/mod.rs", "\nfn f() { todo!() }", "key/mod.rs:2: todo!"),
    ];
    for (rule, path, text, expected) in cases {
        let found = broken(&[Source::new(path, text)], rule).into_iter().next();
        let found = found.unwrap_or_default();
        let start: String = found.chars().take(expected.len()).collect();
        assert_eq!(start, expected, "{path}: {text}");
        assert_eq!(found.is_empty(), expected.is_empty(), "{path}: {text}: {found}");
    }
}
