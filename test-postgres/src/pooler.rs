//! A real PgBouncer in transaction mode in front of a server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::user::User;
use crate::{Error, FETCH_COMMAND};

const PORT: u16 = 6432;

/// The script that holds the pooler: at the end of its standard input, also by a `kill -9` of the test process, it
/// kills the pooler and removes the folder.
const SUPERVISOR: &str = r#""$0" -q "$1/pgbouncer.ini" & pooler=$!; read -r _; kill -9 "$pooler"; rm -rf "$1""#;

/// A PgBouncer until it is dropped, on a Unix socket.
#[derive(Debug)]
pub struct Pooler {
    supervisor: Child,
    folder: PathBuf,
}

impl Pooler {
    /// Starts one in front of the server with these sockets, with three server connections.
    ///
    /// `settings` are lines for the `[pgbouncer]` section, such as `ignore_startup_parameters = extra_float_digits`.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] names the command that fetches PgBouncer, where there is none.
    pub fn start(server_sockets: &Path, server_user: &str, settings: &str) -> Result<Self, Error> {
        let program = program()?;
        let user = User::of_server();
        let folder = std::env::temp_dir().join(crate::fresh_name("pgbouncer"));
        fs::create_dir(&folder).map_err(Error::io("creating the pooler's folder"))?;
        let ini = format!(
            "[databases]\n* = host={} user={server_user}\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {}\n\
             listen_port = {PORT}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n\
             max_client_conn = 500\n{settings}\n",
            server_sockets.display(),
            folder.display()
        );
        let file = folder.join("pgbouncer.ini");
        let written = fs::write(&file, ini)
            .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)))
            .and_then(|()| user.own(&file))
            .and_then(|()| user.own(&folder));
        written.map_err(Error::io("writing the pooler's settings"))?;
        let mut command = user.command("/bin/sh", &folder);
        command.args(["-c", SUPERVISOR]).arg(program).arg(&folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let supervisor = command.spawn().map_err(Error::io("starting /bin/sh"))?;
        let pooler = Self { supervisor, folder };
        let start = Instant::now();
        while !pooler.folder.join(format!(".s.PGSQL.{PORT}")).exists() {
            if start.elapsed() > Duration::from_secs(10) {
                return Err(Error::TimedOut("waiting for PgBouncer's socket".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(pooler)
    }

    /// The folder of its socket, whose port is 6432: for a list of several hosts.
    pub fn socket_dir(&self) -> &Path {
        &self.folder
    }

    /// Where it listens, for a driver.
    pub fn url(&self) -> String {
        format!("{}&port={PORT}", crate::url(&self.folder, "postgres", "postgres"))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        // It has nothing left to do but to kill and to remove.
        let _ = self.supervisor.wait();
    }
}

/// Where PgBouncer is.
fn program() -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.exists()).ok_or_else(|| Error::Command {
        command: "pgbouncer".to_owned(),
        output: format!("it is not installed.\n  Fetch it with:  {FETCH_COMMAND}"),
    })
}

/// Brings PgBouncer by Debian's package, unless it is there.
pub(crate) fn fetch() -> Result<String, Error> {
    if program().is_ok() {
        return Ok("there already".to_owned());
    }
    crate::fetch::from_apt("pgbouncer")
}
