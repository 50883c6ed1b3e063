//! Goal: the main job ends well on real processes. Method: it is run as a user runs it, and what it prints is read.

use std::io::Write as _;
use std::process::Command;

/// Runs the program and returns what it printed; it must end well.
fn run(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_zombie")).args(arguments).output().expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out.into_owned()
}

fn assert_has(text: &str, wanted: &[&str]) {
    for part in wanted {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
}

#[test]
fn a_paused_holder_wakes_up_and_is_refused() {
    let printed = run(&[]);
    assert_has(&printed, &["SIGSTOP", "took over, generation 2", "SIGCONT", "StaleGeneration", "verify: clean"]);
    assert_has(&printed, &["its lease ran out", "Every one of the 312 input lines is in the ledger exactly once"]);
}

#[test]
fn a_killed_holder_is_followed_and_nothing_is_lost() {
    let printed = run(&["--kill"]);
    assert_has(&printed, &["SIGKILL", "took over, generation 2", "verify: clean"]);
    assert_has(&printed, &["Every one of the 312 input lines is in the ledger exactly once"]);
}

#[test]
fn on_postgres_a_paused_holder_wakes_up_and_is_refused() {
    let printed = run(&["--postgres"]);
    assert_has(&printed, &["on PostgreSQL", "SIGSTOP", "took over, generation 2", "SIGCONT", "StaleGeneration"]);
    assert_has(&printed, &["its lease ran out", "verify: clean"]);
    assert_has(&printed, &["Every one of the 312 input lines is in the ledger exactly once"]);
}

#[test]
fn on_a_postgres_of_the_users_a_killed_holder_is_followed_and_no_schema_is_left() {
    let server = test_postgres::Shared::in_process(&test_postgres::Options::new(test_postgres::Wanted::Any));
    let server = server.expect("a server");
    let printed = run(&["--kill", "--postgres", &server.url()]);
    assert_has(&printed, &["on PostgreSQL", "SIGKILL", "took over, generation 2", "verify: clean"]);
    assert_has(&printed, &["Every one of the 312 input lines is in the ledger exactly once"]);
    // A server that the environment names by URL has no socket to look through.
    if let Some(client) = server.client() {
        let left = client.and_then(|mut client| {
            client.value("select count(*) from pg_catalog.pg_namespace where nspname like 'zombie\\_%'")
        });
        assert_eq!(left.expect("an answer"), "0");
    }
}

#[test]
fn a_file_behind_postgres_is_told_from_a_url() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_zombie")).args(["--postgres", "lines.jsonl"]).output().expect("it starts");
    assert!(!output.status.success());
    assert_has(&String::from_utf8_lossy(&output.stderr), &["lines.jsonl", "a file to import stands before"]);
}

#[test]
fn a_file_of_the_users_is_imported_byte_for_byte() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    for line in 0..60 {
        writeln!(file, "{{\"b\": {line}, \"a\": 1e400, \"a\":\"\\ud800\" }}\n").expect("written");
    }
    let printed = run(&[file.path().to_str().expect("a plain name")]);
    assert_has(&printed, &["Every one of the 60 input lines is in the ledger exactly once"]);
}

#[test]
fn a_line_that_is_not_json_is_named() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "{{}}\n{{]").expect("written");
    let path = file.path().to_str().expect("a plain name");
    let output = Command::new(env!("CARGO_BIN_EXE_zombie")).arg(path).output().expect("it starts");
    assert!(!output.status.success());
    assert_has(&String::from_utf8_lossy(&output.stderr), &[path, "line 2", "not JSON"]);
}
