//! `fanread bench --history`: what it writes is judged by the test kit's checker, which refuses it once it is damaged.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use testkit::history::{Call, Event, History, Violation};

/// Runs with the arguments and returns the lines that it wrote.
fn lines(args: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_fanread"))
        .args(["bench", "--history", path.to_str().unwrap()])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Reads a history as `docs/formats/history.md` says.
fn history(lines: &[Value]) -> History {
    let mut threads: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for line in lines {
        let number = |name: &str| line[name].as_u64();
        let must = |name: &str| number(name).unwrap_or_else(|| panic!("{name} in {line}"));
        assert!(line.get("r").is_some(), "an answer in {line}");
        let answer = number("r");
        let call = match line["op"].as_str().unwrap() {
            "get" => Call::Get { found: answer },
            "insert" => Call::Insert { value: must("v"), old: answer },
            "remove" => Call::Remove { old: answer },
            "update" => Call::Update { value: must("v"), old: answer },
            "get-or-insert" => Call::GetOrInsert { value: must("v"), now: must("r") },
            "compare-exchange" => {
                let (expected, value) = (Some(must("e")), Some(must("v")));
                Call::CompareExchange { expected, value, found: answer }
            }
            other => panic!("{other}"),
        };
        let key = must("k").try_into().unwrap();
        let event = Event { began: must("t0"), ended: must("t1"), key, call };
        threads.entry(must("c")).or_default().push(event);
    }
    History { initial: BTreeMap::new(), threads: threads.into_values().collect() }
}

#[test]
fn a_history_is_linearizable_and_a_damaged_one_is_not() {
    for (index, keys) in [
        ("ordered-map", "reddit"),
        ("wormhole", "url"),
        ("cuckoo-trie", "az"),
        ("u64-map", "osm"),
        ("mlp-index", "osm"),
        ("skiplist", "reddit"),
        ("skiplist", "rand-8"),
        ("cceh", "rand-8"),
    ] {
        let args = ["--index", index, "--keys", keys, "--threads", "3", "--count", "300"];
        let mut lines = lines(&args);
        assert_eq!(lines.len(), 3 * (100_000 / 3));
        assert!(lines.is_sorted_by_key(|line| line["t0"].as_u64()));
        let right = history(&lines);
        right.check().unwrap_or_else(|violation| panic!("{index}: {violation}"));
        assert_eq!(right.threads.len(), 3);
        // Some answers in the middle are others. One alone may be as right, if a thread had to wait in the midst of a removal.
        let is_found = |line: &&mut Value| line["op"] == "get" && line["r"].is_u64();
        let found = lines.iter_mut().skip(50_000).filter(is_found).take(20);
        found.for_each(|line| line["r"] = Value::Null);
        let verdict = history(&lines).check();
        assert!(matches!(verdict, Err(Violation::NotLinearizable { .. })), "{index}: {verdict:?}");
    }
}

#[test]
fn a_history_is_of_one_map_that_takes_the_keys() {
    for args in [
        &["--index", "all"][..],
        &["--index", "wormhole,u64-map"],
        &["--index", "u64-map", "--keys", "url"],
        &["--index", "btreemap"],
        &["--json", "-"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_fanread"))
            .args(["bench", "--history", "-", "--count", "10"])
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_history_that_cannot_be_written_leaves_the_one_that_is_there() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "calls").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fanread"))
        .args(["bench", "--index", "btreemap", "--count", "10", "--history"])
        .arg(file.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "calls");
}

/// Runs with room for some threads, not for a thousand; those that have started do not wait for the others for ever.
#[test]
#[cfg(target_os = "linux")]
fn threads_that_cannot_be_started_end_the_run() {
    for what in [&["--history", "/dev/null"][..], &["--workload", "get"]] {
        let output = Command::new("sh")
            .args(["-c", "ulimit -v 1500000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_fanread")])
            .args(["bench", "--index", "ordered-map", "--keys", "rand-8", "--count", "2k"])
            .args(["--threads", "1024"])
            .args(what)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what:?}: {said}");
        assert!(said.contains("fanread: cannot start a thread"), "{what:?}: {said}");
    }
}
