//! Loads a file of keys into a map.
//!
//! A line is a key, or a key, a TAB and a value. What follows the key is kept
//! with its TAB, so that an entry is written as it was read. Lines without a
//! byte are skipped, and a carriage return at the end of a line is dropped.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::keys::{Keys, Map};
use crate::failure::Failure;

/// What became of the lines of a file.
pub(super) struct Loaded<M> {
    pub(super) map: M,
    /// How many lines had a key that a line above had too; the last one counts.
    pub(super) replaced: usize,
}

/// Loads the file at `path`, or standard input if it is `-`.
pub(super) fn load<M: Map>(path: &Path) -> Result<Loaded<M>, Failure> {
    let name = if is_stdin(path) { "standard input".into() } else { path.display().to_string() };
    let unreadable = |e: io::Error| Failure::unread(&e, &name);
    let mut input: Box<dyn BufRead> = if is_stdin(path) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::with_capacity(1 << 18, File::open(path).map_err(unreadable)?))
    };
    let map = M::new();
    let mut replaced = 0;
    let pinned = map.pin();
    let mut line = Vec::new();
    for number in 1_usize.. {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            break;
        }
        let text = trim_end(&line);
        if text.is_empty() {
            continue;
        }
        let tab = text.iter().position(|&byte| byte == b'\t').unwrap_or(text.len());
        let (key, rest) = text.split_at(tab);
        let longest = M::MAX_KEY_BYTES;
        if key.len() > longest {
            return Err(Failure::misuse(format!(
                "{name}, line {number}: the key has {} bytes, more than {longest}",
                key.len()
            )));
        }
        replaced += usize::from(pinned.insert(key, rest.into()));
    }
    let count = pinned.len();
    drop(pinned);
    if count == 0 {
        return Err(Failure::failed(format!("{name} holds no keys")));
    }
    Ok(Loaded { map, replaced })
}

pub(super) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Takes the end of the line off.
pub(super) fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
