//! `fanread query` answers right, and says in one line what it cannot do.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const FRUIT: &str = "kiwi\t3\napple\t1\nplum\napricot\t2\n\nbanana\tyellow and long\n";

struct Keys {
    _folder: TempDir,
    path: PathBuf,
}

fn keys(text: impl AsRef<[u8]>) -> Keys {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("keys.txt");
    fs::write(&path, text).unwrap();
    Keys { _folder: folder, path }
}

/// What a run wrote, and its exit status.
#[derive(Debug, PartialEq)]
struct Run {
    out: String,
    err: String,
    status: i32,
}

fn fanread() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("fanread"))
}

fn run(mut command: Command, input: &[u8]) -> Run {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The program may end without having read it.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    Run {
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8(output.stderr).unwrap(),
        status: output.status.code().unwrap(),
    }
}

/// The maps that can be asked.
const INDEXES: [&str; 3] = ["wormhole", "ordered-map", "cuckoo-trie"];

fn run_args(args: &[&str]) -> Run {
    let mut command = fanread();
    command.args(args);
    run(command, b"")
}

impl Keys {
    fn ask(&self, question: &[&str]) -> Run {
        self.ask_all(question, b"")
    }

    fn script(&self, script: &str) -> Run {
        self.ask_all(&[], script.as_bytes())
    }

    /// Asks every map and returns the answer, which must be the same from all.
    fn ask_all(&self, question: &[&str], input: &[u8]) -> Run {
        let ask = |index: &str| {
            let mut command = fanread();
            command.args(["query", "--index", index]).arg(&self.path).args(question);
            run(command, input)
        };
        let first = ask(INDEXES[0]);
        for index in &INDEXES[1..] {
            assert_eq!(ask(index), first, "{index}: {question:?}");
        }
        first
    }
}

#[test]
fn every_question_is_answered_from_arguments() {
    let keys = keys(FRUIT);
    let cases: [(&[&str], &str); 16] = [
        (&["get", "kiwi"], "kiwi\t3\n"),
        (&["get", "plum"], "plum\n"),
        (&["range", "apricot", "kiwi"], "apricot\t2\nbanana\tyellow and long\n"),
        (&["range", "a", "z", "1"], "apple\t1\n"),
        (&["prefix", "ap"], "apple\t1\napricot\t2\n"),
        (&["prefix", "", "2"], "apple\t1\napricot\t2\n"),
        (&["floor", "c"], "banana\tyellow and long\n"),
        (&["floor", "plum"], "plum\n"),
        (&["ceiling", "c"], "kiwi\t3\n"),
        (&["ceiling", ""], "apple\t1\n"),
        (&["first"], "apple\t1\n"),
        (&["last"], "plum\n"),
        (&["count"], "5\n"),
        (&["count", "b", "l"], "2\n"),
        (&["count", "ap"], "2\n"),
        (&["count", "x"], "0\n"),
    ];
    for (question, answer) in cases {
        let right = Run { out: answer.to_owned(), err: String::new(), status: 0 };
        assert_eq!(keys.ask(question), right, "{question:?}");
    }
}

#[test]
fn the_wormhole_is_asked_if_no_map_is_named() {
    let help = run_args(&["query", "--help"]);
    assert!(help.out.contains("the first is loaded fastest [default: wormhole]"), "{help:?}");
    let keys = keys(FRUIT);
    let path = keys.path.to_str().unwrap();
    let answers = [
        run_args(&["query", path, "floor", "c"]),
        run_args(&["query", path, "--index", "cuckoo-trie", "floor", "c"]),
        keys.ask(&["floor", "c"]),
    ];
    assert_eq!(answers[0].out, "banana\tyellow and long\n");
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[test]
fn long_answers_are_the_same_from_every_map() {
    let lines: Vec<String> = (0..20_000_u32)
        .map(|i| format!("{}/{}\t{i}", i.wrapping_mul(2_654_435_761) % 97, i % 7_001))
        .collect();
    let keys = keys(lines.join("\n"));
    let first = "96/";
    assert!(keys.ask(&["prefix", first]).out.lines().count() > 100);
    assert!(keys.ask(&["range", "1", "5"]).out.lines().count() > 1_000);
    assert!(keys.ask(&["count", "2", "4/99"]).out.trim().parse::<u32>().unwrap() > 1_000);
    let script: Vec<_> = (0..500).map(|i| format!("floor {i}\nceiling {i}/")).collect();
    assert_eq!(keys.script(&script.join("\n")).out.lines().count(), 1_000);
}

#[test]
fn what_is_not_there_is_not_found() {
    let keys = keys(FRUIT);
    let cases: [&[&str]; 6] = [
        &["get", "pear"],
        &["floor", "a"],
        &["ceiling", "q"],
        &["range", "c", "d"],
        &["range", "z", "a"],
        &["prefix", "kiwis"],
    ];
    for question in cases {
        let run = keys.ask(question);
        assert_eq!((run.out.as_str(), run.status), ("", 1), "{question:?}");
        assert_eq!(run.err, "fanread: nothing found\n");
    }
}

#[test]
fn a_script_gets_an_answer_to_each_question() {
    let keys = keys(FRUIT);
    let run = keys.script("get apple\nget pear\n\n  count\nprefix ap 1\nquit\nget apple\n");
    assert_eq!(run.out, "apple\t1\n(none)\n5\napple\t1\n");
    assert_eq!(run.err, "fanread: 1 of 4 questions found nothing\n");
    assert_eq!(run.status, 1);
    // Without a line end at the last question, and with all found.
    let run = keys.script("first\r\nlast");
    assert_eq!(run, Run { out: "apple\t1\nplum\n".to_owned(), err: String::new(), status: 0 });
    let help = keys.script("help\n");
    assert!(help.out.contains("ceiling KEY") && help.status == 0, "{help:?}");
}

#[test]
fn a_script_goes_on_after_a_line_that_makes_no_sense() {
    let run = keys(FRUIT).script("fetch apple\nget\nfirst\nget \"kiwi\n");
    assert_eq!(run.out, "apple\t1\n");
    assert_eq!(run.status, 2);
    let lines: Vec<_> = run.err.lines().collect();
    assert_eq!(
        lines,
        [
            "fanread: line 1: \"fetch\" is no question, help lists them",
            "fanread: line 2: too few words for: get KEY",
            "fanread: line 4: a quote is not closed",
            "fanread: 3 of 4 questions made no sense",
        ]
    );
}

#[test]
fn a_script_is_answered_line_by_line() {
    let keys = keys(FRUIT);
    let mut child = fanread()
        .arg("query")
        .arg(&keys.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for (question, answer) in [("get kiwi\n", "kiwi\t3\n"), ("first\n", "apple\t1\n")] {
        stdin.write_all(question.as_bytes()).unwrap();
        let mut found = vec![0; answer.len()];
        stdout.read_exact(&mut found).unwrap();
        assert_eq!(found, answer.as_bytes());
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn keys_come_from_standard_input_too() {
    let mut command = fanread();
    command.args(["query", "-", "floor", "c"]);
    assert_eq!(run(command, b"b\r\nd\r\na\r\n").out, "b\n");
    let mut command = fanread();
    command.args(["query", "-"]);
    let refused = run(command, b"a\n");
    assert_eq!(refused.status, 2);
    assert_eq!(refused.err.lines().count(), 1, "{refused:?}");
}

#[test]
fn duplicate_keys_are_counted_and_the_last_wins() {
    let run = keys("a\t1\nb\na\t2\na\t3\n").ask(&["get", "a"]);
    assert_eq!((run.out.as_str(), run.status), ("a\t3\n", 0));
    assert_eq!(run.err, "fanread: duplicate keys: 2 lines replaced an earlier one\n");
}

#[test]
fn bytes_of_every_kind_are_keys() {
    let keys = keys(b"\x00\n\x00\x00\n\t empty key\n\xff\xfe\t\x01\n two words \n");
    assert_eq!(keys.ask(&["count"]).out, "5\n");
    assert_eq!(keys.ask(&["first"]).out, "\t empty key\n");
    assert_eq!(keys.script("get \"\\x00\\x00\"\n").out, "\0\0\n");
    assert_eq!(keys.script("get \" two words \"\n").out, " two words \n");
    assert_eq!(keys.script("prefix \"\\xff\"\n").status, 0);
}

#[test]
fn a_missing_file_is_one_line_and_status_2() {
    let mut command = fanread();
    command.args(["query", "no/such/file", "first"]);
    let run = run(command, b"");
    assert_eq!((run.out.as_str(), run.status), ("", 2));
    assert!(run.err.starts_with("fanread: cannot read no/such/file: "), "{run:?}");
    assert_eq!(run.err.lines().count(), 1);
}

#[test]
fn a_folder_is_one_line_and_status_2() {
    let folder = TempDir::new().unwrap();
    let mut command = fanread();
    command.arg("query").arg(folder.path()).arg("first");
    let run = run(command, b"");
    assert_eq!((run.status, run.err.lines().count()), (2, 1), "{run:?}");
}

/// Its first page is nobody's, so the system opens it and reads nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_the_system_does_not_read_is_one_line_and_status_1() {
    let mut command = fanread();
    command.args(["query", "/proc/self/mem", "first"]);
    let run = run(command, b"");
    assert_eq!((run.out.as_str(), run.status), ("", 1));
    assert!(run.err.starts_with("fanread: cannot read /proc/self/mem: "), "{run:?}");
    assert_eq!(run.err.lines().count(), 1);
}

#[test]
fn an_empty_file_is_one_line_and_status_1() {
    for text in ["", "\n\n"] {
        let run = keys(text).ask(&["count"]);
        assert_eq!((run.out.as_str(), run.status), ("", 1));
        assert!(run.err.ends_with("holds no keys\n") && run.err.lines().count() == 1, "{run:?}");
    }
}

#[test]
fn a_key_of_a_megabyte_is_refused_with_its_line() {
    let mut text = b"a\nb\n".to_vec();
    text.extend(vec![b'x'; 1 << 20]);
    text.extend(b"\nc\n");
    let run = keys(text).ask(&["first"]);
    assert_eq!((run.out.as_str(), run.status), ("", 2));
    assert!(run.err.ends_with("line 3: the key has 1048576 bytes, more than 65535\n"), "{run:?}");
    assert_eq!(run.err.lines().count(), 1);
}

#[test]
fn the_longest_key_and_a_megabyte_of_value_are_taken() {
    let (key, value) = ("k".repeat(65_535), "v".repeat(1 << 20));
    let keys = keys(format!("{key}\t{value}\n"));
    assert_eq!(keys.ask(&["first"]).out, format!("{key}\t{value}\n"));
}

#[test]
fn wrong_arguments_are_one_line_and_status_2() {
    let keys = keys(FRUIT);
    let refused = run_args(&["query", "--index", "btreemap", keys.path.to_str().unwrap(), "first"]);
    assert_eq!((refused.out.as_str(), refused.status), ("", 2));
    assert!(
        refused
            .err
            .contains("no such index on byte strings, use wormhole, ordered-map, cuckoo-trie"),
        "{refused:?}"
    );
    assert_eq!(refused.err.lines().count(), 1);
    let cases: [&[&str]; 7] = [
        &["fetch", "x"],
        &["get"],
        &["get", "a", "b"],
        &["range", "a"],
        &["range", "a", "b", "x"],
        &["prefix", "a", "-1"],
        &["count", "a", "b", "c"],
    ];
    for question in cases {
        let run = keys.ask(question);
        assert_eq!((run.out.as_str(), run.status), ("", 2), "{question:?}");
        assert_eq!(run.err.lines().count(), 1, "{run:?}");
        assert!(run.err.starts_with("fanread: "), "{run:?}");
    }
    let mut command = fanread();
    command.arg("query");
    assert_eq!(run(command, b"").status, 2);
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let lines: Vec<String> = (0..200_000).map(|i| i.to_string()).collect();
    let keys = keys(lines.join("\n"));
    let mut child = fanread()
        .arg("query")
        .arg(&keys.path)
        .args(["prefix", ""])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for arguments in [&["--help"][..], &["--version"], &["query", "--help"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = fanread().args(arguments).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let full = "fanread: cannot write the output: No space left on device (os error 28)\n";
        assert_eq!((output.status.code(), &err[..]), (Some(1), full), "{arguments:?}");
        // Who has closed the pipe has read enough.
        let mut child = fanread()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
    }
}
