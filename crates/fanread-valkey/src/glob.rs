//! Patterns as the server's `SCAN` has them: `*`, `?`, `[abc]`, `[^a-z]`, and `\` in front of a byte that stands for itself.

/// Whether `text` matches the whole of `pattern`.
///
/// Time is the product of both lengths at most: a star that does not work out is lengthened by a byte, and only the last one is.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Behind the last star, and where its text ends so far.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            star = Some((p, t));
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        if t < text.len()
            && let Some(next) = one(pattern, p, text[t])
        {
            (p, t) = (next, t + 1);
            continue;
        }
        match &mut star {
            Some((after, end)) if *end < text.len() => {
                *end += 1;
                (p, t) = (*after, *end);
            }
            _ => return false,
        }
    }
}

/// Matches one byte against the element of the pattern at `at`; returns where the next one starts.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => class(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        own => (own == byte).then_some(at + 1),
    }
}

/// Matches one byte against a class whose first byte inside of the bracket is at `at`. A class that is not closed ends with the
/// pattern.
fn class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(at..) {
            None | Some([]) => break,
            Some([b']', ..]) => {
                at += 1;
                break;
            }
            Some([b'\\', own, ..]) => {
                found |= *own == byte;
                at += 2;
            }
            Some([low, b'-', high, ..]) => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            Some([own, ..]) => {
                found |= *own == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}
