//! Checks between the timed runs, with no clock running.
//!
//! The timed loops compare every answer. These checks ask what they cannot: is a repeated insert
//! noticed, does a scan from an absent key start at the right place and give whole keys in strict
//! order, is the last update the one that is kept, is a removed key gone.

use workload::Rng;
use workload::keyset::KeySet;
use workload::mix::{Op, SCAN_ENTRIES, ScanReference, Stream, difference, value_of, with_version};
use workload::order::Order;
use workload::subject::{Handle, Subject};

use crate::bench::driver::version_at;

/// How many keys are tried, and how many scans.
const KEYS: usize = 1000;
const SCANS: usize = 64;

/// Checks a map that holds exactly the first `keys.present()` keys.
pub(crate) fn loaded<S: Subject>(
    map: &mut S,
    keys: &KeySet,
    order: Option<&Order>,
    seed: u64,
) -> Result<(), String> {
    let mut handle = map.own();
    let mut rng = Rng::new(seed);
    for _ in 0..KEYS {
        let index = rng.index(keys.present());
        if !S::STATIC && handle.insert(keys.key(index), value_of(index)) {
            return Err(format!("key {index} was inserted twice"));
        }
        if keys.absent() > 0 {
            let index = keys.present() + rng.index(keys.absent());
            if handle.get(keys.key(index)).is_some() {
                return Err(format!("key {index} was found and never inserted"));
            }
        }
    }
    match order {
        // Entries of such scans cannot be seen, and each that is timed is compared.
        Some(_) if S::SUMS => Ok(()),
        Some(order) => {
            let reference = ScanReference::new(keys, order, keys.present());
            scans(&mut handle, keys, &reference, seed)
        }
        None => Ok(()),
    }
}

/// Checks that keys are there, with their values: all of them, or regularly spaced ones of many.
pub(crate) fn present<H: Handle>(handle: &mut H, keys: &KeySet) -> Result<(), String> {
    for index in (0..keys.present()).step_by(keys.present().div_ceil(100 * KEYS)) {
        if handle.get(keys.key(index)) != Some(value_of(index)) {
            return Err(format!("key {index} is lost or has another value"));
        }
    }
    Ok(())
}

/// Compares some scans, entry by entry, half of them from absent keys.
pub(crate) fn scans<H: Handle>(
    handle: &mut H,
    keys: &KeySet,
    reference: &ScanReference<'_>,
    seed: u64,
) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    for i in 0..SCANS {
        let from = if i % 2 == 0 && keys.absent() > 0 {
            keys.present() + rng.index(keys.absent())
        } else {
            rng.index(keys.present())
        };
        let right = reference.entries(from, SCAN_ENTRIES);
        let (mut at, mut fault) = (0, None);
        handle.scan(keys.key(from), SCAN_ENTRIES, |key, value| {
            let expected = right.get(at).copied();
            let same = expected.is_some_and(|index| {
                key == keys.key(index) && difference(value, value_of(index)) == 0
            });
            if !same && fault.is_none() {
                fault = Some(at);
            }
            at += 1;
        });
        if let Some(fault) = fault {
            return Err(format!("entry {fault} of a scan from key {from} is wrong"));
        }
        if at != right.len() {
            return Err(format!("a scan from key {from} gave {at} entries, not {}", right.len()));
        }
    }
    Ok(())
}

/// Compares the first entries at or above some keys, half of them absent ones, with whole keys.
pub(crate) fn bounds<H: Handle>(
    handle: &mut H,
    keys: &KeySet,
    reference: &ScanReference<'_>,
    seed: u64,
) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    for i in 0..KEYS {
        let from = if i % 2 == 0 && keys.absent() > 0 {
            keys.present() + rng.index(keys.absent())
        } else {
            rng.index(keys.present())
        };
        let right = reference.entries(from, 1).first().copied();
        let (mut found, mut same) = (0, true);
        handle.lower_bound(keys.key(from), |key, value| {
            found += 1;
            same &= right.is_some_and(|index| {
                key == keys.key(index) && difference(value, value_of(index)) == 0
            });
        });
        if !same || found != usize::from(right.is_some()) {
            return Err(format!("the first entry at or above key {from} is wrong"));
        }
    }
    Ok(())
}

/// Checks that each updated key holds what its last update wrote; for runs of one thread.
pub(crate) fn updates<H: Handle>(
    handle: &mut H,
    keys: &KeySet,
    stream: &Stream,
) -> Result<(), String> {
    let mut last = vec![0u8; keys.len()];
    let is_update = |i: &usize| matches!(stream.query(*i).op, Op::Update | Op::ReadUpdate);
    for i in (0..stream.len()).filter(is_update) {
        last[stream.index(i)] = version_at(i);
    }
    for i in (0..stream.len()).filter(is_update) {
        let index = stream.index(i);
        let right = with_version(value_of(index), last[index]);
        if handle.get(keys.key(index)) != Some(right) {
            return Err(format!("the last update of key {index} is lost"));
        }
    }
    Ok(())
}

/// Checks that removed keys are gone and can come back. Leaves the map as it was, but for
/// versions.
pub(crate) fn removals<H: Handle>(handle: &mut H, keys: &KeySet) -> Result<(), String> {
    let indexes = || (0..keys.present()).step_by(keys.present().div_ceil(KEYS));
    for index in indexes() {
        if !handle.remove(keys.key(index)) {
            return Err(format!("key {index} could not be removed"));
        }
    }
    for index in indexes() {
        if handle.get(keys.key(index)).is_some() || handle.remove(keys.key(index)) {
            return Err(format!("key {index} is still there after its removal"));
        }
        let neighbour = index + 1;
        if neighbour < keys.present()
            && keys.present() > 2 * KEYS
            && handle.get(keys.key(neighbour)).is_none()
        {
            return Err(format!("key {neighbour} went with the removal of another"));
        }
    }
    for index in indexes() {
        if !handle.insert(keys.key(index), value_of(index)) {
            return Err(format!("key {index} could not come back after its removal"));
        }
    }
    Ok(())
}
