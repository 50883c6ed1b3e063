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

/// What both acts print, in this order.
fn assert_in_order(text: &str, wanted: &[&str]) {
    let mut rest = text;
    for part in wanted {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("`{part}` is missing, or too early, in:\n{text}");
        };
        rest = after;
    }
}

/// The second act: recorded, sent once, found by the third, settled, and nothing sent again.
fn assert_sent_once(printed: &str) {
    assert_in_order(
        printed,
        &[
            "has recorded the request `import/fee`, and sends it",
            "The bank has got `import/fee`; before it answers",
            "c  took over, generation 3",
            "c  finds the request `import/fee` of generation 2 open",
            "c  settled `import/fee`: the bank did it as `tx-1`",
            "c  finished",
            "| recorded, then sent ",
            "| settled: succeeded ",
            "verify: clean",
            "The bank got one request to pay; how often it was asked what became of it: 1.",
        ],
    );
    assert_has(printed, &["c  would pay, but `import/fee` was sent under generation 2: sends nothing"]);
}

/// Both acts, with the holders paused.
fn assert_paused(printed: &str) {
    assert_in_order(
        printed,
        &["(SIGSTOP)", "took over, generation 2", "(SIGCONT)", "was refused and stops: Append refused", "(SIGSTOP)"],
    );
    assert_sent_once(printed);
    assert_in_order(
        printed,
        &[
            "c  settled `import/fee`",
            "(SIGCONT). The bank's answer is there",
            "wanted to settle `import/fee`, was refused and stops: Append refused on partition `import`: StaleGeneration",
            "| late answer, refused: StaleGeneration ",
            "bank, `tx-1`",
        ],
    );
    assert_eq!(printed.matches("its lease ran out").count(), 2, "{printed}");
}

/// Both acts, with the holders killed: nobody wakes up, so nobody is refused.
fn assert_killed(printed: &str) {
    assert_in_order(printed, &["(SIGKILL)", "took over, generation 2", "(SIGKILL)", "took over, generation 3"]);
    assert_sent_once(printed);
    assert!(!printed.contains("StaleGeneration"), "{printed}");
}

#[test]
fn a_paused_holder_wakes_up_and_is_refused() {
    let printed = run(&[]);
    assert_paused(&printed);
    assert_has(&printed, &["Every one of the 312 input lines is in the ledger exactly once"]);
}

#[test]
fn a_killed_holder_is_followed_and_nothing_is_lost() {
    let printed = run(&["--kill"]);
    assert_killed(&printed);
    assert_has(&printed, &["Every one of the 312 input lines is in the ledger exactly once"]);
}

#[test]
fn on_postgres_a_paused_holder_wakes_up_and_is_refused() {
    let printed = run(&["--postgres"]);
    assert_paused(&printed);
    assert_has(&printed, &["on PostgreSQL", "Every one of the 312 input lines is in the ledger exactly once"]);
}

#[test]
fn on_a_postgres_of_the_users_a_killed_holder_is_followed_and_no_schema_is_left() {
    let server = test_postgres::Shared::in_process(&test_postgres::Options::new(test_postgres::Wanted::Any));
    let server = server.expect("a server");
    let printed = run(&["--kill", "--postgres", &server.url()]);
    assert_killed(&printed);
    assert_has(&printed, &["on PostgreSQL", "Every one of the 312 input lines is in the ledger exactly once"]);
    // A server that the environment names by URL has no socket to look through.
    if let Some(client) = server.client() {
        let left = client.and_then(|mut client| {
            client.value("select count(*) from pg_catalog.pg_namespace where nspname like 'zombie\\_%'")
        });
        assert_eq!(left.expect("an answer"), "0");
    }
}

/// Without a server at hand it is said how to get one, and how to go on without. A machine that has PostgreSQL installed
/// hides it here: its places are replaced by empty ones, in a mount namespace of the process's own.
#[test]
fn without_postgres_it_says_how_to_get_it() {
    let empty = tempfile::tempdir().expect("a folder");
    let hide = "if [ -d /usr/lib/postgresql ]; then mount -t tmpfs none /usr/lib/postgresql || exit 77; fi; \
                exec \"$0\" --postgres";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", hide, env!("CARGO_BIN_EXE_zombie")])
        .env_remove("TEST_POSTGRES_URL")
        .env_remove("TEST_POSTGRES_BIN")
        .env("TEST_POSTGRES_CACHE", empty.path())
        .env("PATH", "/usr/bin:/bin")
        .output()
        .expect("`unshare` of util-linux can be started");
    assert_ne!(output.status.code(), Some(77), "this test needs the right to mount a tmpfs: user namespaces, or root");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{told}");
    assert_has(
        &told,
        &["no PostgreSQL found", "Fetch one with:  cargo run -p test-postgres", "-- --postgres postgres://"],
    );
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
    assert_paused(&printed);
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
