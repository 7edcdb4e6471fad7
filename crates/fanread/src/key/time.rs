//! Points and spans of time, to the nanosecond.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Decode, DecodeError, Encode, Sink, U64Key};

const NANOS_PER_SEC: u32 = 1_000_000_000;

impl Encode for Duration {
    const BYTES: Option<usize> = Some(12);

    fn encode(&self, out: &mut impl Sink) {
        (self.as_secs(), self.subsec_nanos()).encode(out);
    }
}

impl Decode for Duration {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        let (secs, nanos) = Decode::decode(from)?;
        match nanos {
            0..NANOS_PER_SEC => Ok(Self::new(secs, nanos)),
            _ => Err(DecodeError::OutOfRange { found: nanos.into() }),
        }
    }
}

/// Whole seconds since 1970, rounded down, and the nanoseconds behind them.
impl Encode for SystemTime {
    const BYTES: Option<usize> = Some(12);

    fn encode(&self, out: &mut impl Sink) {
        let (secs, nanos) = match self.duration_since(UNIX_EPOCH) {
            Ok(after) => (i128::from(after.as_secs()), after.subsec_nanos()),
            Err(error) => {
                let before = error.duration();
                match before.subsec_nanos() {
                    0 => (-i128::from(before.as_secs()), 0),
                    nanos => (-i128::from(before.as_secs()) - 1, NANOS_PER_SEC - nanos),
                }
            }
        };
        // The clock of every platform counts its seconds in 64 bits.
        (secs as i64, nanos).encode(out);
    }
}

impl Decode for SystemTime {
    fn decode(from: &mut &[u8]) -> Result<Self, DecodeError> {
        let (secs, nanos): (i64, u32) = Decode::decode(from)?;
        let whole = Duration::from_secs(secs.unsigned_abs());
        let start = match secs {
            0.. => UNIX_EPOCH.checked_add(whole),
            _ => UNIX_EPOCH.checked_sub(whole),
        };
        start
            .filter(|_| nanos < NANOS_PER_SEC)
            .and_then(|start| start.checked_add(Duration::from_nanos(nanos.into())))
            .ok_or(DecodeError::OutOfRange { found: secs.cast_unsigned() })
    }
}

/// Returns the `u64` for a point in time, to the nanosecond; `None` before 1677 and after 2262.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use fanread::key::{from_timestamp, timestamp};
///
/// let now = SystemTime::now();
/// let earlier = timestamp(now - Duration::from_nanos(1)).unwrap();
/// assert!(earlier < timestamp(now).unwrap());
/// assert_eq!(from_timestamp(earlier), now - Duration::from_nanos(1));
/// ```
pub fn timestamp(at: SystemTime) -> Option<u64> {
    let nanos = match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).ok()?,
        Err(error) => {
            0_i64.checked_sub_unsigned(u64::try_from(error.duration().as_nanos()).ok()?)?
        }
    };
    Some(nanos.to_u64())
}

/// Returns the point in time for a `u64` made by [`timestamp`].
pub fn from_timestamp(number: u64) -> SystemTime {
    let nanos = (number ^ 1 << 63).cast_signed();
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}
