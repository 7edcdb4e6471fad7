//! Plants faults in a copy of the library's sources, which are chosen when a program runs.
//!
//! ```text
//! plant FROM TO LIST..
//! ```
//!
//! Reads the sources below FROM and writes them to TO with all faults of the lists in them; what has not changed there
//! is not written again. `FANREAD_PLANT=name` then makes a program behave as if that one fault were there, and
//! without the variable it has none. Prints a line for each fault: its name, the kind of program that has to fail, the tests of it,
//! where the fault is, and what it breaks, with tabs between them.
//!
//! A list has faults like this one, with empty lines between them:
//!
//! ```text
//! fault version-not-compared
//! breaks a reader takes what it has read although it was changed meanwhile
//! in sync/version.rs
//! caught models loom_a_reader_never_pairs
//! - before.same_changes(after).then_some(after)
//! + Some(after)
//! ```
//!
//! The text behind `-` has to be in the file exactly once. It is replaced by a choice between it and the text behind `+`. Where
//! that is no expression or statement, the new text has `PLANTED` in it, which stands for the choice. There may
//! be several such pairs; of two faults in one place only one finds its text.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// What the copy has beside the sources: which fault is chosen.
const CHOICE: &str = "
pub(crate) fn on(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var(\"FANREAD_PLANT\").ok()).as_deref() == Some(name)
}
";

#[derive(Default)]
struct Fault {
    name: String,
    breaks: String,
    file: String,
    caught: Vec<String>,
    /// Old texts and new ones.
    changes: Vec<(String, String)>,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [from, to, lists @ ..] = &arguments[..] else { fail("usage: plant FROM TO LIST..") };
    let faults: Vec<Fault> = lists.iter().flat_map(|list| parse(list)).collect();
    for (at, fault) in faults.iter().enumerate() {
        if faults[..at].iter().any(|other| other.name == fault.name) {
            fail(&format!("{}: two faults of this name", fault.name));
        }
    }
    let (from, to) = (Path::new(from), Path::new(to));
    let mut planted = 0;
    for file in files(from) {
        let name = file.strip_prefix(from).unwrap().to_str().unwrap();
        let source = fs::read_to_string(&file).unwrap();
        let mut text = source.clone();
        for fault in faults.iter().filter(|fault| fault.file == name) {
            planted += 1;
            plant(&mut text, fault);
            let line =
                1 + source[..place(&source, fault, &fault.changes[0].0)].matches('\n').count();
            let Fault { breaks, caught, .. } = fault;
            let (kind, tests) = (&caught[0], caught[1..].join(" "));
            println!("{}\t{kind}\t{tests}\t{name}:{line}\t{breaks}", fault.name);
        }
        if name == "lib.rs" {
            text.push_str("\nmod planted;\n");
        }
        write(&to.join(name), &text);
    }
    write(&to.join("planted.rs"), CHOICE);
    if planted < faults.len() {
        fail("a fault in a file that is not there");
    }
}

fn fail(why: &str) -> ! {
    eprintln!("plant: {why}");
    process::exit(2);
}

fn parse(list: &str) -> Vec<Fault> {
    let text = fs::read_to_string(list).unwrap_or_else(|error| fail(&format!("{list}: {error}")));
    let mut faults: Vec<Fault> = Vec::new();
    // Whether the line before was of a new text.
    let mut is_new = true;
    for (number, line) in text.lines().enumerate() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "fault" {
            faults.push(Fault { name: rest.into(), ..Fault::default() });
        }
        let wrong = || fail(&format!("{list}:{}: {line}", number + 1));
        let Some(fault) = faults.last_mut() else {
            if line.is_empty() || word == "#" { continue } else { wrong() }
        };
        match word {
            "fault" | "" | "#" => is_new = true,
            "breaks" => fault.breaks = rest.into(),
            "in" => fault.file = rest.into(),
            "caught" => fault.caught = rest.split(' ').map(Into::into).collect(),
            "-" => {
                if is_new {
                    fault.changes.push(Default::default());
                }
                is_new = false;
                add(&mut fault.changes.last_mut().unwrap().0, rest);
            }
            "+" => {
                is_new = true;
                add(&mut fault.changes.last_mut().unwrap_or_else(|| wrong()).1, rest);
            }
            _ => wrong(),
        }
    }
    for Fault { name, breaks, caught, changes, .. } in &faults {
        if breaks.is_empty() || caught.len() < 2 || changes.is_empty() {
            fail(&format!("{name}: something is missing"));
        }
    }
    faults
}

fn add(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// Plants a fault of which `text` has everything exactly once.
fn plant(text: &mut String, fault: &Fault) {
    let choice = format!("crate::planted::on(\"{}\")", fault.name);
    let mut pieces: Vec<(usize, usize, String)> = Vec::new();
    for (old, new) in &fault.changes {
        let planted = if new.contains("PLANTED") {
            new.replace("PLANTED", &choice)
        } else if old.ends_with([';', '}']) {
            format!("if {choice} {{ {new} }} else {{ {old} }}")
        } else {
            format!("(if {choice} {{ {new} }} else {{ {old} }})")
        };
        pieces.push((place(text, fault, old), old.len(), planted));
    }
    // From the end, so that places stay where they are.
    pieces.sort_unstable_by(|a, b| b.cmp(a));
    for (at, len, planted) in pieces {
        text.replace_range(at..at + len, &planted);
    }
}

/// Where the text has what is to be replaced.
fn place(text: &str, fault: &Fault, old: &str) -> usize {
    let mut places = text.match_indices(old);
    match (places.next(), places.next()) {
        (Some((at, _)), None) => at,
        _ => fail(&format!("{}: not once in {}: {old}", fault.name, fault.file)),
    }
}

fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
