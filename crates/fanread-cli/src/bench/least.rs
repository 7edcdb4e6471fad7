//! Runs that do the same: how long each insertion takes in the run where it was fastest.
//!
//! A machine holds a thread up at any call, and a long run has a call of milliseconds for which the
//! map did nothing. Runs with the same keys and the same hash seed do the same work at the same
//! insertion, and what holds a thread up comes at another one each time: so of each insertion the least
//! time of all runs is kept, and a map that stalls by itself stalls there too. The first touch of a page is
//! in it, as each run has it at the same place, but not what one host page of many costs now and then.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::bench::clock::Latency;
use crate::bench::job::{Case, GROW_LEAST, Line};

/// The latencies of all insertions of each run.
#[derive(Debug, Default)]
pub(crate) struct EqualRuns(Vec<NamedTempFile>);

impl EqualRuns {
    /// Makes room for one more run, and returns where it is to [`keep`] them.
    pub(crate) fn one_more(&mut self) -> io::Result<PathBuf> {
        let file = NamedTempFile::new()?;
        let path = file.path().to_owned();
        self.0.push(file);
        Ok(path)
    }

    /// Returns what the runs have in common; nothing if there are not two, or if one of them ended early.
    pub(crate) fn line(&self) -> io::Result<Option<Line>> {
        let sizes: Vec<_> = self
            .0
            .iter()
            .map(|file| Ok(file.as_file().metadata()?.len()))
            .collect::<io::Result<_>>()?;
        let Some(&bytes) = sizes.first().filter(|_| sizes.len() > 1) else { return Ok(None) };
        if bytes == 0 || sizes.iter().any(|size| *size != bytes) {
            return Ok(None);
        }
        let mut runs: Vec<_> = self
            .0
            .iter()
            .map(|file| Ok(BufReader::new(file.reopen()?)))
            .collect::<io::Result<_>>()?;
        let (mut latency, mut total, mut longest) = (Latency::one_in(1), 0, (0, 0));
        let calls = bytes / 4;
        for call in 0..calls {
            let mut least = u32::MAX;
            for run in &mut runs {
                least = least.min(next(run)?);
            }
            latency.record_ns(u64::from(least));
            total += u64::from(least);
            longest = longest.max((least, call + 1));
        }
        Ok(Some(Line::Measured {
            case: Case::plain(GROW_LEAST),
            mops: calls as f64 * 1e3 / total.max(1) as f64,
            core_share: 1.0,
            latency: latency.percentiles(),
            pause_ns: None,
            note: Some(format!(
                "each of {calls} insertions as in the fastest of {} equal runs; number {} is the longest",
                runs.len(),
                longest.1
            )),
        }))
    }
}

/// Writes the nanoseconds of each insertion of a run.
pub(crate) fn keep(path: &Path, calls: &[u32]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    calls.iter().try_for_each(|ns| out.write_all(&ns.to_le_bytes()))?;
    out.flush()
}

fn next(run: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    run.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::{EqualRuns, keep};
    use crate::bench::job::Line;

    fn runs(all: &[&[u32]]) -> EqualRuns {
        let mut runs = EqualRuns::default();
        for calls in all {
            let path = runs.one_more().unwrap();
            keep(&path, calls).unwrap();
        }
        runs
    }

    #[test]
    fn an_insertion_counts_as_in_its_fastest_run() {
        let line = runs(&[&[5, 9000, 7], &[6, 8, 7000], &[5, 8, 7]]).line().unwrap();
        let Some(Line::Measured { latency: Some(latency), mops, .. }) = line else {
            panic!("{line:?}")
        };
        assert_eq!((latency.p50, latency.max), (7.0, 8.0));
        assert!((mops - 150.0).abs() < 1e-9, "{mops}");
        // What is slow in all runs stays.
        let line = runs(&[&[5, 9000], &[6, 8000]]).line().unwrap();
        let Some(Line::Measured { latency: Some(latency), .. }) = line else { panic!("{line:?}") };
        assert!((8000.0..8200.0).contains(&latency.max), "{}", latency.max);
    }

    #[test]
    fn nothing_is_said_of_one_run_or_of_one_that_ended_early() {
        for few in [&[][..], &[&[1, 2][..]], &[&[1, 2], &[1]], &[&[1, 2], &[]], &[&[], &[]]] {
            assert_eq!(runs(few).line().unwrap(), None);
        }
    }
}
