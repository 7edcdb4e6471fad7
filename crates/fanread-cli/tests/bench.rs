//! `fanread bench` from outside: what it prints, writes and refuses.

use std::fs;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use assert_cmd::Command;
use serde_json::Value;

/// Few keys and one map: a run of a fraction of a second.
const SMALL: [&str; 5] = ["bench", "--count", "2k", "--index", "wormhole"];

fn fanread() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fanread"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs and returns what was written to standard output and to standard error.
fn run(args: &[&str], input: &str, status: i32) -> (String, String) {
    let output = fanread().args(args).write_stdin(input).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{args:?}\n{out}\n{err}");
    (out, err)
}

fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn json_has_the_promised_fields() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let path = json.to_str().unwrap();
    run(&["bench", "--count", "2k", "--keys", "osm", "--json", path, "--repeat", "2"], "", 0);
    let records = records(&json);
    assert!(!records.is_empty());
    for record in &records {
        for field in [
            "index",
            "keys",
            "count",
            "workload",
            "dependent",
            "dist",
            "threads",
            "batch",
            "mops",
            "ns_per_op",
            "p50_ns",
            "p99_ns",
            "p999_ns",
            "p9999_ns",
            "p99999_ns",
            "p999999_ns",
            "max_ns",
            "overhead_bytes_per_key",
            "read_ns",
            "round_trips",
            "vs_btreemap",
            "machine",
        ] {
            assert!(record.get(field).is_some(), "no {field} in {record}");
        }
        assert_eq!(record["count"], 2000);
        if record["outcome"] == "ok" {
            assert!(record["mops"].as_f64().unwrap() > 0.0);
            assert_eq!(record["runs"], 2);
        }
    }
    let of = |index: &str| records.iter().filter(|r| r["index"] == index).count();
    assert_eq!(of("wormhole"), of("btreemap"));
}

#[test]
fn a_dependent_run_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let mut args = SMALL.to_vec();
    args.extend(["--workload", "get,scan,batch", "--dependent", "--json", json.to_str().unwrap()]);
    run(&args, "", 0);
    let records = records(&json);
    assert!(records.iter().all(|record| record["dependent"] == true), "{records:?}");
    assert!(records.iter().any(|record| record["workload"] == "get"));
}

#[test]
fn every_map_answers_right_on_every_shape_of_key() {
    for keys in ["rand-8", "rand-16,klong,url", "k3,dist-a"] {
        let workloads = "load,scan-first,get,get-dep,miss,lower-bound,lower-bound-dep,batch,scan,ycsb-a,ycsb-b,ycsb-c,\
                         ycsb-d,ycsb-e,ycsb-f,grow";
        let args = ["bench", "--index", "all", "--count", "1k", "--keys", keys];
        let (out, _) = run(&[&args[..], &["--workload", workloads]].concat(), "", 0);
        assert!(!out.contains("WRONG") && !out.contains("crashed"), "{out}");
    }
}

#[test]
fn a_thread_that_scans_beside_the_others_is_checked_and_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("o.json");
    let args = ["bench", "--count", "2k", "--keys", "rand-8", "--index", "u64-map,cceh,btreemap"];
    let args = [&args[..], &["--threads", "1,2", "--workload", "ycsb-b-scans", "--json"]].concat();
    let (out, _) = run(&[&args[..], &[json.to_str().unwrap()]].concat(), "", 0);
    assert!(out.contains("needs a thread more, which scans"), "{out}");
    let records = records(&json);
    assert_eq!(records.len(), 6);
    for r in records {
        let is_able = r["index"] == "u64-map" && r["threads"] == 2;
        assert_eq!(r["outcome"], if is_able { "ok" } else { "unsupported" }, "{r}");
        if is_able {
            let [mops, ns] = ["mops", "ns_per_op"].map(|name| r[name].as_f64().unwrap());
            assert!((mops * ns - 1e3).abs() < 1e-6, "of one thread: {r}");
        }
    }
}

#[test]
fn growth_is_in_the_table_the_page_and_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let [json, csv, html] = ["o.json", "o.csv", "o.html"].map(|name| dir.path().join(name));
    let indexes = "wormhole,cuckoo-trie,btreemap";
    let args = ["bench", "--count", "2k", "--keys", "rand-8", "--index", indexes, "--threads"];
    let files = ["--json", json.to_str().unwrap(), "--csv", csv.to_str().unwrap(), "--html"];
    let files = [&files[..], &[html.to_str().unwrap()]].concat();
    let (out, _) =
        run(&[&args[..], &["1,2", "--workload", "grow,load"], &files[..]].concat(), "", 0);
    assert!(out.contains("grow-get") && out.contains("p99.9"), "{out}");
    assert!(out.contains("btreemap on rand-8: unsupported: one thread writes"), "{out}");
    let mut grown = Vec::new();
    for r in records(&json).iter().filter(|r| r["workload"] != "load") {
        let threads = r["threads"].as_u64().unwrap();
        let who = (r["index"].to_string(), r["workload"].to_string(), threads);
        if r["index"] == "btreemap" && threads == 2 {
            assert_eq!(r["outcome"], "unsupported", "{r}");
            continue;
        }
        assert_eq!(r["outcome"], "ok", "{r}");
        let times = ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|name| r[name].as_f64().unwrap());
        assert!(times.is_sorted() && r["pause_ns"].is_number(), "{r}");
        assert!(r["note"].as_str().unwrap().contains("calls timed"), "{r}");
        grown.push(who);
    }
    // Alone three maps; under a reader two, twice.
    assert_eq!(grown.len(), 7, "{grown:?}");
    let csv = fs::read_to_string(csv).unwrap();
    let heading = csv.lines().next().unwrap();
    assert!(heading.contains("p99_ns,p999_ns,p9999_ns,p99999_ns,p999999_ns,max_ns"), "{heading}");
    let page = fs::read_to_string(html).unwrap();
    assert!(page.contains("<h2>Stalls</h2>") && page.contains("<td>grow-get</td>"));
}

#[test]
fn round_trips_are_in_the_table_the_page_and_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let [json, csv, html] = ["o.json", "o.csv", "o.html"].map(|name| dir.path().join(name));
    let args =
        ["bench", "--count", "1k,1M", "--keys", "seq-8", "--index", "btreemap", "--workload"];
    let files = ["--json", json.to_str().unwrap(), "--csv", csv.to_str().unwrap(), "--html"];
    let files = [&files[..], &[html.to_str().unwrap()]].concat();
    let workloads = "get,get-dep,lower-bound,lower-bound-dep";
    let (out, _) = run(&[&args[..], &[workloads], &files[..]].concat(), "", 0);
    assert!(out.contains("Round trips: "), "{out}");
    let records = records(&json);
    assert_eq!(records.len(), 8, "{records:?}");
    for r in records {
        if r["dependent"] == true && r["count"] == 1_000_000 {
            let [trips, read] = ["round_trips", "read_ns"].map(|name| r[name].as_f64().unwrap());
            let ns = r["ns_per_op"].as_f64().unwrap();
            assert!(read > 0.0 && (trips * read - ns).abs() < 1e-6 * ns, "{r}");
        } else {
            assert!(r["round_trips"].is_null(), "{r}");
        }
    }
    let csv = fs::read_to_string(csv).unwrap();
    assert!(csv.lines().next().unwrap().contains(",read_ns,round_trips,"), "{csv}");
    assert!(fs::read_to_string(html).unwrap().contains("<h2>Round trips</h2>"));
}

#[test]
fn what_is_made_once_is_loaded_and_says_what_it_cannot_do() {
    for index in ["eytzinger", "cuckoo-table"] {
        let args = ["bench", "--index", index, "--count", "2k", "--keys", "osm", "--workload"];
        let workloads = "load,get,miss,lower-bound,lower-bound-dep,batch,scan,ycsb-a,ycsb-d,grow";
        let (out, _) = run(&[&args[..], &[workloads]].concat(), "", 0);
        let only_read = "unsupported: made once, then only read (ycsb-a, ycsb-d, grow)";
        assert!(out.contains(only_read), "{out}");
        assert_eq!(out.matches("unsupported").count(), 1, "{out}");
    }
}

#[test]
fn a_map_of_hashes_does_all_but_scan() {
    let args = ["bench", "--index", "cceh", "--count", "2k", "--keys", "osm", "--workload"];
    let workloads = "load,get,miss,get-dep,batch,lower-bound,scan,ycsb-a,ycsb-d,grow";
    let (out, _) = run(&[&args[..], &[workloads]].concat(), "", 0);
    assert!(out.contains("unsupported: no scans in order (lower-bound, scan"), "{out}");
    assert_eq!(out.matches("unsupported").count(), 1, "{out}");
}

#[test]
fn a_table_takes_keys_of_one_length() {
    let args = ["bench", "--index", "cuckoo-table", "--count", "2k", "--workload", "get,batch"];
    let (out, err) = run(&[&args[..], &["--keys", "reddit"]].concat(), "", 1);
    assert!(out.contains("unsupported: keys of several lengths (get, batch"), "{out}");
    assert!(err.contains("nothing was measured"), "{err}");
    let (out, _) = run(&[&args[..], &["--keys", "rand-16,k5", "--threads", "2"]].concat(), "", 0);
    assert!(!out.contains("unsupported"), "{out}");
}

/// The commands of `benchmarks/definitions` are ones that this program understands.
#[test]
fn every_definition_runs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/definitions");
    let mut commands = 0;
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines().filter(|line| line.starts_with("run ")) {
            let command = line.split('"').nth(1).expect("a command in quotes");
            let mut args: Vec<&str> = command.split(' ').collect();
            for (option, few) in [("--count", "1k"), ("--repeat", "1"), ("--index", "btreemap")] {
                let at = args.iter().position(|arg| *arg == option).expect("each says how much");
                args[at + 1] = few;
            }
            run(&args, "", 0);
            commands += 1;
        }
    }
    assert!(commands > 0);
}

#[test]
fn lines_of_standard_input_are_keys() {
    let lines: String = (0..500).flat_map(|i| [format!("key {}", i % 400), "\n".into()]).collect();
    let (out, err) = run(&["bench", "--keys", "-", "--index", "wormhole,btreemap"], &lines, 0);
    assert!(out.contains("wormhole"), "{out}");
    assert!(err.contains("left out 100 duplicates"), "{err}");
    assert!(err.contains(": 36 of 400 keys stay out of the map"), "{err}");
    let (out, _) = run(&["bench", "--keys", "-", "--index", "wormhole,u64-map"], &lines, 0);
    let rows: Vec<_> = out.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 3, "what takes numbers only has a line below, no row: {out}");
    assert!(out.contains("u64-map on stdin: unsupported: takes numbers"), "{out}");
}

#[test]
fn two_files_of_one_name_are_two_key_sets() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["a", "b"].map(|folder| {
        let folder = dir.path().join(folder);
        fs::create_dir(&folder).unwrap();
        let file = folder.join("keys.txt");
        let lines: Vec<_> = (0..50).map(|i| format!("{} {i}", folder.display())).collect();
        fs::write(&file, lines.join("\n")).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let json = dir.path().join("out.json");
    let args = ["bench", "--index", "wormhole,ordered-map", "--workload", "get", "--keys"];
    run(&[&args[..], &[&files.join(","), "--json", json.to_str().unwrap()]].concat(), "", 0);
    let records = records(&json);
    let names: Vec<_> = records.iter().map(|r| r["keys"].as_str().unwrap()).collect();
    assert_eq!(names, [&files[0], &files[0], &files[1], &files[1]]);
}

#[test]
fn few_keys_are_enough() {
    for lines in ["one\n", "one\ntwo\n", "\u{1f980}\n\n"] {
        let args = ["bench", "--keys", "-", "--index", "wormhole,btreemap"];
        let (out, _) = run(&args, lines, 0);
        assert!(out.contains("wormhole"), "{out}");
    }
}

#[test]
fn bad_input_gives_one_line_and_status_2() {
    let long = "x".repeat(1 << 20);
    let cases: &[(&[&str], &str, &str)] = &[
        (&["bench", "--keys", "-"], "", "no keys"),
        (&["bench", "--keys", "-"], "\n\n", "no keys"),
        (&["bench", "--keys", "-"], &long, "line 1 of standard input has 1048576 bytes"),
        (&["bench", "--keys", "no-such-set"], "", "no file and no key set"),
        (&["bench", "--keys", "-", "--count", "1k,2k"], "a", "read once"),
        (&["bench", "--index", "nonsense"], "", "no such index"),
        (&["bench", "--workload", "sleep"], "", "ycsb-e, grow"),
        (&["bench", "--count", "many"], "", "not a number"),
        (&["bench", "--count", "0"], "", "out of range"),
        (&["bench", "--threads", "0"], "", "from 1 to"),
        (&["bench", "--batch", "9999"], "", "from 1 to"),
        (&["bench", "--dist", "odd"], "", "uniform or zipf"),
        (&["bench", "--fail-if-slower", "5%"], "", "--baseline"),
        (&["bench", "--baseline", "/no/such/file"], "", "cannot read"),
        (&["bench", "--json", "/no/such/dir/file"], "", "cannot write"),
        (&["bench", "--bogus"], "", "--bogus"),
        (&["bogus"], "", "bogus"),
    ];
    for (args, input, expected) in cases {
        let (out, err) = run(args, input, 2);
        assert_eq!(out, "", "{args:?}");
        assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
        assert!(err.starts_with("fanread: ") && err.contains(expected), "{args:?}: {err}");
    }
}

/// Its first page is nobody's, so the system opens it and reads nothing.
#[cfg(target_os = "linux")]
#[test]
fn what_the_system_does_not_read_is_one_line_and_status_1() {
    for option in ["--keys", "--baseline"] {
        let (out, err) = run(&["bench", "--count", "1k", option, "/proc/self/mem"], "", 1);
        assert_eq!(out, "", "{option}");
        assert_eq!(err.lines().count(), 1, "{option}: {err}");
        assert!(err.starts_with("fanread: cannot read /proc/self/mem: "), "{option}: {err}");
    }
}

#[test]
fn a_fall_below_the_baseline_fails_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old.json");
    let old = old.to_str().unwrap();
    let args = [&SMALL[..], &["--workload", "get", "--keys", "rand-8"]].concat();
    run(&[&args[..], &["--json", old]].concat(), "", 0);
    let (out, _) =
        run(&[&args[..], &["--baseline", old, "--fail-if-slower", "100%"]].concat(), "", 0);
    assert!(out.contains("compared with the baseline"), "{out}");
    // The same run on a machine a thousand times as fast.
    let mut record = records(Path::new(old)).remove(0);
    record["mops"] = (record["mops"].as_f64().unwrap() * 1000.0).into();
    fs::write(old, record.to_string()).unwrap();
    let (_, err) =
        run(&[&args[..], &["--baseline", old, "--fail-if-slower", "5%"]].concat(), "", 1);
    // By more than 99.95 % if the machine had something else to do just then.
    assert!(err.contains("slower by 99.") || err.contains("slower by 100."), "{err}");
}

#[test]
fn a_run_that_the_baseline_says_nothing_of_is_not_found_fast_enough() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old.json");
    let old = old.to_str().unwrap();
    let args = [&SMALL[..], &["--workload", "get", "--keys", "rand-8"]].concat();
    run(&[&args[..], &["--json", old]].concat(), "", 0);
    let other = [&SMALL[..], &["--workload", "get", "--keys", "osm", "--baseline", old]].concat();
    let (out, _) = run(&other, "", 0);
    assert!(out.contains("the baseline has none of these figures"), "{out}");
    let (_, err) = run(&[&other[..], &["--fail-if-slower", "5%"]].concat(), "", 1);
    assert!(err.contains("the baseline has none of these figures"), "{err}");
}

#[test]
fn the_page_stands_alone() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let path = page.to_str().unwrap();
    let args = ["bench", "--count", "1k,2k", "--keys", "reddit", "--html", path];
    run(&[&args[..], &["--index", "wormhole,btreemap", "--workload", "get"]].concat(), "", 0);
    let page = fs::read_to_string(page).unwrap();
    for part in ["<svg", "Machine", "Throughput", "Latency", "Growth", "wormhole"] {
        assert!(page.contains(part), "no {part}");
    }
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http") && !outside.contains("<script"), "loads something");
}

#[test]
fn json_on_standard_output_leaves_the_table_to_standard_error() {
    let args = [&SMALL[..], &["--workload", "get", "--json", "-"]].concat();
    let (out, err) = run(&args, "", 0);
    assert!(out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{out}");
    assert!(err.contains("M operations/s"), "{err}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = Process::new(env!("CARGO_BIN_EXE_fanread"))
        .args(SMALL)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_closed_standard_error_changes_no_status() {
    for (args, status) in [(&["bench", "--keys", "no-such-set"][..], 2), (&["bogus"], 2)] {
        let mut child = Process::new(env!("CARGO_BIN_EXE_fanread"))
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stderr.take());
        assert_eq!(child.wait().unwrap().code(), Some(status), "{args:?}");
    }
}

#[test]
fn a_report_shows_what_several_runs_have_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (small, large) = (path("small.jsonl"), path("large.jsonl"));
    for (count, file) in [("2k", &small), ("4k", &large)] {
        let maps = ["bench", "--index", "u64-map,btreemap", "--keys", "rand-8", "--count", count];
        run(&[&maps[..], &["--workload", "get", "--json", file]].concat(), "", 0);
    }
    let (page, plots) = (path("page.html"), path("plots"));
    let (table, _) = run(&["report", &small, &large, "--html", &page, "--svg", &plots], "", 0);
    assert!(table.contains("rand-8 2000") && table.contains("rand-8 4000"), "{table}");
    assert!(fs::read_to_string(page).unwrap().contains("<h2>Growth</h2>"));
    let files = fs::read_dir(plots).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["get-rand-8-4000.svg", "growth-get-rand-8.svg"]);
    run(&["report", &path("none")], "", 2);
    let nowhere = path("none/page.html");
    let (_, err) = run(&["report", &small, "--html", &nowhere], "", 2);
    assert!(err.starts_with(&format!("fanread: cannot write {nowhere}: ")), "{err}");
    let (_, err) = run(&["report", &small, "--svg", &large], "", 2);
    assert!(err.starts_with(&format!("fanread: cannot write {large}: ")), "{err}");
}

#[test]
fn a_plot_of_one_number_of_threads_does_not_take_the_place_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, plots) = (path("both.jsonl"), path("plots"));
    let args = ["bench", "--index", "u64-map", "--keys", "rand-8", "--count", "2k", "--workload"];
    run(&[&args[..], &["get", "--threads", "1,2", "--json", &json]].concat(), "", 0);
    run(&["report", &json, "--svg", &plots], "", 0);
    let files = fs::read_dir(plots).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["get-rand-8-2000-1-thread.svg", "get-rand-8-2000-2-threads.svg"]);
}

#[test]
fn the_help_names_all_maps_and_one_has_two_names() {
    let (help, _) = run(&["bench", "--help"], "", 0);
    for name in ["u64-map", "skiplist-plain", "btreemap", "cceh-file"] {
        assert!(help.contains(name), "{name} in {help}");
    }
    let args = ["bench", "--index", "skip-list", "--keys", "rand-8", "--count", "1k"];
    let (table, _) = run(&[&args[..], &["--workload", "get"]].concat(), "", 0);
    assert!(table.contains("skiplist") && !table.contains("ratio to btreemap"), "{table}");
}

#[test]
fn equal_runs_tell_what_the_map_does_by_itself() {
    let args = ["store", "bench", "--index", "cceh", "--count", "5k", "--workload", "grow"];
    let (table, _) = run(&[&args[..], &["--hash-seed", "1", "--repeat", "2"]].concat(), "", 0);
    assert!(table.contains("each of 5000 insertions as in the fastest of 2 equal runs"), "{table}");
    let (table, _) = run(&[&args[..], &["--hash-seed", "1"]].concat(), "", 0);
    assert!(!table.contains("| grow-least"), "{table}");
}
