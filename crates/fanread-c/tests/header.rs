//! The header is what the sources say, and the tests of C call all of it.
//!
//! `FANREAD_HEADER=write cargo test -p fanread-c --features checks --test header` writes the header anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> String {
    fs::read_to_string(folder().join("include/fanread.h")).unwrap()
}

/// The sources with what C sees, in the order of the header.
const SOURCES: [&str; 12] = [
    "error",
    "handle",
    "face",
    "map",
    "map_bytes",
    "map_u64",
    "cursor",
    "scan",
    "pin",
    "table",
    "store",
    "u64_store",
];

/// The header as the sources have it. Sections for Rust alone, on what is unsafe, are left out.
fn generated() -> String {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(folder().join(format!("src/{source}.rs")));
    }
    let mut bytes = Vec::new();
    builder.generate().unwrap().write(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = Vec::new();
    let mut is_left_out = false;
    for line in text.lines() {
        if line.trim() == "* # Safety" {
            is_left_out = true;
            // The empty line above the heading, too.
            lines.pop();
        }
        is_left_out &= line.trim() != "*/";
        if !is_left_out {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = folder().join("include/fanread.h");
    let generated = generated();
    if env::var("FANREAD_HEADER").is_ok_and(|what| what == "write") {
        fs::write(&path, &generated).unwrap();
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (number, (has, should)) in lines(&header()).into_iter().zip(lines(&generated)).enumerate() {
        assert_eq!(has, should, "line {}; see the top of tests/header.rs", number + 1);
    }
    assert_eq!(header().len(), generated.len());
}

#[test]
fn the_header_has_all_sources_with_exported_functions() {
    for path in sources_of(&folder().join("src"), "rs") {
        let exports = fs::read_to_string(&path).unwrap().contains("#[unsafe(no_mangle)]");
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(!exports || SOURCES.contains(&name), "{name}");
    }
}

/// The functions of the header, and whether each takes anything.
fn functions() -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let header = header();
    for (at, _) in header.match_indices("fanread_") {
        let name: String =
            header[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let before = header[..at].lines().next_back().unwrap_or_default();
        let rest = &header[at + name.len()..];
        let declares = ["fanread_status ", "const char *"].contains(&before);
        if declares && rest.starts_with('(') {
            found.push((name, !rest.starts_with("(void)")));
        }
    }
    assert!(found.len() > 80, "{}", found.len());
    found
}

fn sources_of(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

/// The functions called inside of a macro of the tests.
fn called_in(text: &str, macro_name: &str) -> BTreeSet<String> {
    let start = format!("{macro_name}(fanread_");
    let name_of = |at: usize| {
        let name = &text[at + macro_name.len() + 1..];
        name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    text.match_indices(&start).map(|(at, _)| name_of(at)).collect()
}

#[test]
fn every_function_is_called_with_valid_null_and_misused_arguments() {
    let folder = folder().join("tests/c");
    let text: String =
        sources_of(&folder, "c").iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let [valid, mut null, mut nothing, misuse] =
        ["VALID", "NULLED", "NOTHING", "MISUSED"].map(|macro_name| called_in(&text, macro_name));
    null.append(&mut nothing);
    let mut missing = Vec::new();
    for (name, takes_any) in functions() {
        // Functions without pointers cannot get NULL.
        let takes_numbers = ["fanread_kind_name", "fanread_status_message"].contains(&&*name);
        let wanted = [
            ("VALID", &valid, true),
            ("NULLED", &null, takes_any && !takes_numbers),
            ("MISUSED", &misuse, takes_any && !takes_numbers),
        ];
        for (macro_name, called, is_wanted) in wanted {
            if is_wanted && !called.contains(&name) {
                missing.push(format!("{macro_name}({name}(..))"));
            }
        }
    }
    assert!(missing.is_empty(), "no test of C has:\n{}", missing.join("\n"));
}

#[test]
fn the_wrapper_for_cpp_has_every_function() {
    let read = |name| fs::read_to_string(folder().join("include").join(name)).unwrap();
    let text = read("fanread.hpp") + &read("fanread_calls.hpp");
    let unused: Vec<_> = functions()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| {
            ![format!("{name}("), format!("{name}>")].iter().any(|use_| text.contains(use_))
        })
        .collect();
    assert!(unused.is_empty(), "{unused:?}");
}
