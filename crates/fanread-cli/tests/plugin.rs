//! `fanread bench` with a map of a shared object, compiled here from C.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Compiles the map of `plugin/array.c` with what makes it faulty.
fn compiled(folder: &TempDir, faults: &[&str]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = folder.path().join("array.so");
    let done = Command::new("cc")
        .args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I"])
        .arg(here.join("../../examples/c"))
        .args(faults)
        .arg(here.join("tests/plugin/array.c"))
        .arg("-o")
        .arg(&file)
        .status();
    assert!(done.expect("a C compiler").success());
    file
}

fn bench(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fanread"));
    let usual = ["bench", "--count", "2k", "--index", "./array.so"];
    command.args(usual).args(arguments).current_dir(folder.path()).output().unwrap()
}

/// Runs the map and returns the exit status, and what was said.
fn said(faults: &[&str], arguments: &[&str]) -> (i32, String) {
    let folder = TempDir::new().unwrap();
    compiled(&folder, faults);
    let output = bench(&folder, arguments);
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn a_shared_object_is_measured_and_checked() {
    let workloads = "load,get,get-dep,miss,batch,ycsb-a,ycsb-f,scan-first,scan,lower-bound";
    let (status, text) = said(&[], &["--keys", "rand-8,reddit", "--workload", workloads]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("rand-8 2000") && text.contains("./array.so"), "{text}");
    assert!(!text.contains("unsupported"), "{text}");
}

#[test]
fn a_shared_object_that_lies_fails_the_run() {
    for (lie, workload) in [("-DLIES", "get"), ("-DLIES", "scan"), ("-DLIES", "lower-bound")] {
        let (status, text) = said(&[lie], &["--keys", "rand-8", "--workload", workload]);
        assert_eq!(status, 1, "{text}");
        assert!(text.contains("wrong answers"), "{text}");
    }
}

#[test]
fn a_shared_object_whose_calls_fail_is_said_to_have_crashed() {
    let (status, text) = said(&["-DFAILS"], &["--keys", "rand-8"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("crashed") && text.contains("function of the plugin failed"), "{text}");
}

#[test]
fn a_shared_object_is_given_what_its_flags_say_it_takes() {
    let (status, text) = said(&["-DFLAGS=4"], &["--keys", "reddit"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("takes numbers"), "{text}");
    let (status, text) = said(&["-DFLAGS=2"], &["--keys", "rand-8"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("no scans in order"), "{text}");
    let (status, text) = said(&[], &["--keys", "rand-8", "--workload", "ycsb-e"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("updates change the sums"), "{text}");
    let (status, text) = said(&[], &["--keys", "rand-8", "--threads", "2"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("one thread at a time"), "{text}");
}

#[test]
fn what_is_no_plugin_is_refused_before_anything_is_measured() {
    let (status, text) = said(&["-DLACKS_GET"], &[]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("it has no function idx_get"), "{text}");
    let (status, text) = said(&["-DFLAGS=1"], &[]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("it stores no values"), "{text}");
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("array.so"), "no object").unwrap();
    let output = bench(&folder, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be loaded"));
}
