//! Compiles `rocks.cc`, for the test and the benchmark that need `RocksDB`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the program to `path`, with the compiler in `CXX`. `FANREAD_ROCKSDB` says how to link: flags, divided by
/// spaces, for those who have built a `RocksDB` of their own.
pub(crate) fn compiled(path: &Path) -> PathBuf {
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let link = env::var("FANREAD_ROCKSDB").unwrap_or_else(|_| "-lrocksdb -lpthread".to_owned());
    let compiled = Command::new(&compiler)
        .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(path)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rocksdb/rocks.cc"))
        .args(link.split_whitespace())
        .output()
        .unwrap_or_else(|e| panic!("install a C++ compiler, or run ci/check.sh: {compiler}: {e}"));
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "install librocksdb-dev, or run ci/check.sh:\n{errors}");
    path.to_owned()
}
