//! Standbys.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use super::{Options, PATIENCE, SUPERUSER, Server, wait_until};
use crate::client::server_message;
use crate::{Client, Error, Wanted};

impl Server {
    /// Starts a standby that streams from this server, ready for reading, under this name (its `application_name` and its slot). With
    /// the same installation, and the settings this server has now.
    pub fn standby(&self, name: &str) -> Result<Self, Error> {
        let options = {
            let state = self.state();
            let mut settings = state.settings.clone();
            settings.remove("synchronous_standby_names");
            let parent = self.folder.parent().map(Path::to_owned);
            Options { settings, parent, ..Options::new(Wanted::Any) }
        };
        self.value(&format!("SELECT pg_create_physical_replication_slot('{name}', true) IS NOT NULL"))?;
        let conninfo = format!("host={} user={SUPERUSER} application_name={name}", self.folder.display());
        let options = options.set("primary_conninfo", &conninfo).set("primary_slot_name", name);
        let standby = options.prepare(&self.installation, &format!("tpg-{}", crate::unique()))?;
        standby.take_base_backup(self)?;
        if !standby.state().supervisor.succeeds("standby")? {
            return Err(standby.failed("making a standby"));
        }
        standby.start()?;
        let streams = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"
        );
        if wait_until(PATIENCE, || Ok(self.value(&streams)? == "1"))? {
            Ok(standby)
        } else {
            Err(standby.failed("streaming"))
        }
    }

    /// Makes commits wait for these standbys (`synchronous_standby_names = 'FIRST n (names)'`), or for none, and waits until the server
    /// counts them as synchronous.
    ///
    /// With an unreachable standby, commits then wait without end: that is the point.
    pub fn set_synchronous(&self, names: &[&str]) -> Result<(), Error> {
        let list =
            if names.is_empty() { String::new() } else { format!("FIRST {} ({})", names.len(), names.join(", ")) };
        self.set("synchronous_standby_names", &list)?;
        self.reload()?;
        let count = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let done = wait_until(PATIENCE, || Ok(self.value(count)? == names.len().to_string()))?;
        if done { Ok(()) } else { Err(self.failed("waiting for synchronous standbys")) }
    }

    /// Waits until this standby has replayed what the primary has written so far.
    pub fn catch_up_with(&self, primary: &Self) -> Result<(), Error> {
        let position = primary.value("SELECT pg_current_wal_lsn()")?;
        let reached = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn");
        let done = wait_until(PATIENCE, || Ok(self.value(&reached)? == "t"))?;
        if done { Ok(()) } else { Err(Error::TimedOut(format!("replay of {position}"))) }
    }

    /// Makes this standby a primary and waits until it takes writes. The old primary is left alone.
    pub fn promote(&self) -> Result<(), Error> {
        let promoted = self.value("SELECT pg_promote(true, 60)")? == "t";
        if promoted { Ok(()) } else { Err(self.failed("promoting the standby")) }
    }

    /// Whether this server is a standby.
    pub fn is_standby(&self) -> Result<bool, Error> {
        Ok(self.value("SELECT pg_is_in_recovery()")? == "t")
    }

    /// Fills the data folder from a running server, through the protocol: not every package has `pg_basebackup`.
    fn take_base_backup(&self, primary: &Self) -> Result<(), Error> {
        if !self.state().supervisor.succeeds("folder data")? {
            return Err(self.failed("making a data folder"));
        }
        let parameters = [("user", SUPERUSER), ("replication", "true"), ("application_name", "test-postgres")];
        let mut connection = Client::connect_with(&primary.socket(), &parameters)?;
        connection.send("BASE_BACKUP (LABEL 'test-postgres', CHECKPOINT 'fast', WAL true, MANIFEST 'no')")?;
        // It works in the data folder: should we be killed, the supervisor takes it for a process of the server and ends it.
        let mut tar = self.user.command("tar", &self.folder);
        tar.args(["-x", "-f", "-", "-C"])
            .arg(self.data())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut tar = tar.spawn().map_err(Error::io("starting tar"))?;
        let mut archive = tar.stdin.take().expect("stdin is piped two lines above");
        let mut archives = 0;
        loop {
            let (kind, body) = connection.message()?;
            match (kind, body.first()) {
                // Tablespaces would follow as further archives; a test's server has none.
                (b'd', Some(b'n')) => archives += 1,
                (b'd', Some(b'd')) if archives == 1 => {
                    archive.write_all(&body[1..]).map_err(Error::io("unpacking a base backup"))?;
                }
                (b'E', _) => return Err(server_message(&body).into()),
                (b'Z', _) => break,
                _ => {}
            }
        }
        drop(archive);
        let status = tar.wait().map_err(Error::io("unpacking a base backup"))?;
        if status.success() && archives == 1 { Ok(()) } else { Err(self.failed("unpacking a base backup")) }
    }
}
