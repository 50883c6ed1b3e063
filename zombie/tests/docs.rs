//! Goal: what docs/what-if.md says is shown by a test is shown by a test. Method: each line of its tables links to one by
//! name, and the file that is linked to has a test of that name.

use std::collections::BTreeSet;
use std::path::Path;

const PAGE: &str = include_str!("../../docs/what-if.md");

/// The tests that a text links to: name and path.
fn links(text: &str) -> Vec<(&str, &str)> {
    let mut links = Vec::new();
    for part in text.split("[`").skip(1) {
        let Some((name, rest)) = part.split_once("`](") else { continue };
        let Some((path, _)) = rest.split_once(')') else { continue };
        links.push((name, path));
    }
    links
}

/// Whether a source makes a test, a scenario or a case of this name: as a function, or in a list of them.
fn has_test(source: &str, name: &str) -> bool {
    let made = [format!("fn {name}("), format!("{name} =>")];
    made.iter().any(|made| source.contains(made))
}

#[test]
fn every_line_names_tests_that_are_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let lines = PAGE.lines().filter(|line| line.starts_with("| ") && !line.contains("shown by"));
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    for line in lines {
        let last = line.trim_end_matches(" |").rsplit("| ").next().unwrap_or_default();
        let tests = links(last);
        if tests.is_empty() {
            wrong.push(format!("no test is named: {line}"));
        }
        for (name, path) in tests {
            let source = std::fs::read_to_string(docs.join(path)).unwrap_or_default();
            if !has_test(&source, name) {
                wrong.push(format!("`{name}` is not in {path}"));
            }
            seen.insert(name);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.len() > 30, "only {} tests are named", seen.len());
}

#[test]
fn every_other_link_leads_somewhere() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    for part in PAGE.split("](").skip(1) {
        let path = part.split([')', '#']).next().unwrap_or_default();
        assert!(docs.join(path).exists(), "{path}");
    }
}

#[test]
fn a_name_that_no_source_has_is_found_out() {
    assert!(has_test("async fn one_thing(x: u8)", "one_thing") && has_test("one_thing => run;", "one_thing"));
    assert!(!has_test("fn one_thing_more() // one_thing", "one_thing"));
    assert_eq!(links("see [`a`](../b.rs), [c](d)"), [("a", "../b.rs")]);
}
