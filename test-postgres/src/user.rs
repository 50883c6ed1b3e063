//! PostgreSQL refuses to run as root: who runs it instead.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The user the server and its programs run as.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    /// Set where we are root and have to change.
    change: Option<(u32, u32)>,
}

impl User {
    /// As root: `postgres` if the passwd file has it, else `nobody`. (initdb asks for the name of its user, so a bare number will not
    /// do.) Otherwise oneself.
    pub(crate) fn of_server() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entries: Vec<(&str, u32, u32)> = passwd
            .lines()
            .filter_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next()?;
                Some((name, fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
            })
            .collect();
        if uid == 0
            && let Some((name, uid, gid)) = ["postgres", "nobody"]
                .iter()
                .find_map(|wanted| entries.iter().find(|(name, uid, _)| name == wanted && *uid != 0))
        {
            return Self { name: (*name).to_owned(), uid: *uid, change: Some((*uid, *gid)) };
        }
        let name =
            entries.iter().find(|entry| entry.1 == uid).map_or_else(|| uid.to_string(), |entry| entry.0.to_owned());
        Self { name, uid, change: None }
    }

    /// A command of this user with a bare environment, in a folder that everyone may enter.
    pub(crate) fn command(&self, program: impl AsRef<Path>, home: &Path) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        command.env_clear().env("PATH", path).env("HOME", home).env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
        if let Some((uid, gid)) = self.change {
            // Dropping root's supplementary groups comes with `uid`.
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Gives a path to this user.
    pub(crate) fn own(&self, path: &Path) -> std::io::Result<()> {
        match self.change {
            Some((uid, gid)) => std::os::unix::fs::chown(path, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }
}
