//! `fanread store` as a user sees it: output, one line of error, exit status.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with the files of one test.
struct Folder(TempDir);

/// What a run wrote, and its exit status.
#[derive(Debug, PartialEq)]
struct Run {
    out: String,
    err: String,
    status: i32,
}

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Runs `fanread store` in the folder.
    fn run(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fanread"));
        command.arg("store").args(arguments).current_dir(self.0.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The program may end without having read it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Run {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            status: output.status.code().unwrap(),
        }
    }

    /// The lines that a scan prints, in order.
    fn scan(&self, options: &[&str]) -> Vec<String> {
        let run = self.run(&[&["scan", "a.store"], options].concat(), "");
        assert_eq!((run.status, &run.err[..]), (0, ""));
        let mut lines: Vec<_> = run.out.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    /// A store of three fruits.
    fn fruit() -> Self {
        let folder = Self::new();
        assert_eq!(folder.run(&["create", "a.store"], ""), done(""));
        let put = folder.run(&["put", "a.store"], "kiwi\t3\nplum\t5\r\nkiwi\t4\n\npear");
        assert_eq!(put, done("3 new, 1 replaced\n"));
        folder
    }
}

fn done(out: &str) -> Run {
    Run { out: out.to_owned(), err: String::new(), status: 0 }
}

fn failed(status: i32, err: &str) -> Run {
    Run { out: String::new(), err: format!("fanread: {err}\n"), status }
}

#[test]
fn what_one_process_puts_in_another_one_gets() {
    let folder = Folder::fruit();
    assert_eq!(folder.run(&["get", "a.store", "plum", "kiwi"], ""), done("plum\t5\nkiwi\t4\n"));
    assert_eq!(folder.run(&["put", "a.store", "-fig", ""], ""), done(""));
    assert_eq!(folder.run(&["get", "a.store", "-fig"], ""), done("-fig\t\n"));
    let got = folder.run(&["get", "a.store"], "kiwi\nakee\r\npear");
    let err = "fanread: 1 of 3 keys not found\n".to_owned();
    assert_eq!(got, Run { out: "kiwi\t4\n(none)\npear\t\n".to_owned(), err, status: 1 });
    assert_eq!(
        folder.run(&["del", "a.store", "kiwi", "akee"], ""),
        failed(1, "1 of 2 keys not found")
    );
    assert_eq!(folder.run(&["del", "a.store"], "pear\n"), done(""));
    assert_eq!(folder.scan(&[]), ["-fig\t", "plum\t5"]);
    assert_eq!(folder.scan(&["--prefix", "pl"]), ["plum\t5"]);
    assert_eq!(folder.scan(&["--limit", "1"]).len(), 1);
    assert_eq!(folder.run(&["check", "a.store"], ""), done("2 entries found, nothing lost\n"));
}

#[test]
fn keys_and_values_may_be_numbers_or_any_bytes() {
    let folder = Folder::fruit();
    let typed = ["--keys", "u64", "--values", "hex"];
    let put = [&["put", "a.store"], &typed[..], &["258", "00ff"]].concat();
    assert_eq!(folder.run(&put, ""), done(""));
    let get = [&["get", "a.store"], &typed[..], &["258"]].concat();
    assert_eq!(folder.run(&get, ""), done("258\t00ff\n"));
    let raw = ["get", "a.store", "--keys", "hex", "--values", "hex", "0000000000000102"];
    assert_eq!(folder.run(&raw, ""), done("0000000000000102\t00ff\n"));
    let wrong = [&["get", "a.store"], &typed[..], &["x"]].concat();
    assert_eq!(folder.run(&wrong, ""), failed(2, "\"x\" is not a number of 64 bits"));
}

#[test]
fn entries_come_from_files_of_every_form() {
    let folder = Folder::new();
    let write = |name: &str, text: &str| fs::write(folder.0.path().join(name), text).unwrap();
    write("a.csv", "id,score\nplum,5\n");
    write("a.ndjson", "{\"id\": \"kiwi\", \"score\": 3}\n");
    assert_eq!(folder.run(&["create", "--segment-bytes", "256", "a.store"], ""), done(""));
    for arguments in [
        &["put", "a.store", "--input", "a.csv", "--header"][..],
        &["put", "a.store", "--input", "a.ndjson", "--key-field", "id", "--value-field", "score"],
    ] {
        assert_eq!(folder.run(arguments, ""), done("1 new, 0 replaced\n"));
    }
    assert_eq!(folder.scan(&[]), ["kiwi\t3", "plum\t5"]);
}

#[test]
fn numbers_of_objects_are_kept_as_they_are_written() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["create", "a.store"], ""), done(""));
    let numbers = ["-0", "1.10", "12E5", "18446744073709551617", "18446744073709551618"];
    let lines = numbers.map(|key| format!("{{\"key\": {key}, \"value\": \"\\u0061\"}}"));
    let put = folder.run(&["put", "a.store", "--from", "ndjson"], &lines.join("\n"));
    assert_eq!(put, done("5 new, 0 replaced\n"));
    assert_eq!(folder.scan(&[]), numbers.map(|key| format!("{key}\ta")));
}

#[test]
fn many_small_runs_take_no_more_room_than_one() {
    let folder = Folder::fruit();
    let bytes = || fs::metadata(folder.0.path().join("a.store")).unwrap().len();
    let before = bytes();
    for n in 0..20 {
        let (key, value) = (format!("key {n}"), format!("value {n}"));
        assert_eq!(folder.run(&["put", "a.store", &key, &value], ""), done(""));
    }
    assert!(bytes() <= before + 32_768, "{before} bytes have become {}", bytes());
    let stat = folder.run(&["stat", "a.store"], "");
    assert_eq!(stat.status, 0);
    let entries = stat.out.lines().find(|line| line.trim_start().starts_with("entries")).unwrap();
    assert!(entries.ends_with(" 23"), "{}", stat.out);
}

#[test]
fn a_store_with_checkpoints_needs_its_working_copy_only_while_it_is_open() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["create", "--checkpoints", "a.store"], ""), done(""));
    assert_eq!(folder.run(&["put", "a.store", "kiwi", "3"], ""), done(""));
    fs::remove_file(folder.0.path().join("a.store.work")).unwrap();
    assert_eq!(folder.run(&["get", "a.store", "kiwi"], ""), done("kiwi\t3\n"));
    fs::remove_file(folder.0.path().join("a.store.journal")).unwrap();
    assert_eq!(folder.run(&["get", "a.store", "kiwi"], "").status, 2);
}

#[test]
fn what_is_wrong_with_the_input_hides_no_checkpoint_that_failed() {
    let folder = Folder::new();
    let typed = ["a.store", "--keys", "u64", "--values", "u64"];
    let lines = |value: u64| {
        let lines = (0..1000).map(|key| format!("{key}\t{value}\n"));
        lines.collect::<Vec<_>>().concat()
    };
    assert_eq!(folder.run(&["create", "--checkpoints", "a.store"], ""), done(""));
    let put = folder.run(&[&["put"], &typed[..]].concat(), &lines(1));
    assert_eq!(put, done("1000 new, 0 replaced\n"));
    let write = |name: &str, text: &str| fs::write(folder.0.path().join(name), text).unwrap();
    write("wrong.tsv", &(lines(2) + "x\t2\n"));
    write("right.tsv", &lines(3));
    write("keys", &(lines(0).replace("\t0", "") + "x\n"));
    let program = assert_cmd::cargo::cargo_bin!("fanread");
    // No file may get longer than 10 KiB, and the journal of a thousand entries would.
    let run = |verb: &str, input: &str| {
        // Whoever opens the store makes up for the checkpoint that the last run has failed to make.
        assert_eq!(folder.run(&["check", "a.store"], "").status, 0);
        let script = "trap '' XFSZ; ulimit -f 10; input=$1; shift; exec \"$@\" <\"$input\"";
        let output = Command::new("bash")
            .args(["-c", script, "bash", input])
            .arg(program)
            .args(["store", verb])
            .args(if verb == "put" { &typed[..] } else { &typed[..3] })
            .current_dir(folder.0.path())
            .output()
            .unwrap();
        (String::from_utf8(output.stderr).unwrap(), output.status.code().unwrap())
    };
    let wrong = "\"x\" is not a number of 64 bits; ";
    let full = "cannot write to a.store: File too large (os error 27)\n";
    assert_eq!(run("put", "right.tsv"), (format!("fanread: {full}"), 1));
    for (verb, input, place) in
        [("put", "wrong.tsv", "standard input, line 1001: "), ("del", "keys", "line 1001: ")]
    {
        assert_eq!(run(verb, input), (format!("fanread: {place}{wrong}{full}"), 2));
    }
}

#[test]
fn what_the_system_is_out_of_is_no_misuse() {
    let folder = Folder::fruit();
    let program = assert_cmd::cargo::cargo_bin!("fanread");
    let run = |limit: &str, arguments: &[&str]| {
        let script = format!("trap '' XFSZ; ulimit {limit}; exec \"$@\"");
        let output = Command::new("bash")
            .args(["-c", &script, "bash"])
            .arg(program)
            .arg("store")
            .args(arguments)
            .current_dir(folder.0.path())
            .output()
            .unwrap();
        (String::from_utf8(output.stderr).unwrap(), output.status.code().unwrap())
    };
    let large = "fanread: cannot make b.store: File too large (os error 27)\n".to_owned();
    assert_eq!(run("-f 10", &["create", "b.store"]), (large, 1));
    // One file at a time is enough to start, but not for a store of three.
    assert_eq!(folder.run(&["create", "--checkpoints", "c.store"], ""), done(""));
    let many = "fanread: cannot open c.store: Too many open files (os error 24)\n".to_owned();
    assert_eq!(run("-n 4", &["get", "c.store", "kiwi"]), (many, 1));
}

#[test]
fn what_is_wrong_is_told_in_one_line() {
    let folder = Folder::fruit();
    let path = folder.0.path().join("a.store");
    fs::write(folder.0.path().join("text"), vec![b'x'; 10_000]).unwrap();
    let open = fanread::Store::open(&path).unwrap();
    assert_eq!(
        folder.run(&["get", "a.store", "kiwi"], ""),
        failed(1, "cannot open a.store: another process has it open")
    );
    drop(open);
    for (arguments, status, begins) in [
        (&["create", "a.store"][..], 2, "fanread: cannot make a.store: "),
        (&["create", "--segment-bytes", "100", "b.store"], 2, "fanread: a segment of 100 bytes "),
        (&["get", "none.store", "kiwi"], 2, "fanread: cannot open none.store: "),
        (&["check", "text"], 1, "fanread: text: not a map, it begins with \""),
        (&["put", "a.store", "kiwi"], 2, "fanread: "),
        (
            &["put", "a.store", "--from", "records", "--key-bytes", "0", "--value-bytes", "0"],
            2,
            "fanread: records of 0 bytes are no entries\n",
        ),
    ] {
        let run = folder.run(arguments, "");
        assert_eq!((run.status, &run.out[..]), (status, ""), "{run:?}");
        assert!(run.err.starts_with(begins) && run.err.lines().count() == 1, "{run:?}");
    }
    let help = folder.run(&["get", "--help"], "").out;
    for said in ["get prints lines of key, TAB and value", "It needs the permission to write"] {
        assert!(help.contains(said), "{help}");
    }
    // Header and directory, without the segments.
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(2 * 16_384);
    fs::write(&path, bytes).unwrap();
    let run = folder.run(&["check", "a.store"], "");
    assert_eq!((run.status, run.err.lines().count()), (1, 1), "{run:?}");
    assert!(run.err.starts_with("fanread: a.store: damaged map: the word at byte "), "{run:?}");
}

impl Folder {
    /// Runs `fanread store bench` on few keys, and returns what it printed and its records.
    fn bench(&self, arguments: &[&str]) -> (String, Vec<Value>) {
        let fixed = ["bench", "--count", "3k", "--json", "out.json"];
        let run = self.run(&[&fixed, arguments].concat(), "");
        assert_eq!((run.status, &run.err[..]), (0, ""), "{}", run.out);
        let text = fs::read_to_string(self.0.path().join("out.json")).unwrap();
        (run.out, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

/// What a record says under a name, as a text.
fn said<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_default()
}

#[test]
fn all_maps_are_measured_beside_their_rivals() {
    let (out, records) = Folder::new().bench(&["--threads", "1,2"]);
    let ours = ["cceh", "cceh-copy-on-write", "cceh-file", "cceh-checkpoints"];
    for index in ours.into_iter().chain(["hashbrown", "linear-probing"]) {
        for threads in [1, 2] {
            for workload in ["load", "get", "miss", "batch", "grow"] {
                let mut found = records.iter().filter(|r| {
                    said(r, "index") == index
                        && said(r, "workload") == workload
                        && r["threads"] == threads
                });
                let r = found.next().unwrap_or_else(|| panic!("{index} {workload}: {out}"));
                let writes = ["load", "grow"].contains(&workload);
                let is_able = ours.contains(&index) || !writes || threads == 1;
                assert_eq!(said(r, "outcome"), if is_able { "ok" } else { "unsupported" }, "{r}");
                if workload == "grow" && is_able {
                    let times =
                        ["p50_ns", "p999_ns", "p9999_ns", "p99999_ns", "p999999_ns", "max_ns"];
                    assert!(times.map(|name| r[name].as_f64().unwrap()).is_sorted(), "{r}");
                }
            }
        }
    }
    assert!(out.contains("p99.9999") && out.contains("% of the slots"), "{out}");
}

#[test]
fn settings_are_part_of_the_name_of_what_was_measured() {
    let folder = Folder::new();
    let load = ["--workload", "load", "--index"];
    for (arguments, index, note) in [
        (&["cceh"][..], "cceh", "segments used"),
        (&["cceh", "--segment-bytes", "1024"], "cceh 1024B", "segments used"),
        (&["cceh", "--probing", "16"], "cceh probing-16", "segments used"),
        (&["cceh", "--flush-latency", "0"], "cceh counted", "lines flushed and"),
        (&["cceh-file", "--flush-latency", "200"], "cceh-file +200ns", "fences for each key"),
        (&["cceh", "--small-pages"], "cceh small-pages", "segments used"),
        (
            &["cceh-checkpoints", "--sync-every", "500"],
            "cceh-checkpoints sync-500",
            "; checkpoints: 7, ",
        ),
        (
            &["cceh-checkpoints", "--sync-every", "0"],
            "cceh-checkpoints sync-0",
            "; checkpoints: 1, ",
        ),
        (&["cceh-checkpoints", "--sync-apart"], "cceh-checkpoints apart", "; checkpoints: "),
        (&["hashbrown", "--probing", "16"], "hashbrown", ""),
    ] {
        let (_, records) = folder.bench(&[&load[..], arguments].concat());
        assert_eq!(records.len(), 1);
        assert_eq!(said(&records[0], "index"), index);
        assert_eq!(said(&records[0], "outcome"), "ok");
        assert!(said(&records[0], "note").contains(note), "{index}: {}", records[0]);
    }
}

#[test]
fn maps_of_killed_processes_are_opened_and_leave_nothing_behind() {
    let folder = Folder::new();
    let files = folder.0.path().join("files");
    fs::create_dir(&files).unwrap();
    let maps = "cceh-file,cceh-checkpoints,cceh,hashbrown";
    let open = ["--workload", "open", "--folder", "files", "--repeat", "2", "--index", maps];
    let (out, records) = folder.bench(&open);
    let outcomes: Vec<_> = records.iter().map(|r| (said(r, "index"), said(r, "outcome"))).collect();
    let (ok, not) = ("ok", "unsupported");
    assert_eq!(
        outcomes,
        [("cceh-file", ok), ("cceh-checkpoints", ok), ("cceh", not), ("hashbrown", not)]
    );
    assert!(records[0]["ns_per_op"].as_f64().unwrap() > 0.0 && records[0]["runs"] == 2);
    assert!(said(&records[0], "note").contains("entries of the directory"), "{out}");
    assert_eq!(fs::read_dir(files).unwrap().count(), 0);
}

#[test]
fn settings_that_no_map_can_have_are_told_in_one_line() {
    let folder = Folder::new();
    for (arguments, begins) in [
        (&["--segment-bytes", "100"][..], "fanread: a segment of 100 bytes "),
        (
            &["--segment-bytes", "1024", "--probing", "17"],
            "fanread: a segment of 1024 bytes has 1 to 16 ",
        ),
        (&["--probing", "0"], "fanread: a segment of 16384 bytes has 1 to 256 "),
        (&["--index", "nothing"], "fanread: "),
        (&["--flush-latency", "slow"], "fanread: "),
        (&["--index", "cceh-file", "--folder", "nowhere"], "fanread: nowhere is no folder"),
    ] {
        let run = folder.run(&[&["bench"], arguments].concat(), "");
        assert_eq!((run.status, &run.out[..]), (2, ""), "{run:?}");
        assert!(run.err.starts_with(begins) && run.err.lines().count() == 1, "{run:?}");
    }
}
