//! `fanread table` as a user sees it: output, one line of error, exit status.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

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

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Runs `fanread table` in the folder.
    fn run(&self, arguments: &[&str], input: &[u8]) -> Run {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fanread"));
        command.arg("table").args(arguments).current_dir(self.0.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The program may end without having read it.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Run {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8(output.stderr).unwrap(),
            status: output.status.code().unwrap(),
        }
    }

    /// Builds `fruit.sst` of five entries.
    fn fruit() -> Self {
        let folder = Self::new();
        folder.write("fruit.tsv", "plum\t5\nkiwi\t3\r\nlime\t4\n\nakee\t1\npear\t6");
        let run = folder.run(&["build", "fruit.tsv", "fruit.sst"], b"");
        assert_eq!((run.status, &run.err[..]), (0, ""), "{run:?}");
        assert!(
            run.out.starts_with("5 entries in 9 buckets (55.6 %), 2 hash functions, "),
            "{run:?}"
        );
        folder
    }
}

fn done(out: &str) -> Run {
    Run { out: out.to_owned(), err: String::new(), status: 0 }
}

#[test]
fn keys_are_got_from_arguments_and_from_standard_input() {
    let folder = Folder::fruit();
    assert_eq!(folder.run(&["get", "fruit.sst", "pear", "kiwi"], b""), done("pear\t6\nkiwi\t3\n"));
    assert_eq!(folder.run(&["get", "fruit.sst", "lime"], b""), done("lime\t4\n"));
    let missed = folder.run(&["get", "fruit.sst", "pear", "figs", "apple"], b"");
    let err = "fanread: 2 of 3 keys not found\n".to_owned();
    assert_eq!(missed, Run { out: "pear\t6\n".to_owned(), err, status: 1 });
    let asked = folder.run(&["get", "fruit.sst"], b"kiwi\nfigs\r\nplum");
    let err = "fanread: 1 of 3 keys not found\n".to_owned();
    assert_eq!(asked, Run { out: "kiwi\t3\n(none)\nplum\t5\n".to_owned(), err, status: 1 });
}

#[test]
fn scans_are_in_order_and_inside_their_bounds() {
    let folder = Folder::fruit();
    let cases: [(&[&str], &str); 9] = [
        (&[], "akee\t1\nkiwi\t3\nlime\t4\npear\t6\nplum\t5\n"),
        (&["--reverse"], "plum\t5\npear\t6\nlime\t4\nkiwi\t3\nakee\t1\n"),
        (&["--from", "kiwi", "--to", "pear"], "kiwi\t3\nlime\t4\n"),
        (&["--from", "kiwi", "--to", "pear", "--reverse"], "lime\t4\nkiwi\t3\n"),
        (&["--prefix", "p"], "pear\t6\nplum\t5\n"),
        (&["--prefix", "p", "--reverse", "--limit", "1"], "plum\t5\n"),
        (&["--limit", "2"], "akee\t1\nkiwi\t3\n"),
        (&["--limit", "0"], ""),
        (&["--from", "z"], ""),
    ];
    for (options, out) in cases {
        let arguments = [&["scan", "fruit.sst"], options].concat();
        assert_eq!(folder.run(&arguments, b""), done(out), "{options:?}");
    }
}

#[test]
fn every_form_of_input_makes_the_same_table() {
    let folder = Folder::new();
    folder.write("a.tsv", "id\tscore\n7\t70\n300\t30\n");
    folder.write("a.csv", "id,score,comment\n7,70,\"a, b\"\n300,30\n");
    folder.write(
        "a.ndjson",
        "{\"id\": 7, \"score\": \"70\"}\n{\"score\": 30, \"id\": \"300\", \"x\": []}\n",
    );
    let mut records = Vec::new();
    for (id, score) in [(7_u64, 70_u32), (300, 30)] {
        records.extend_from_slice(&id.to_be_bytes());
        records.extend_from_slice(&score.to_be_bytes());
    }
    folder.write("a.bin", records);
    let typed = ["--keys", "u64", "--values", "u32"];
    let cases: [(&str, &[&str]); 4] = [
        ("a.tsv", &["--header"]),
        ("a.csv", &["--header"]),
        ("a.ndjson", &["--key-field", "id", "--value-field", "score"]),
        ("a.bin", &["--value-bytes", "4"]),
    ];
    let mut files = Vec::new();
    for (name, options) in cases {
        let arguments = [&["build"], &typed[..], options, &[name, "a.sst"]].concat();
        let run = folder.run(&arguments, b"");
        assert_eq!(run.status, 0, "{name}: {run:?}");
        let scan = [&["scan"], &typed[..], &["a.sst"]].concat();
        assert_eq!(folder.run(&scan, b""), done("7\t70\n300\t30\n"), "{name}");
        files.push(fs::read(folder.path("a.sst")).unwrap());
    }
    assert!(files.iter().all(|file| *file == files[0]));
    let input = fs::read(folder.path("a.tsv")).unwrap();
    let arguments = [&["build"], &typed[..], &["--header", "-", "b.sst"]].concat();
    assert_eq!(folder.run(&arguments, &input).status, 0);
    assert!(fs::read(folder.path("b.sst")).unwrap() == files[0]);
}

#[test]
fn numbers_of_objects_are_kept_as_they_are_written() {
    let folder = Folder::new();
    let numbers = ["123456789012345678901234567890", "123456789012345678901234567899"];
    let lines = numbers.map(|key| format!("{{\"key\": {key}, \"value\": 1.10}}"));
    folder.write("a.ndjson", lines.join("\n"));
    assert_eq!(folder.run(&["build", "a.ndjson", "a.sst"], b"").status, 0);
    let entries = numbers.map(|key| format!("{key}\t1.10\n"));
    assert_eq!(folder.run(&["scan", "a.sst"], b""), done(&entries.concat()));
    for (value, err) in [
        ("18446744073709551616", "\"18446744073709551616\" is not a number of 64 bits\n"),
        ("[ 1]", "value is neither text nor a number: [ 1]\n"),
        ("null", "value is neither text nor a number: null\n"),
        ("01", "invalid number at line 1 column 22\n"),
    ] {
        folder.write("b.ndjson", format!("{{\"key\": 1, \"value\": {value}}}"));
        let run = folder.run(&["build", "--values", "u64", "b.ndjson", "b.sst"], b"");
        let err = format!("fanread: b.ndjson, line 1: {err}");
        assert_eq!(run, Run { out: String::new(), err, status: 2 });
    }
}

#[test]
fn a_header_is_the_first_line_that_is_not_empty() {
    let folder = Folder::new();
    for (from, input) in
        [("tsv", "\r\n\nid\tscore\n\nkiwi\t3\n"), ("csv", "\r\n\nid,score\n\nkiwi,3\n")]
    {
        let build = ["build", "--from", from, "--header", "-", "a.sst"];
        assert_eq!(folder.run(&build, input.as_bytes()).status, 0, "{from}");
        assert_eq!(folder.run(&["scan", "a.sst"], b""), done("kiwi\t3\n"), "{from}");
    }
}

#[test]
fn options_of_the_format_reach_the_file() {
    let folder = Folder::new();
    let lines: Vec<_> = (0..1000).map(|i| format!("{i:08x}\t{i:04}")).collect();
    folder.write("a.tsv", lines.join("\n"));
    let options = [
        "build",
        "a.tsv",
        "a.sst",
        "--ratio",
        "0.8",
        "--depth",
        "50",
        "--block",
        "3",
        "--identity",
        "--power-of-two",
        "--first-blocks",
        "--no-checksums",
    ];
    assert_eq!(folder.run(&options, b"").status, 0);
    let stat = folder.run(&["stat", "a.sst", "--properties"], b"");
    assert_eq!(stat.status, 0);
    let row = |name: &str| {
        let line = stat.out.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {}", stat.out));
        line.trim_start()[name.len()..].trim().to_owned()
    };
    assert_eq!(row("entries"), "1000");
    assert_eq!(row("buckets"), "2050");
    assert_eq!(row("block"), "3 buckets");
    assert_eq!(row("power of two"), "yes");
    assert_eq!(row("identity first"), "yes");
    assert_eq!(row("rocksdb.num.entries"), "\\xe8\\x07");
    assert!(!stat.out.contains("fanread.checksum"));
    assert_eq!(folder.run(&["check", "a.sst"], b""), done("1000 entries found, no checksums\n"));
}

#[test]
fn a_damaged_file_is_told_in_one_line() {
    let folder = Folder::fruit();
    assert_eq!(
        folder.run(&["check", "fruit.sst"], b""),
        done("5 entries found, checksums right\n")
    );
    let whole = fs::read(folder.path("fruit.sst")).unwrap();
    let mut changed = whole.clone();
    changed[2] ^= 1;
    folder.write("changed.sst", changed);
    folder.write("cut.sst", &whole[..whole.len() - 1]);
    folder.write("short.sst", b"x");
    let cases: [(&[&str], i32, &str); 5] = [
        (
            &["check", "changed.sst"],
            1,
            "fanread: changed.sst: the file is damaged: damaged bytes from byte 0 on: ",
        ),
        (
            &["check", "cut.sst"],
            1,
            "fanread: cut.sst: not a cuckoo table, its last eight bytes are ",
        ),
        (&["get", "short.sst", "a"], 1, "fanread: short.sst: not a cuckoo table, it has 1 bytes"),
        (&["stat", "missing.sst"], 2, "fanread: cannot read missing.sst: No such file"),
        (&["scan", "."], 2, "fanread: cannot read .: "),
    ];
    for (arguments, status, err) in cases {
        let run = folder.run(arguments, b"");
        assert_eq!((run.status, &run.out[..]), (status, ""), "{arguments:?}: {run:?}");
        assert!(run.err.starts_with(err), "{arguments:?}: {run:?}");
        assert_eq!(run.err.lines().count(), 1, "{run:?}");
    }
}

#[test]
fn what_cannot_be_built_is_told_with_its_place() {
    let folder = Folder::new();
    folder.write("lengths.tsv", "ab\t1\nabc\t2\n");
    folder.write("values.tsv", "ab\t1\ncd\t22\n");
    folder.write("numbers.csv", "1,2\nx,3\n");
    folder.write("twice.tsv", "ab\t1\ncd\t2\nab\t3\n");
    folder.write("object.ndjson", "{\"key\": \"a\", \"value\": \"1\"}\n{\"key\": \"b\"}\n");
    folder.write("broken.ndjson", "{\"key\": \"a\", \n");
    folder.write("cut.bin", [0; 20]);
    folder.write("empty.tsv", "");
    let cases: [(&[&str], i32, &str); 12] = [
        (&["lengths.tsv"], 2, "lengths.tsv, line 2: a key of 3 bytes, and the first one has 2\n"),
        (&["values.tsv"], 2, "values.tsv, line 2: a value of 2 bytes, and the first one has 1\n"),
        (
            &["--keys", "u32", "numbers.csv"],
            2,
            "numbers.csv, record 2: \"x\" is not a number of 32 bits\n",
        ),
        (&["twice.tsv"], 1, "cannot build out.sst: key ab was added twice\n"),
        (&["object.ndjson"], 2, "object.ndjson, line 2: there is no value\n"),
        (&["broken.ndjson"], 2, "broken.ndjson, line 1: EOF while parsing"),
        (&["cut.bin"], 2, "cut.bin, record 2: it has 4 bytes and should have 16\n"),
        (
            &["--key-bytes", "0", "--value-bytes", "0", "cut.bin"],
            2,
            "records of 0 bytes are no entries\n",
        ),
        (&["empty.tsv"], 1, "cannot build out.sst: there is no table without entries\n"),
        (&["missing.tsv"], 2, "cannot read missing.tsv: No such file"),
        (&["--ratio", "0", "values.tsv"], 2, "a ratio of 0 is not above 0\n"),
        (&["--identity", "values.tsv"], 2, "values.tsv, line 1: identity as the first hash"),
    ];
    for (options, status, err) in cases {
        let arguments = [&["build"], options, &["out.sst"]].concat();
        let run = folder.run(&arguments, b"");
        assert_eq!((run.status, &run.out[..]), (status, ""), "{options:?}: {run:?}");
        assert!(run.err.starts_with(&format!("fanread: {err}")), "{options:?}: {run:?}");
        assert_eq!(run.err.lines().count(), 1, "{run:?}");
        assert!(!folder.path("out.sst").exists());
    }
    let run = folder.run(&["build", "twice.tsv", "no/such/folder/a.sst"], b"");
    assert_eq!(run.status, 2);
    assert!(run.err.starts_with("fanread: cannot write no/such/folder/a.sst: "), "{run:?}");
}

/// Its first page is nobody's, so the system opens it and reads nothing.
#[cfg(target_os = "linux")]
#[test]
fn an_input_that_the_system_does_not_read_is_status_1() {
    let folder = Folder::fruit();
    let run = folder.run(&["build", "/proc/self/mem", "out.sst"], b"");
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.err.starts_with("fanread: cannot read /proc/self/mem: "), "{run:?}");
    assert!(!folder.path("out.sst").exists());
}

#[test]
fn names_of_properties_are_escaped_as_their_values_are() {
    let folder = Folder::fruit();
    let mut file = fs::read(folder.path("fruit.sst")).unwrap();
    // Of rocksdb.oldest.key.time, which the names around it do not share.
    let at = file.windows(8).position(|bytes| bytes == b"key.time").unwrap();
    file[at + 3..at + 8].copy_from_slice(b"\x1b[1m\n");
    folder.write("hostile.sst", file);
    let stat = folder.run(&["stat", "hostile.sst", "--properties"], b"");
    assert_eq!((stat.status, &stat.err[..]), (0, ""), "{stat:?}");
    assert!(stat.out.contains("rocksdb.oldest.key\\x1b[1m\\n  "), "{}", stat.out);
    assert!(!stat.out.contains('\x1b'));
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_stays_and_a_link_is_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = Folder::new();
    let build = |out: &str| folder.run(&["build", "-", out], b"kiwi\t3\n");
    let _listener = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
    fs::create_dir(folder.path("there")).unwrap();
    symlink("socket", folder.path("to-socket")).unwrap();
    symlink("there/a.sst", folder.path("to-file")).unwrap();
    for out in ["socket", "to-socket", "there"] {
        let err =
            format!("fanread: cannot write {out}: something is there that is no regular file\n");
        assert_eq!(build(out), Run { out: String::new(), err, status: 2 });
    }
    folder.write("there/a.sst", b"old");
    fs::set_permissions(folder.path("there/a.sst"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(build("to-file").status, 0);
    assert!(fs::symlink_metadata(folder.path("to-file")).unwrap().is_symlink());
    assert_eq!(folder.run(&["get", "there/a.sst", "kiwi"], b""), done("kiwi\t3\n"));
    let mode = fs::metadata(folder.path("there/a.sst")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_eq!(fs::read_dir(folder.path("there")).unwrap().count(), 1);
}

#[test]
fn an_output_may_have_the_longest_of_names() {
    let folder = Folder::new();
    let name = "n".repeat(255);
    assert_eq!(folder.run(&["build", "-", &name], b"kiwi\t3\n").status, 0);
    assert_eq!(folder.run(&["get", &name, "kiwi"], b""), done("kiwi\t3\n"));
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1);
}

#[test]
fn misuse_is_told_and_help_has_examples() {
    let folder = Folder::fruit();
    for arguments in [
        &["get"][..],
        &["frob"],
        &["get", "fruit.sst", "--keys", "u16", "1"],
        &["get", "--keys", "u32", "fruit.sst", "x"],
    ] {
        let run = folder.run(arguments, b"");
        assert_eq!((run.status, run.err.lines().count()), (2, 1), "{arguments:?}: {run:?}");
    }
    for verb in [
        &["--help"][..],
        &["build", "--help"],
        &["get", "--help"],
        &["scan", "--help"],
        &["stat", "--help"],
        &["check", "--help"],
    ] {
        let help = folder.run(verb, b"");
        assert_eq!(help.status, 0);
        assert!(help.out.contains("Examples:\n  fanread table "), "{verb:?}: {}", help.out);
    }
    let help = folder.run(&["get", "--help"], b"").out;
    assert!(help.contains("What is found is printed as lines of key, TAB and value"), "{help}");
}

#[test]
fn input_beyond_memory_makes_the_same_table() {
    let folder = Folder::new();
    let lines: Vec<String> =
        (0..20_000_u64).map(|i| format!("{},{i}", i * 7919 % 20_011)).collect();
    folder.write("a.csv", lines.join("\n"));
    let build = |arguments: &[&str]| {
        let all = [&["build", "--keys", "u64", "--values", "u32", "a.csv"], arguments].concat();
        let run = folder.run(&all, b"");
        assert_eq!((run.status, &run.err[..]), (0, ""), "{run:?}");
        fs::read(folder.path(arguments[0])).unwrap()
    };
    let whole = build(&["whole.sst"]);
    for memory in ["100", "20k", "1M"] {
        assert!(build(&["parts.sst", "--memory", memory]) == whole, "{memory}");
    }
    let run = folder.run(&["build", "--memory", "12Q", "a.csv", "b.sst"], b"");
    assert!(run.status == 2 && run.err.contains("Q is none of k, M, G and T"), "{run:?}");
}

#[test]
fn a_device_that_is_full_leaves_nothing_behind() {
    let folder = Folder::new();
    for name in ["in", "out"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    folder.write("in/a.bin", (0..40_000_u64).flat_map(u64::to_be_bytes).collect::<Vec<u8>>());
    let program = assert_cmd::cargo::cargo_bin!("fanread").display().to_string();
    // No file may be longer than 100 KiB; the table would have 350 KiB, and the entries 320.
    let script = "trap '' XFSZ; ulimit -f $1; shift; exec \"$@\"";
    for (memory, error) in [
        ("1G", "cannot write out/a.sst: File too large"),
        ("50k", "cannot write a temporary file in out: File too large"),
    ] {
        for blocks in ["100", "101"] {
            let output = Command::new("bash")
                .args(["-c", script, "bash", blocks, &program, "table", "build"])
                .args(["--value-bytes", "0", "--memory", memory, "in/a.bin", "out/a.sst"])
                .current_dir(folder.0.path())
                .output()
                .unwrap();
            let err = String::from_utf8(output.stderr).unwrap();
            assert!(err.starts_with(&format!("fanread: {error}")), "{memory}: {err}");
            assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
            assert_eq!(fs::read_dir(folder.path("out")).unwrap().count(), 0);
        }
    }
}
