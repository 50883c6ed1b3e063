//! `test-postgres fetch [MAJOR…]`, `list`, `run [MAJOR]`.

use std::error::Error as _;
use std::io::Read;
use std::process::ExitCode;

use test_postgres::{Error, Installation, Options, Wanted, cache_folder, fetch, fetch_faketime, fetch_pooler};

const USAGE: &str =
    "test-postgres fetch [MAJOR...]  fetch PostgreSQL (15 and 18) PgBouncer and libfaketime for the tests, where they are missing
test-postgres list              what the tests would find
test-postgres run [MAJOR]       a throw-away server, until standard input ends";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Result<Vec<u32>, _> = arguments.iter().skip(1).map(|text| text.parse()).collect();
    let done = match (arguments.first().map(String::as_str), numbers) {
        (Some("fetch"), Ok(majors)) => bring(&majors),
        (Some("list"), Ok(none)) if none.is_empty() => {
            list();
            Ok(())
        }
        (Some("run"), Ok(major)) => run(major.first().copied()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            let mut source = e.source();
            while let Some(e) = source {
                eprintln!("  because: {e}");
                source = e.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn bring(majors: &[u32]) -> Result<(), Error> {
    let both = [15, 18];
    for fetched in fetch(if majors.is_empty() { &both } else { majors })? {
        let found = &fetched.installation;
        println!("{} {}", found.version(), found.bin().display());
        fetched.how.iter().for_each(|line| println!("    {line}"));
    }
    if majors.is_empty() {
        println!("PgBouncer\n    {}", fetch_pooler()?);
        // Only the campaign's clock steps need it, and a campaign without it says so.
        match fetch_faketime() {
            Ok(how) => println!("libfaketime\n    {how}"),
            Err(problem) => println!("libfaketime\n    not there: {problem}"),
        }
    }
    Ok(())
}

fn list() {
    for found in Installation::all() {
        println!("{} {}", found.version(), found.bin().display());
    }
    println!("fetched ones and templates: {}", cache_folder().display());
}

fn run(major: Option<u32>) -> Result<(), Error> {
    let server = Options::new(major.map_or(Wanted::Any, Wanted::Major)).start()?;
    println!("{} {}", server.installation().version(), server.url());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}
