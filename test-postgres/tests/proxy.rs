//! The proxy counts and fails as told.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::on_both;
use test_postgres::{Client, Error, Fault, Options, Proxy, Server, Trigger, Wanted};

const PATIENCE: Duration = Duration::from_secs(10);

fn set_up(wanted: Wanted) -> Result<(Server, Proxy), Error> {
    let server = Options::new(wanted).start()?;
    server.query("CREATE TABLE t (n int)")?;
    let proxy = server.proxy()?;
    Ok((server, proxy))
}

fn stored(server: &Server) -> Result<String, Error> {
    server.value("SELECT coalesce(string_agg(n::text, ',' ORDER BY n), '') FROM t")
}

fn lost(answer: Result<Vec<test_postgres::Row>, Error>) -> bool {
    matches!(answer, Err(Error::Io { .. }))
}

/// A message of the extended protocol.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body);
    message
}

fn start_up(stream: &mut (impl Read + Write)) {
    let body = b"user\0postgres\0database\0postgres\0\0";
    let mut start = (body.len() as u32 + 8).to_be_bytes().to_vec();
    start.extend_from_slice(&196_608_u32.to_be_bytes());
    start.extend_from_slice(body);
    stream.write_all(&start).expect("the proxy reads");
    assert_eq!(until_ready(stream).last(), Some(&b'Z'));
}

/// The types of the messages up to `ReadyForQuery`, or to the end of the connection.
fn until_ready(stream: &mut impl Read) -> Vec<u8> {
    let mut kinds = Vec::new();
    let mut head = [0; 5];
    while stream.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        if stream.read_exact(&mut vec![0; length]).is_err() {
            kinds.push(b'!');
            break;
        }
        kinds.push(head[0]);
        if head[0] == b'Z' {
            break;
        }
    }
    kinds
}

/// Prepares a statement under a name.
fn prepare(name: &str, sql: &str) -> Vec<u8> {
    [message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes()), message(b'S', b"")].concat()
}

/// Binds and executes it, with `Sync`.
fn execute(name: &str) -> Vec<u8> {
    let bind = format!("\0{name}\0\0\0\0\0\0\0");
    [message(b'B', bind.as_bytes()), message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat()
}

#[test]
fn it_counts() {
    on_both(|wanted| {
        let (_server, proxy) = set_up(wanted)?;
        let mut client = proxy.client()?;
        let before = proxy.counts();
        assert_eq!((before.connections, before.round_trips, before.requests), (1, 0, 0));
        client.query("SELECT 1")?;
        client.query("SELECT 2; SELECT 3")?;
        let cost = proxy.counts() - before;
        assert_eq!((cost.messages, cost.requests, cost.round_trips, cost.turns), (2, 2, 2, 2));

        // The extended protocol, on a connection that asks for encryption first: prepare, then execute twice in one go.
        let mut stream = UnixStream::connect(proxy.socket_dir().join(".s.PGSQL.5432")).expect("the proxy listens");
        stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).expect("the proxy reads");
        let mut refusal = [0];
        stream.read_exact(&mut refusal).expect("the proxy answers");
        assert_eq!(&refusal, b"N");
        start_up(&mut stream);
        let before = proxy.counts();
        stream.write_all(&prepare("s", "INSERT INTO t VALUES (7)")).expect("the proxy reads");
        assert_eq!(until_ready(&mut stream), b"1Z");
        let cost = proxy.counts() - before;
        assert_eq!((cost.messages, cost.requests, cost.round_trips, cost.turns), (2, 0, 1, 1));
        stream.write_all(&[execute("s"), execute("s")].concat()).expect("the proxy reads");
        assert_eq!(until_ready(&mut stream), b"2CZ");
        assert_eq!(until_ready(&mut stream), b"2CZ");
        let cost = proxy.counts() - before;
        assert_eq!((cost.messages, cost.requests, cost.round_trips), (8, 2, 3));
        Ok(())
    });
}

#[test]
fn the_reply_of_a_commit_is_lost_and_its_effect_is_not() {
    on_both(|wanted| {
        let (server, proxy) = set_up(wanted)?;
        let mut client = proxy.client()?;
        let armed = proxy.arm(Trigger::Commit, Fault::DropReply);
        client.query("BEGIN")?;
        client.query("INSERT INTO t VALUES (1)")?;
        assert!(!armed.wait_struck(Duration::ZERO));
        assert!(lost(client.query("COMMIT")));
        armed.expect_done();
        assert_eq!(stored(&server)?, "1");
        // Once only.
        proxy.client()?.query("BEGIN; INSERT INTO t VALUES (2); COMMIT")?;
        // One of several statements, in lower case.
        let armed = proxy.arm(Trigger::Commit, Fault::DropReply);
        assert!(lost(proxy.client()?.query("begin; insert into t values (3); commit")));
        armed.expect_done();
        assert_eq!(stored(&server)?, "1,2,3");
        Ok(())
    });
}

#[test]
fn faults_see_through_prepared_statements() {
    on_both(|wanted| {
        let (server, proxy) = set_up(wanted)?;
        let mut stream = UnixStream::connect(proxy.socket_dir().join(".s.PGSQL.5432")).expect("the proxy listens");
        start_up(&mut stream);
        let armed = proxy.arm(Trigger::Containing("insert INTO".to_owned()), Fault::DropReply);
        stream.write_all(&prepare("s", "INSERT INTO t VALUES (1)")).expect("the proxy reads");
        assert_eq!(until_ready(&mut stream), b"1Z", "preparing executes nothing");
        stream.write_all(&execute("s")).expect("the proxy reads");
        assert_eq!(until_ready(&mut stream), b"");
        armed.expect_done();
        assert_eq!(stored(&server)?, "1");
        Ok(())
    });
}

#[test]
fn a_lost_reply_is_lost_whole_and_a_cut_one_in_its_middle() {
    on_both(|wanted| {
        let (server, proxy) = set_up(wanted)?;
        let open = || {
            let mut stream = UnixStream::connect(proxy.socket_dir().join(".s.PGSQL.5432")).expect("the proxy listens");
            start_up(&mut stream);
            stream
        };
        let insert = |n: u32| message(b'Q', format!("INSERT INTO t VALUES ({n}) RETURNING n\0").as_bytes());
        let mut stream = open();
        let armed = proxy.arm(Trigger::Query, Fault::DropReply);
        stream.write_all(&insert(1)).expect("the proxy reads");
        let mut seen = Vec::new();
        let _ = stream.read_to_end(&mut seen);
        assert!(seen.is_empty());
        armed.expect_done();

        // Seven bytes: the head of the description and two bytes of its body.
        let mut stream = open();
        let armed = proxy.arm(Trigger::Query, Fault::CutReply(7));
        stream.write_all(&insert(2)).expect("the proxy reads");
        let mut seen = Vec::new();
        let _ = stream.read_to_end(&mut seen);
        assert_eq!((seen.len(), seen[0]), (7, b'T'));
        armed.expect_done();
        assert_eq!(stored(&server)?, "1,2");
        Ok(())
    });
}

#[test]
fn a_request_that_is_dropped_or_cut_has_no_effect() {
    on_both(|wanted| {
        let (server, proxy) = set_up(wanted)?;
        for fault in [Fault::DropRequest, Fault::CutRequest(3), Fault::CutRequest(20), Fault::CutRequest(usize::MAX)] {
            let mut client = proxy.client()?;
            let backend = client.backend();
            let armed = proxy.arm(Trigger::Query, fault.clone());
            assert!(lost(client.query("INSERT INTO t VALUES (1)")), "{fault:?}");
            armed.expect_done();
            common::eventually("the backend ends", || !server.processes().contains(&backend));
            assert_eq!(stored(&server)?, "", "{fault:?}");
        }
        Ok(())
    });
}

#[test]
fn a_held_request_is_executed_after_its_client_has_gone() {
    on_both(|wanted| {
        let (server, proxy) = set_up(wanted)?;
        // The client leaves by itself.
        let armed = proxy.arm(Trigger::Query, Fault::Hold);
        let mut client = proxy.client()?;
        client.set_timeout(Duration::from_millis(100))?;
        assert!(lost(client.query("INSERT INTO t VALUES (1)")));
        drop(client);
        assert!(armed.wait_struck(PATIENCE) && !armed.wait_done(Duration::from_millis(50)));
        assert_eq!(stored(&server)?, "");
        armed.deliver();
        armed.expect_done();
        assert_eq!(stored(&server)?, "1");

        // The client is cut, and sees it at once.
        let armed = proxy.arm(Trigger::Query, Fault::Hold);
        let mut client = proxy.client()?;
        client.send("INSERT INTO t VALUES (2)")?;
        assert!(armed.wait_struck(PATIENCE));
        armed.cut_client();
        assert!(lost(client.answer()));
        server.query("INSERT INTO t VALUES (3)")?;
        assert_eq!(stored(&server)?, "1,3");
        armed.deliver();
        armed.expect_done();
        assert_eq!(stored(&server)?, "1,2,3");

        // The client waits: it is answered late.
        let armed = proxy.arm(Trigger::Query, Fault::Hold);
        let mut client = proxy.client()?;
        client.send("INSERT INTO t VALUES (4)")?;
        assert!(armed.wait_struck(PATIENCE));
        armed.deliver();
        client.answer()?;
        assert_eq!(client.value("SELECT count(*) FROM t")?, "4", "the connection goes on");

        // Discarded: never executed. And a proxy that goes discards what it holds.
        let armed = proxy.arm(Trigger::Query, Fault::Hold);
        client.send("INSERT INTO t VALUES (5)")?;
        assert!(armed.wait_struck(PATIENCE));
        armed.discard();
        assert!(lost(client.answer()));
        let armed = proxy.arm(Trigger::Query, Fault::Hold);
        let mut client = proxy.client()?;
        client.send("INSERT INTO t VALUES (6)")?;
        assert!(armed.wait_struck(PATIENCE));
        drop(proxy);
        assert!(lost(client.answer()));
        armed.expect_done();
        assert_eq!(stored(&server)?, "1,2,3,4");
        Ok(())
    });
}

#[test]
fn it_delays() {
    on_both(|wanted| {
        let (_server, proxy) = set_up(wanted)?;
        let mut client = proxy.client()?;
        let delay = Duration::from_millis(60);
        let mut timed = |n: u32| {
            let began = Instant::now();
            client.query("SELECT 1").map(|_| (n, began.elapsed() >= delay))
        };
        assert_eq!(timed(0)?, (0, false));
        let _ = proxy.arm(Trigger::Query, Fault::Delay(delay));
        assert_eq!(timed(1)?, (1, true));
        let _ = proxy.arm(Trigger::Query, Fault::DelayReply(delay));
        assert_eq!(timed(2)?, (2, true));
        assert_eq!(timed(3)?, (3, false));
        proxy.delay_all(delay);
        assert_eq!(timed(4)?, (4, true));
        proxy.delay_all(Duration::ZERO);
        assert!(proxy.arm(Trigger::Commit, Fault::DropReply).disarm());
        assert_eq!(timed(5)?, (5, false));
        Ok(())
    });
}

#[test]
fn it_partitions_and_follows_a_promotion() {
    on_both(|wanted| {
        let (server, proxy) = set_up(wanted)?;
        let standby = server.standby("s1")?;
        server.query("INSERT INTO t VALUES (1)")?;
        standby.catch_up_with(&server)?;
        let mut client = proxy.client()?;
        proxy.accept(false);
        proxy.cut_all();
        assert!(lost(client.query("SELECT 1")));
        assert!(matches!(proxy.client(), Err(Error::Io { .. })));
        server.kill()?;
        standby.promote()?;
        proxy.redirect(&standby);
        proxy.accept(true);
        let mut client = proxy.client()?;
        client.query("INSERT INTO t VALUES (2)")?;
        assert_eq!(stored(&standby)?, "1,2");
        // A crash behind the proxy is seen through it.
        client.send("SELECT pg_sleep(60)")?;
        standby.crash()?;
        assert!(client.answer().is_err());
        standby.start()?;
        assert_eq!(proxy.client()?.value("SELECT count(*) FROM t")?, "2");
        Ok(())
    });
}

#[test]
fn it_listens_on_tcp_and_passes_much_data() {
    on_both(|wanted| {
        let (_server, proxy) = set_up(wanted)?;
        let address = proxy.tcp()?;
        assert_eq!(proxy.tcp()?, address);
        let mut stream = TcpStream::connect(address).expect("the proxy listens");
        start_up(&mut stream);
        stream
            .write_all(&message(b'Q', b"SELECT repeat('x', 5000000) FROM generate_series(1, 4)\0"))
            .expect("it reads");
        assert_eq!(until_ready(&mut stream), b"TDDDDCZ");
        // COPY: data without a request of its own.
        stream.write_all(&message(b'Q', b"COPY t FROM STDIN\0")).expect("it reads");
        stream
            .write_all(&[message(b'd', b"1\n"), message(b'd', b"2\n"), message(b'c', b"")].concat())
            .expect("it reads");
        assert_eq!(until_ready(&mut stream), b"GCZ");
        let mut client: Client = proxy.client()?;
        assert_eq!(client.value("SELECT sum(n) FROM t")?, "3");
        // Eight at once.
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut client = proxy.client().expect("it listens");
                    (0..200).for_each(|n| {
                        assert_eq!(client.value(&format!("SELECT {n}")).expect("it passes"), n.to_string())
                    });
                });
            }
        });
        Ok(())
    });
}
