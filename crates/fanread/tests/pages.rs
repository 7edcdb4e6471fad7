//! The pages of `docs/` are a site: every page is in its contents, and every link between pages and to files of this repository leads
//! somewhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the pages are; a copy of the library alone, as a registry delivers it, has none.
fn docs() -> Option<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    docs.is_dir().then(|| docs.canonicalize().unwrap())
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The targets of a page's links that are files.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let in_code = |at: usize| text[..at].matches("```").count() % 2 == 1;
    let starts = text.match_indices("](").filter(move |(at, _)| !in_code(*at));
    starts.filter_map(|(at, _)| {
        let target = text[at + 2..].split(')').next()?;
        let file = target.split('#').next()?;
        (!file.is_empty() && !file.contains("://") && !file.contains([' ', '\n'])).then_some(file)
    })
}

#[test]
fn every_page_is_in_the_contents_once() {
    let Some(docs) = docs() else { return };
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut listed: Vec<PathBuf> = links(&contents).map(|link| docs.join(link)).collect();
    listed.push(docs.join("SUMMARY.md"));
    listed.sort();
    let mut all = Vec::new();
    pages(&docs, &mut all);
    all.sort();
    assert_eq!(listed, all);
}

#[test]
fn links_lead_to_files() {
    let Some(docs) = docs() else { return };
    let mut all = vec![docs.join("../README.md"), docs.join("../CONTRIBUTING.md")];
    pages(&docs, &mut all);
    let broken: Vec<String> = all
        .iter()
        .flat_map(|page| {
            let text = fs::read_to_string(page).unwrap();
            let folder = page.parent().unwrap().to_owned();
            let dead = links(&text).filter(|link| !folder.join(link).exists());
            dead.map(|link| format!("{}: {link}", page.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
