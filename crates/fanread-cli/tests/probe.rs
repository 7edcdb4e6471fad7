//! `fanread probe` writes what it measured, and refuses what it cannot measure.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

fn probe(arguments: &[&str]) -> Output {
    Command::new(assert_cmd::cargo::cargo_bin!("fanread"))
        .arg("probe")
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_small_array_gives_every_figure_in_every_form() {
    let folder = TempDir::new().unwrap();
    let (json, html) = (folder.path().join("p.json"), folder.path().join("p.html"));
    let output = probe(&[
        "--size",
        "1M",
        "--json",
        json.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");

    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["bytes"], 1 << 20);
    let widths = report["widths"].as_array().unwrap();
    assert_eq!((widths[0].as_u64(), widths[widths.len() - 1].as_u64()), (Some(1), Some(64)));
    for pages in ["huge", "small"] {
        let groups = report[pages]["groups"].as_array().unwrap();
        assert_eq!(groups.len(), widths.len());
        for group in groups {
            let nanos = ["min", "median", "max"].map(|which| group[which].as_f64().unwrap());
            assert!(nanos[0] > 0.0 && nanos.is_sorted(), "{group}");
        }
        assert_eq!(report[pages]["neighbours"].as_array().unwrap().len(), 4);
        assert!(report[pages]["knee"].as_u64().unwrap() <= 64);
    }
    let sets = report["working_sets"].as_array().unwrap();
    assert_eq!(sets[0]["bytes"], 16 << 10);
    assert_eq!(sets[sets.len() - 1]["bytes"], 1 << 20);

    let page = fs::read_to_string(html).unwrap();
    assert_eq!(page.matches("<svg").count(), 3);
    assert_eq!(page.matches("</svg>").count(), 3);
    // One file: nothing is fetched.
    assert!(!page.contains("src=") && !page.contains("href="), "{page}");

    let out = text(&output.stdout);
    assert!(out.contains("One read that waits for the one before it: "), "{out}");
    assert!(out.contains("2 MB pages"), "{out}");
    assert!(out.contains(&format!("Suggested batch width: {}", report["batch_width"])), "{out}");
}

#[test]
fn who_reads_no_table_has_the_files_all_the_same() {
    let folder = TempDir::new().unwrap();
    let (json, html) = (folder.path().join("p.json"), folder.path().join("p.html"));
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("fanread"))
        .args(["probe", "--size", "1M", "--json", json.to_str().unwrap()])
        .args(["--html", html.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["bytes"], 1 << 20);
    assert!(fs::read_to_string(html).unwrap().ends_with("</html>\n"));
}

#[test]
fn wrong_arguments_are_one_line_and_status_2() {
    for arguments in [
        &["--size", "much"][..],
        &["--size", "1K"],
        &["--size", "99999G"],
        &["--frobnicate"],
        &["now"],
    ] {
        let output = probe(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_the_work() {
    let output = probe(&["--json", "no/such/folder/p.json"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let message = text(&output.stderr);
    assert!(message.starts_with("fanread: cannot write no/such/folder/p.json: "), "{message}");
}

#[test]
fn a_size_that_the_machine_does_not_have_is_one_line_and_status_1() {
    let output = probe(&["--size", "32768G"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
}
