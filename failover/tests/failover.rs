//! Goal: over a failover to a synchronous standby nothing that was acknowledged is lost, and nothing that was refused is
//! there; over one to a standby that had stopped to follow, events are lost and no writer goes on in silence.
//!
//! Method: the program is run as a user runs it, with real servers and processes; it ends well only where its checks
//! hold, and what it prints is read. `FENCED_LEDGER_FULL=1` runs each fault twice with eight writers.

use std::process::Command;

#[test]
fn what_was_acknowledged_survives_a_failover_or_its_loss_is_noticed() {
    let full = std::env::var_os("FENCED_LEDGER_FULL").is_some_and(|value| !value.is_empty() && value != "0");
    let figures: &[&str] = if full {
        &["--writers", "8", "--rounds", "2", "--appends", "60"]
    } else {
        &["--writers", "4", "--partitions", "2", "--rounds", "1", "--appends", "30"]
    };
    let output = Command::new(env!("CARGO_BIN_EXE_failover")).arg("by-hand").args(figures).output();
    let output = output.expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    println!("{out}");
    let row = |fault: &str| {
        let line = out.lines().find(|line| line.starts_with('|') && line.contains(fault)).expect("a row of the table");
        line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let (kept, lossy) = (row("synchronous standby promoted"), row("receiver had been stopped"));
    assert_eq!((&*kept[4], &*kept[7]), ("0", "0"), "lost and refused that were found: {kept:?}");
    assert!(kept[3].parse::<usize>().expect("a number") > 100, "{kept:?}");
    assert!(kept[6].parse::<usize>().expect("a number") > 0, "something was refused: {kept:?}");
    assert!(lossy[4].parse::<usize>().expect("a number") > 0, "{lossy:?}");
    assert_eq!(lossy[7], "0", "{lossy:?}");
}
