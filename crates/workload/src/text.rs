//! Keys that read like text: tuples of reviews, user names, addresses of pages.

use std::io::Write;

use crate::distribution::Skewed;
use crate::rng::{Rng, mix64};

const BASE36: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const BASE64: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

const WORDS: [&str; 100] = [
    "amber", "arrow", "autumn", "badger", "banjo", "basil", "beacon", "birch", "blaze", "bloom",
    "blue", "boots", "brave", "brook", "candy", "cedar", "chess", "chili", "cloud", "clover",
    "comet", "coral", "crane", "crow", "daisy", "dash", "delta", "disco", "dizzy", "dusk", "eagle",
    "echo", "ember", "falcon", "fern", "finch", "flint", "foggy", "forest", "frost", "fuzzy",
    "gamma", "ginger", "goose", "grape", "happy", "harbor", "hazel", "heron", "honey", "indigo",
    "iron", "ivory", "jade", "jolly", "jumbo", "kiwi", "koala", "lemon", "light", "lilac", "lucky",
    "lunar", "maple", "marble", "mellow", "mint", "misty", "moose", "noble", "north", "ocean",
    "olive", "onyx", "otter", "panda", "pepper", "pixel", "plum", "polar", "quick", "quiet",
    "raven", "river", "robin", "rusty", "salt", "sandy", "silver", "sonic", "spark", "storm",
    "sunny", "swift", "tango", "tiger", "velvet", "violet", "willow", "zebra",
];

/// Appends `n` digits of `hash` in the base of `alphabet`.
fn push_code(out: &mut Vec<u8>, mut hash: u64, n: usize, alphabet: &[u8]) {
    for _ in 0..n {
        out.push(alphabet[(hash % alphabet.len() as u64) as usize]);
        hash /= alphabet.len() as u64;
    }
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    write!(out, "{number}").expect("writing to a vector");
}

/// `B00ITEM0ID-A1USER000ID00-1400000000`: an item, who reviewed it, when. 35 bytes; few items
/// have most of the reviews.
#[derive(Debug)]
pub(crate) struct Reviews {
    items: Skewed,
    users: Skewed,
}

impl Reviews {
    pub(crate) fn new(keys: usize) -> Self {
        Self {
            items: Skewed::new(keys / 30 + 1000, 1.08),
            users: Skewed::new(keys / 3 + 1000, 0.6),
        }
    }

    pub(crate) fn draw(&self, rng: &mut Rng, out: &mut Vec<u8>) {
        let item = mix64(self.items.rank(rng) as u64 ^ 0xa11ce);
        let user = mix64(self.users.rank(rng) as u64 ^ 0xb0b);
        out.extend_from_slice(b"B00");
        push_code(out, item, 7, BASE36);
        out.extend_from_slice(b"-A");
        out.push(b"1233"[(user & 3) as usize]);
        push_code(out, user >> 2, 11, BASE36);
        out.push(b'-');
        push_number(out, 1_000_000_000 + rng.below(480_000) * 1000);
    }
}

/// User names of a forum: words, made-up syllables and digits, about ten bytes.
#[derive(Debug)]
pub(crate) struct Names {
    words: Skewed,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self { words: Skewed::new(WORDS.len(), 0.5) }
    }

    pub(crate) fn draw(&self, rng: &mut Rng, out: &mut Vec<u8>) {
        let style = rng.below(16);
        if style == 0 {
            let n = 6 + rng.index(9);
            out.extend((0..n).map(|_| BASE64[rng.index(64)]));
            return;
        }
        let parts = if style < 7 { 1 } else { 2 + usize::from(style >= 14) };
        let capital = rng.below(3) == 0;
        for part in 0..parts {
            if part > 0 && rng.below(4) == 0 {
                out.push(if rng.below(4) == 0 { b'-' } else { b'_' });
            }
            let start = out.len();
            if rng.below(3) == 0 {
                for _ in 0..=rng.below(3) {
                    out.push(b"bcdfghjklmnprstvwz"[rng.index(18)]);
                    out.push(b"aeiouy"[rng.index(6)]);
                }
            } else {
                out.extend_from_slice(WORDS[self.words.rank(rng)].as_bytes());
            }
            if capital {
                out[start].make_ascii_uppercase();
            }
        }
        if parts == 1 || rng.below(8) < 5 {
            let most = if parts == 1 { 7 } else { 4 };
            for _ in 0..=rng.below(most) {
                out.push(b'0' + rng.below(10) as u8);
            }
        }
        out.truncate(20);
    }
}

/// `http://host/section/date/slug_number`: hosts and sections of very different sizes, about
/// 88 bytes with long shared prefixes.
#[derive(Debug)]
pub(crate) struct Addresses {
    hosts: Skewed,
    sections: Skewed,
    words: Skewed,
}

impl Addresses {
    pub(crate) fn new(keys: usize) -> Self {
        Self {
            hosts: Skewed::new(keys / 200 + 1000, 0.9),
            sections: Skewed::new(400, 0.8),
            words: Skewed::new(WORDS.len(), 0.5),
        }
    }

    pub(crate) fn draw(&self, rng: &mut Rng, out: &mut Vec<u8>) {
        let host = self.hosts.rank(rng) as u64;
        let hash = mix64(host ^ 0x0417);
        let word = |hash: u64| WORDS[(hash % WORDS.len() as u64) as usize].as_bytes();
        out.extend_from_slice(if hash.is_multiple_of(4) { b"http://" } else { b"http://www." });
        out.extend_from_slice(word(hash >> 2));
        out.extend_from_slice(word(hash >> 16));
        if hash >> 63 == 1 {
            push_number(out, host % 997);
        }
        out.extend_from_slice([".org", ".co.uk", ".com"][(hash >> 40) as usize % 3].as_bytes());
        // A section of a host is a function of both: its pages share the whole path.
        let section = self.sections.rank(rng) as u64;
        let mut path = Rng::new(hash ^ section.wrapping_mul(0x9e37));
        for _ in 0..=path.below(3) {
            out.push(b'/');
            out.extend_from_slice(word(path.bits()));
            if path.below(2) == 0 {
                out.push(b'-');
                out.extend_from_slice(word(path.bits()));
            }
        }
        write!(out, "/{}/{}/", 2001 + rng.below(16), 10 + rng.below(12)).expect("to a vector");
        let words = 2 + rng.below(5);
        for i in 0..words {
            out.extend_from_slice(WORDS[self.words.rank(rng)].as_bytes());
            out.push(if i + 1 < words { b'-' } else { b'_' });
        }
        push_number(out, rng.below(100_000_000));
        if rng.below(2) == 0 {
            out.extend_from_slice(b".html");
        }
    }
}
