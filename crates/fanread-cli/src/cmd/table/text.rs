//! How keys and values are written outside of a table.

use std::io::{self, Write};

/// How bytes are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Form {
    /// The bytes themselves
    Text,
    /// Two hexadecimal digits a byte
    Hex,
    /// A number of 4 bytes, in the order of numbers
    U32,
    /// A number of 8 bytes, in the order of numbers
    U64,
    /// A number of 4 bytes, the low ones first
    U32le,
    /// A number of 8 bytes, the low ones first
    U64le,
}

impl Form {
    /// Understands what was written, or says in one line what is wrong.
    pub(crate) fn parse(self, text: &[u8]) -> Result<Vec<u8>, String> {
        Ok(match self {
            Self::Text => text.to_vec(),
            Self::Hex => hex(text)?,
            Self::U32 => number::<u32>(text)?.to_be_bytes().to_vec(),
            Self::U64 => number::<u64>(text)?.to_be_bytes().to_vec(),
            Self::U32le => number::<u32>(text)?.to_le_bytes().to_vec(),
            Self::U64le => number::<u64>(text)?.to_le_bytes().to_vec(),
        })
    }

    /// Writes bytes; those that are no number of the length are written in hexadecimal.
    pub(crate) fn write(self, out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let short = bytes.try_into();
        let long = bytes.try_into();
        match (self, short, long) {
            (Self::Text, ..) => out.write_all(bytes),
            (Self::U32, Ok(bytes), _) => write!(out, "{}", u32::from_be_bytes(bytes)),
            (Self::U32le, Ok(bytes), _) => write!(out, "{}", u32::from_le_bytes(bytes)),
            (Self::U64, _, Ok(bytes)) => write!(out, "{}", u64::from_be_bytes(bytes)),
            (Self::U64le, _, Ok(bytes)) => write!(out, "{}", u64::from_le_bytes(bytes)),
            _ => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        }
    }
}

fn hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = || format!("{:?} is not hexadecimal", String::from_utf8_lossy(text));
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
    if !text.len().is_multiple_of(2) {
        return Err(wrong());
    }
    text.chunks_exact(2).map(|pair| Ok((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Result<N, String> {
    let text = String::from_utf8_lossy(text);
    let bits = size_of::<N>() * 8;
    text.trim().parse().map_err(|_| format!("{text:?} is not a number of {bits} bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_understood() {
        let cases: [(Form, &str, &[u8]); 7] = [
            (Form::Text, "a b", b"a b"),
            (Form::Text, "", b""),
            (Form::Hex, "00ff1a", &[0, 255, 26]),
            (Form::U32, "258", &[0, 0, 1, 2]),
            (Form::U64, "258", &[0, 0, 0, 0, 0, 0, 1, 2]),
            (Form::U32le, "258", &[2, 1, 0, 0]),
            (Form::U64le, "258", &[2, 1, 0, 0, 0, 0, 0, 0]),
        ];
        for (form, written, bytes) in cases {
            assert_eq!(form.parse(written.as_bytes()).as_deref(), Ok(bytes), "{written}");
            let mut out = Vec::new();
            form.write(&mut out, bytes).unwrap();
            assert_eq!(out, written.as_bytes());
        }
        for (form, wrong) in
            [(Form::Hex, "0"), (Form::Hex, "0g"), (Form::U32, "4294967296"), (Form::U64, "x")]
        {
            assert!(form.parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_that_are_no_number_are_shown_as_they_are() {
        let mut out = Vec::new();
        Form::U32.write(&mut out, &[1, 2]).unwrap();
        assert_eq!(out, b"0102");
    }
}
