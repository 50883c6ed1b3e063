//! A server starts, crashes, replicates, and is gone in the end.

mod common;

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{eventually, on_both};
use test_postgres::{Error, Options, Server, Shared, Shutdown, Signal, Wanted};

/// The test binary runs this test alone, as the process that is killed: see `nothing_is_left_after_kill_9`.
const CHILD: &str = "TEST_POSTGRES_CHILD";

fn exists(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok()
}

/// The System V shared memory segments made by this process.
fn segments_of(pid: i32) -> usize {
    let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    table.lines().skip(1).filter(|line| line.split_whitespace().nth(4) == Some(&pid.to_string())).count()
}

#[test]
fn starts_with_the_settings_that_were_promised() {
    on_both(|wanted| {
        let began = Instant::now();
        let server = Options::new(wanted).set("work_mem", "5MB").start()?;
        println!("{wanted}: started in {:?}", began.elapsed());
        let Wanted::Major(major) = wanted else { unreachable!("BOTH holds majors") };
        assert_eq!(server.installation().major(), major);
        assert_eq!(server.value("SELECT current_setting('server_version_num')::int / 10000")?, major.to_string());
        for (setting, value) in [
            ("server_encoding", "UTF8"),
            ("lc_collate", "C"),
            ("fsync", "on"),
            ("synchronous_commit", "on"),
            ("listen_addresses", ""),
            ("max_connections", "200"),
            ("work_mem", "5MB"),
        ] {
            // lc_collate is no setting any more since 16.
            let value_of = match setting {
                "lc_collate" => "SELECT datcollate FROM pg_database WHERE datname = current_database()".to_owned(),
                _ => format!("SELECT current_setting('{setting}') || ''"),
            };
            assert_eq!(server.value(&value_of)?, value, "{setting} on {wanted}");
        }
        assert!(server.url().starts_with("postgresql:///postgres?host=/"), "{}", server.url());
        assert!(server.log().contains("ready to accept connections"));
        assert_ne!(server.fresh_schema_name(), server.fresh_schema_name());
        let database = server.fresh_database()?;
        assert_eq!(server.value(&format!("SELECT count(*) FROM pg_database WHERE datname = '{database}'"))?, "1");
        Ok(())
    });
}

#[test]
fn a_crash_keeps_what_was_committed_and_nothing_else() {
    on_both(|wanted| {
        let server = Options::new(wanted).start()?;
        server.query("CREATE TABLE t (n int)")?;
        for (n, how) in [(1, Shutdown::Immediate), (2, Shutdown::Kill), (3, Shutdown::Fast)] {
            server.query(&format!("INSERT INTO t VALUES ({n})"))?;
            let mut open = server.client()?;
            open.query("BEGIN; INSERT INTO t VALUES (0)")?;
            let postmaster = server.postmaster().ok_or(Error::NotRunning)?;
            server.shut_down(how)?;
            assert!(!exists(postmaster) && server.processes().is_empty(), "{how:?}");
            assert!(matches!(open.query("COMMIT"), Err(Error::Io { .. } | Error::Refused(_))), "{how:?}");
            server.start()?;
            assert_eq!(
                server.value("SELECT string_agg(n::text, ',' ORDER BY n) FROM t")?,
                ["1", "1,2", "1,2,3"][n - 1]
            );
        }
        // The log shows that the first two needed recovery.
        assert_eq!(server.log().matches("automatic recovery in progress").count(), 2);
        Ok(())
    });
}

#[test]
fn settings_change_with_a_reload_or_a_restart() {
    on_both(|wanted| {
        let server = Options::new(wanted).without_fsync().start()?;
        assert_eq!(server.value("SHOW fsync")?, "off");
        server.set("idle_in_transaction_session_timeout", "1234ms")?;
        server.set("max_connections", "50")?;
        server.set("cluster_name", r"it's a \ test")?;
        server.reload()?;
        assert_eq!(server.value("SHOW idle_in_transaction_session_timeout")?, "1234ms");
        assert_eq!(server.value("SHOW max_connections")?, "200");
        server.restart()?;
        assert_eq!(server.value("SHOW max_connections")?, "50");
        assert_eq!(server.value("SHOW cluster_name")?, r"it's a \ test");
        server.reset("max_connections")?;
        server.set("work_mem", "nonsense")?;
        assert!(matches!(server.reload(), Err(Error::Failed { log, .. }) if log.contains("nonsense")));
        // A start that fails shows the log.
        server.stop()?;
        assert!(matches!(server.start(), Err(Error::Failed { log, .. }) if log.contains("nonsense")));
        server.reset("work_mem")?;
        server.start()?;
        assert_eq!(server.value("SHOW max_connections")?, "200");
        Ok(())
    });
}

#[test]
fn a_standby_streams_and_is_promoted() {
    on_both(|wanted| {
        let primary = Options::new(wanted).start()?;
        primary.query("CREATE TABLE t (n int); INSERT INTO t VALUES (1)")?;
        let began = Instant::now();
        let standby = primary.standby("s1")?;
        println!("{wanted}: standby in {:?}", began.elapsed());
        assert!(standby.is_standby()? && !primary.is_standby()?);
        primary.query("INSERT INTO t VALUES (2)")?;
        standby.catch_up_with(&primary)?;
        assert_eq!(standby.value("SELECT count(*) FROM t")?, "2");

        // Synchronous: a commit waits while the receiver is paused.
        primary.set_synchronous(&["s1"])?;
        let receiver = standby.value("SELECT pid FROM pg_stat_wal_receiver")?.parse().unwrap_or(0);
        standby.signal_process(receiver, Signal::Stop)?;
        let mut waiting = primary.client()?;
        waiting.set_timeout(Duration::from_millis(300))?;
        assert!(matches!(waiting.query("INSERT INTO t VALUES (3)"), Err(Error::Io { .. })));
        standby.signal_process(receiver, Signal::Continue)?;
        waiting.set_timeout(Duration::from_secs(10))?;
        waiting.answer()?;

        // Everything acknowledged is on the standby when the primary dies.
        primary.query("INSERT INTO t VALUES (4)")?;
        primary.kill()?;
        standby.promote()?;
        assert_eq!(standby.value("SELECT string_agg(n::text, ',' ORDER BY n) FROM t")?, "1,2,3,4");
        standby.query("INSERT INTO t VALUES (5)")?;
        // Another timeline, as every role can see.
        assert_eq!(standby.value("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")?, "00000002");
        Ok(())
    });
}

#[test]
fn an_asynchronous_standby_may_lose_what_was_acknowledged() {
    on_both(|wanted| {
        let primary = Options::new(wanted).start()?;
        primary.query("CREATE TABLE t (n int)")?;
        let standby = primary.standby("s1")?;
        standby.catch_up_with(&primary)?;
        let receiver = standby.value("SELECT pid FROM pg_stat_wal_receiver")?.parse().unwrap_or(0);
        standby.signal_process(receiver, Signal::Stop)?;
        primary.query("INSERT INTO t VALUES (1)")?;
        primary.kill()?;
        standby.signal_process(receiver, Signal::Kill)?;
        // The standby's postmaster answers the kill of a child by a restart of all others.
        eventually("the standby answers", || standby.is_standby().is_ok());
        standby.promote()?;
        assert_eq!(standby.value("SELECT count(*) FROM t")?, "0");
        Ok(())
    });
}

#[test]
fn a_paused_server_answers_when_it_is_resumed() {
    on_both(|wanted| {
        let server = Options::new(wanted).start()?;
        let mut client = server.client()?;
        assert!(server.processes().contains(&client.backend()));
        server.pause()?;
        client.set_timeout(Duration::from_millis(200))?;
        assert!(matches!(client.query("SELECT 1"), Err(Error::Io { .. })));
        server.resume()?;
        client.set_timeout(Duration::from_secs(10))?;
        assert_eq!(client.answer()?, [[Some("1".to_owned())]]);
        // A paused server can be crashed, and be dropped.
        server.pause()?;
        server.crash()?;
        server.start()?;
        server.pause()?;
        let folder = server.folder().to_owned();
        drop(server);
        assert!(!folder.exists());
        Ok(())
    });
}

#[test]
fn a_dropped_server_leaves_nothing() {
    on_both(|wanted| {
        for how in [None, Some(Shutdown::Fast), Some(Shutdown::Immediate), Some(Shutdown::Kill)] {
            let server = Options::new(wanted).start()?;
            let _open = server.client()?;
            let (folder, processes) = (server.folder().to_owned(), server.processes());
            let postmaster = server.postmaster().ok_or(Error::NotRunning)?;
            assert!(processes.len() > 4 && folder.exists() && segments_of(postmaster) == 1);
            how.map_or(Ok(()), |how| server.shut_down(how))?;
            drop(server);
            assert!(!folder.exists(), "{how:?}");
            assert!(!processes.into_iter().any(exists), "{how:?}");
            assert_eq!(segments_of(postmaster), 0, "{how:?}");
        }
        Ok(())
    });
}

/// Run by `child`, in another process.
#[test]
fn child_process() -> Result<(), Error> {
    let Ok(kind) = std::env::var(CHILD) else { return Ok(()) };
    let (kind, major) = kind.split_once(' ').unwrap_or_default();
    let wanted = Wanted::Major(major.parse().unwrap_or(0));
    let report = |server: &Server| {
        let processes: Vec<String> = server.processes().iter().map(i32::to_string).collect();
        println!("\nCHILD {} {}", server.folder().display(), processes.join(" "));
    };
    let mut servers = Vec::new();
    match kind {
        "plain" | "paused" | "killed" | "proxied" => servers.push(Options::new(wanted).start()?),
        "standby" => {
            let primary = Options::new(wanted).start()?;
            servers.push(primary.standby("s1")?);
            servers.push(primary);
        }
        // Named after the test, so that no other test's processes hold the same server.
        "shared" | "crowd" => {
            let shared = Shared::among_processes(&Options::new(wanted).set("cluster_name", kind))?;
            let postmaster =
                shared.client().map(|client| client?.value("SELECT pg_postmaster_start_time()")).transpose()?;
            let folder = shared.socket_dir().unwrap_or(Path::new("")).display();
            println!("\nCHILD {folder} {}", postmaster.unwrap_or_default().replace(' ', "_"));
        }
        "url" => {
            assert!(matches!(Options::new(wanted).start(), Err(Error::External)));
            let shared = Shared::among_processes(&Options::new(wanted))?;
            assert!(shared.client().is_none() && shared.socket_dir().is_none());
            println!("\nCHILD {} {}", shared.url(), shared.url_of("other"));
        }
        _ => {}
    }
    servers.iter().for_each(report);
    let mut proxies = Vec::new();
    match kind {
        "paused" => servers[0].pause()?,
        "killed" => servers[0].kill()?,
        "proxied" => proxies.push((servers[0].proxy()?, servers[0].proxy()?)),
        _ => {}
    }
    println!("READY");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

/// A process of its own that holds a server, and what it says about it.
fn child(kind: &str, wanted: Wanted) -> (Child, Vec<(PathBuf, Vec<String>)>) {
    child_with(kind, wanted, &[])
}

#[expect(clippy::zombie_processes, reason = "the caller waits; a panic here ends the test process")]
fn child_with(kind: &str, wanted: Wanted, environment: &[(&str, &str)]) -> (Child, Vec<(PathBuf, Vec<String>)>) {
    let Wanted::Major(major) = wanted else { unreachable!("BOTH holds majors") };
    let mut child = Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", "child_process", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{kind} {major}"))
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test binary starts");
    let mut told = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    loop {
        let line = lines.next().expect("the child gets ready").expect("the child writes text");
        if let Some(rest) = line.strip_prefix("CHILD ") {
            let mut words = rest.split(' ').map(str::to_owned);
            told.push((words.next().unwrap_or_default().into(), words.collect()));
        }
        if line == "READY" {
            return (child, told);
        }
    }
}

#[test]
fn nothing_is_left_after_kill_9() {
    on_both(|wanted| {
        for kind in ["plain", "standby", "paused", "killed", "proxied"] {
            let (mut holder, told) = child(kind, wanted);
            assert_eq!(told.len(), if kind == "standby" { 2 } else { 1 });
            for (folder, processes) in &told {
                assert!(folder.exists() && processes.len() > 4, "{kind}");
            }
            let began = Instant::now();
            holder.kill().expect("it is ours");
            holder.wait().expect("it is ours");
            for (folder, processes) in &told {
                eventually(kind, || !folder.exists());
                for pid in processes.iter().filter_map(|pid| pid.parse().ok()) {
                    assert!(!exists(pid), "{kind}: {pid}");
                    assert_eq!(segments_of(pid), 0, "{kind}");
                }
            }
            println!("{wanted} {kind}: gone after {:?}", began.elapsed());
        }
        Ok(())
    });
}

#[test]
fn nothing_is_left_after_kill_9_at_any_moment_of_a_start() {
    // From before the supervisor's first command to after the first connection.
    let before = folders();
    for delay in (0..20).map(|step| Duration::from_millis(step * 25)) {
        let mut holder = Command::new(std::env::current_exe().expect("a test has a path"))
            .args(["--exact", "child_process", "--nocapture", "--test-threads=1"])
            .env(CHILD, "plain 15")
            .env("TEST_POSTGRES_TMP", "/tmp")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the test binary starts");
        std::thread::sleep(delay);
        let ours: HashSet<PathBuf> = folders();
        holder.kill().expect("it is ours");
        holder.wait().expect("it is ours");
        // Other tests' folders come and go; ours is among those we saw, or came later and goes as soon.
        eventually("the folders go", || ours.difference(&before).filter(|folder| held_by_nobody(folder)).count() == 0);
    }
    eventually("no folder without a supervisor", || !folders().iter().any(|folder| held_by_nobody(folder)));
}

fn folders() -> HashSet<PathBuf> {
    let all = std::fs::read_dir("/tmp").into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tpg-") && name.len() == 14)
    })
    .collect()
}

/// No supervisor has this folder among its arguments.
fn held_by_nobody(folder: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let folder = folder.display().to_string();
    let mut arguments = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    !arguments.any(|line| line.split(|byte| *byte == 0).any(|argument| argument == folder.as_bytes()))
        && Path::new(&folder).exists()
}

#[test]
fn processes_share_a_server_until_the_last_one_ends() {
    on_both(|wanted| {
        let (mut first, told) = child("shared", wanted);
        let (mut second, again) = child("shared", wanted);
        assert_eq!(told, again, "the same folder and the same start");
        let folder = told[0].0.clone();
        // The one that started it goes first.
        first.kill().expect("it is ours");
        first.wait().expect("it is ours");
        std::thread::sleep(Duration::from_millis(300));
        let (mut third, again) = child("shared", wanted);
        assert_eq!(told, again);
        for holder in [&mut second, &mut third] {
            assert!(folder.exists());
            holder.kill().expect("it is ours");
            holder.wait().expect("it is ours");
        }
        // At once: the old one may be about to go, and is not what we get.
        let (mut fourth, fresh) = child("shared", wanted);
        assert_eq!(fresh[0].0, folder);
        assert_ne!(fresh, told);
        fourth.kill().expect("it is ours");
        fourth.wait().expect("it is ours");
        eventually("the shared server goes", || !folder.exists());
        Ok(())
    });
}

#[test]
fn many_processes_at_once_get_one_shared_server() {
    let wanted = Wanted::OLDEST;
    let holders: Vec<_> = (0..6).map(|_| std::thread::spawn(move || child("crowd", wanted))).collect();
    let holders: Vec<_> = holders.into_iter().map(|holder| holder.join().expect("the child gets ready")).collect();
    let distinct: HashSet<_> = holders.iter().map(|(_, told)| told.clone()).collect();
    for (mut holder, _) in holders {
        holder.kill().expect("it is ours");
        holder.wait().expect("it is ours");
    }
    assert_eq!(distinct.len(), 1);
}

#[test]
fn a_url_in_the_environment_takes_the_place_of_shared_servers_only() {
    for (url, other) in [
        ("postgres://me:secret@host:5433/mine?sslmode=require", "postgres://me:secret@host:5433/other?sslmode=require"),
        ("postgresql:///mine?host=/run/pg", "postgresql:///other?host=/run/pg"),
        ("postgresql://host", "postgresql://host/other"),
    ] {
        let (mut holder, told) = child_with("url", Wanted::OLDEST, &[("TEST_POSTGRES_URL_15", url)]);
        assert_eq!(told, [(PathBuf::from(url), vec![other.to_owned()])]);
        holder.kill().expect("it is ours");
        holder.wait().expect("it is ours");
    }
}

#[test]
fn a_server_in_memory_has_no_fsync() {
    on_both(|wanted| {
        let began = Instant::now();
        let server = Options::new(wanted).in_memory().start()?;
        println!("{wanted}: in memory ({}) in {:?}", server.is_in_memory(), began.elapsed());
        assert_eq!(server.value("SHOW fsync")?, "off");
        let standby = server.standby("s1")?;
        assert_eq!(standby.is_in_memory(), server.is_in_memory());
        Ok(())
    });
}

#[test]
fn one_server_in_this_process() -> Result<(), Error> {
    let options = Options::new(Wanted::Any);
    let (one, other) = (Shared::in_process(&options)?, Shared::in_process(&options)?);
    assert!(std::ptr::eq(one, other));
    let database = one.fresh_database().expect("no URL in the environment of this crate's tests")?;
    assert!(one.url_of(&database).contains(&database));
    Ok(())
}

#[test]
fn a_missing_version_names_the_command_that_fetches_it() {
    let error = Options::new(Wanted::Major(9)).start().expect_err("nobody has it");
    assert!(error.to_string().contains(test_postgres::FETCH_COMMAND), "{error}");
    let long = Options::new(Wanted::Any).folder(format!("/tmp/{}", "x".repeat(100))).start().expect_err("too long");
    assert!(long.to_string().contains("too long"), "{long}");
    let missing = Options::new(Wanted::Any).folder("/nowhere").start().expect_err("not there");
    assert!(missing.to_string().contains("cannot create"), "{missing}");
}
