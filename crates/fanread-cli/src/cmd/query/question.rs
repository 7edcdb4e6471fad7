//! Questions about a map, and how they are written.

/// What can be asked, as `help` shows it.
pub(super) const HELP: &str = "\
get KEY                 the entry of KEY
range FROM TO [LIMIT]   entries from FROM up to, but not including, TO
prefix P [LIMIT]        entries whose keys begin with P
floor KEY               the last entry at or below KEY
ceiling KEY             the first entry at or above KEY
first, last             the first or last entry
count [P | FROM TO]     how many entries: all, those with prefix P, or FROM up to TO
help, quit
Words are separated by blanks, in lines that are read. \"a b\" is one word; inside, \\\" \\\\ \\t \\xNN stand for bytes.
";

/// Which entries are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    All,
    Prefix(Vec<u8>),
    Range { from: Vec<u8>, to: Vec<u8> },
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Get(Vec<u8>),
    Range { from: Vec<u8>, to: Vec<u8>, limit: Option<usize> },
    Prefix { prefix: Vec<u8>, limit: Option<usize> },
    Floor(Vec<u8>),
    Ceiling(Vec<u8>),
    First,
    Last,
    Count(Counted),
    Help,
    Quit,
}

impl Question {
    /// Understands the words of a question, or says in one line what is wrong.
    pub(super) fn parse(words: Vec<Vec<u8>>) -> Result<Self, String> {
        let mut words = words.into_iter();
        let verb = words.next().ok_or("nothing is asked")?;
        let verb = String::from_utf8_lossy(&verb).into_owned();
        let rest: Vec<_> = words.collect();
        let usage = HELP.lines().find(|line| line.split(' ').next() == Some(&verb));
        let wrong = |what: &str| {
            let usage = usage.and_then(|line| line.split("  ").next()).unwrap_or(&verb);
            format!("{what}: {usage}")
        };
        let few = || wrong("too few words for");
        let mut rest = rest.into_iter();
        let mut next = || rest.next();
        let limit = |word: Option<Vec<u8>>| {
            let number = |word: Vec<u8>| {
                let text = String::from_utf8_lossy(&word).into_owned();
                text.parse::<usize>().map_err(|_| wrong(&format!("{text:?} is no limit for")))
            };
            word.map(number).transpose()
        };
        let question = match verb.as_str() {
            "get" => Self::Get(next().ok_or_else(few)?),
            "range" => {
                let (from, to) = (next().ok_or_else(few)?, next().ok_or_else(few)?);
                Self::Range { from, to, limit: limit(next())? }
            }
            "prefix" => {
                let prefix = next().ok_or_else(few)?;
                Self::Prefix { prefix, limit: limit(next())? }
            }
            "floor" => Self::Floor(next().ok_or_else(few)?),
            "ceiling" => Self::Ceiling(next().ok_or_else(few)?),
            "first" => Self::First,
            "last" => Self::Last,
            "count" => Self::Count(match (next(), next()) {
                (Some(from), Some(to)) => Counted::Range { from, to },
                (Some(prefix), None) => Counted::Prefix(prefix),
                _ => Counted::All,
            }),
            "help" => Self::Help,
            "quit" | "exit" => Self::Quit,
            _ => return Err(format!("{verb:?} is no question, help lists them")),
        };
        if rest.next().is_some() {
            return Err(wrong("too many words for"));
        }
        Ok(question)
    }
}

/// Splits a line into words; text between double quotes is one word.
pub(super) fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut bytes = line.iter().copied().peekable();
    loop {
        while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
        if bytes.peek().is_none() {
            return Ok(words);
        }
        if bytes.next_if_eq(&b'"').is_some() {
            words.push(quoted(&mut bytes)?);
        } else {
            let word = std::iter::from_fn(|| bytes.next_if(|byte| !byte.is_ascii_whitespace()));
            words.push(word.collect());
        }
    }
}

/// Reads a word up to its closing quote.
fn quoted(bytes: &mut impl Iterator<Item = u8>) -> Result<Vec<u8>, String> {
    let mut word = Vec::new();
    loop {
        match bytes.next().ok_or("a quote is not closed")? {
            b'"' => return Ok(word),
            b'\\' => word.push(match bytes.next() {
                Some(byte @ (b'"' | b'\\')) => byte,
                Some(b't') => b'\t',
                Some(b'x') => {
                    let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16));
                    let pair = digit(bytes.next()).zip(digit(bytes.next()));
                    let (high, low) = pair.ok_or("\\x is not followed by two digits")?;
                    (high << 4 | low) as u8
                }
                _ => return Err("a backslash stands before none of \" \\ t x".to_owned()),
            }),
            byte => word.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Result<Question, String> {
        Question::parse(words(line.as_bytes())?)
    }

    #[test]
    fn every_question_is_understood() {
        let b = |text: &str| text.as_bytes().to_vec();
        assert_eq!(ask("get kiwi"), Ok(Question::Get(b("kiwi"))));
        assert_eq!(ask("  get\t\"two words\" "), Ok(Question::Get(b("two words"))));
        assert_eq!(ask(r#"get "a\"\\\t\x00\xfF""#), Ok(Question::Get(b"a\"\\\t\0\xff".to_vec())));
        let range = |limit| Question::Range { from: b("a"), to: b("b"), limit };
        assert_eq!(ask("range a b"), Ok(range(None)));
        assert_eq!(ask("range a b 3"), Ok(range(Some(3))));
        let prefix = |limit| Question::Prefix { prefix: Vec::new(), limit };
        assert_eq!(ask("prefix \"\""), Ok(prefix(None)));
        assert_eq!(ask("prefix \"\" 1"), Ok(prefix(Some(1))));
        assert_eq!(ask("count"), Ok(Question::Count(Counted::All)));
        assert_eq!(ask("count a"), Ok(Question::Count(Counted::Prefix(b("a")))));
        let range = Counted::Range { from: b("a"), to: b("b") };
        assert_eq!(ask("count a b"), Ok(Question::Count(range)));
        assert_eq!(ask("exit"), Ok(Question::Quit));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let cases = [
            ("", "nothing is asked"),
            ("fetch x", "\"fetch\" is no question, help lists them"),
            ("get", "too few words for: get KEY"),
            ("get a b", "too many words for: get KEY"),
            ("range a", "too few words for: range FROM TO [LIMIT]"),
            ("range a b -1", "\"-1\" is no limit for: range FROM TO [LIMIT]"),
            (
                "prefix a 99999999999999999999",
                "\"99999999999999999999\" is no limit for: prefix P [LIMIT]",
            ),
            ("count a b c", "too many words for: count [P | FROM TO]"),
            ("get \"a", "a quote is not closed"),
            ("get \"\\q\"", "a backslash stands before none of \" \\ t x"),
            ("get \"\\x1\"", "\\x is not followed by two digits"),
        ];
        for (line, message) in cases {
            assert_eq!(ask(line), Err(message.to_owned()), "{line}");
        }
    }
}
