//! Numbers as the server reads and writes them.

/// Reads an integer: no sign but `-`, no leading zeros, nothing beside the digits.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// Digits behind the point that are kept, as in the server's replies.
const PLACES: u32 = 17;

/// `10^PLACES`.
const ONE: i128 = 10_i128.pow(PLACES);

/// A number of so many digits that those further behind the point are below the last place, or nearly so.
const ENOUGH: i128 = 10_i128.pow(36);

/// A decimal number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Decimal {
    /// In units of `10^-PLACES`: exact, so that 0.1 and 0.2 make 0.3.
    Fixed(i128),
    /// Too large for that.
    Float(f64),
}

impl Decimal {
    /// Reads a number; `None` if it is none. Infinity is one.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        if let Some(fixed) = fixed(text) {
            return Some(Self::Fixed(fixed));
        }
        let float: f64 = str::from_utf8(text).ok()?.parse().ok()?;
        (!float.is_nan()).then_some(Self::Float(float))
    }

    /// Whether it is a number in the narrow sense.
    pub(crate) fn is_finite(self) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Float(float) => float.is_finite(),
        }
    }

    /// The sum; `None` if it is infinite or no number.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        if let (Self::Fixed(a), Self::Fixed(b)) = (self, other)
            && let Some(sum) = a.checked_add(b)
        {
            return Some(Self::Fixed(sum));
        }
        let sum = self.float() + other.float();
        sum.is_finite().then_some(Self::Float(sum))
    }

    fn float(self) -> f64 {
        match self {
            Self::Fixed(fixed) => fixed as f64 / ONE as f64,
            Self::Float(float) => float,
        }
    }

    /// Writes the number without an exponent and without zeros at its end.
    pub(crate) fn write(self) -> String {
        let text = match self {
            Self::Fixed(fixed) => {
                let sign = if fixed < 0 { "-" } else { "" };
                let (whole, part) = (
                    fixed.unsigned_abs() / ONE.unsigned_abs(),
                    fixed.unsigned_abs() % ONE.unsigned_abs(),
                );
                format!("{sign}{whole}.{part:017}")
            }
            Self::Float(float) => format!("{float:.17}"),
        };
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" { "0".into() } else { text.into() }
    }
}

/// Reads a number with an optional point and exponent into the nearest number of units of `10^-PLACES`; `None` if it is none or
/// does not fit.
fn fixed(text: &[u8]) -> Option<i128> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (digits, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], str::from_utf8(&text[at + 1..]).ok()?.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = match digits.iter().position(|byte| *byte == b'.') {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &[][..]),
    };
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let (mut value, mut places): (i128, i64) = (0, 0);
    for (at, byte) in whole.iter().chain(part).enumerate() {
        let digit = byte.is_ascii_digit().then_some(i128::from(*byte) - i128::from(b'0'))?;
        if at >= whole.len() {
            if value >= ENOUGH {
                continue;
            }
            places += 1;
        }
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    // How many places the digits have to move up to be units.
    let shift = i64::from(exponent) - places + i64::from(PLACES);
    let value = if value == 0 {
        0
    } else if shift >= 0 {
        value.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)?
    } else {
        // To the nearest last place, as what is written. Of more digits than there are, nothing is left.
        let unit = 10_i128.checked_pow(u32::try_from(-shift).ok()?);
        unit.map_or(0, |unit| value / unit + i128::from(value % unit >= unit / 2))
    };
    Some(if negative { -value } else { value })
}
