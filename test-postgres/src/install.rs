//! Finding an installation of PostgreSQL.

use std::env;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::user::User;
use crate::{ENV_BIN, ENV_CACHE, Error};

/// Which PostgreSQL is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers list what they run on")]
pub enum Wanted {
    /// The first one found.
    Any,
    /// The first one found of this major version.
    Major(u32),
}

impl Wanted {
    /// The oldest major the tests run on (Debian 12's).
    pub const OLDEST: Self = Self::Major(15);
    /// The newest major the tests run on.
    pub const NEWEST: Self = Self::Major(18);
    /// Both, for a test that runs on each. `fetch` brings them.
    pub const BOTH: [Self; 2] = [Self::OLDEST, Self::NEWEST];

    pub(crate) fn fits(self, major: u32) -> bool {
        match self {
            Self::Any => true,
            Self::Major(wanted) => wanted == major,
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any major version"),
            Self::Major(major) => write!(f, "major version {major}"),
        }
    }
}

/// A folder with the programs of one PostgreSQL: at least `postgres` and `initdb`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Installation {
    bin: PathBuf,
    major: u32,
    version: String,
    /// For packages whose programs look for their libraries elsewhere.
    libraries: Option<PathBuf>,
}

impl Installation {
    /// The first installation that fits, in this order: the folders of [`ENV_BIN`], `PATH`, `/usr/lib/postgresql/*/bin` newest first,
    /// what `test-postgres fetch` fetched newest first. Installs nothing: see [`crate::fetch()`].
    pub fn find(wanted: Wanted) -> Result<Self, Error> {
        let mut looked_at = String::new();
        for (place, bin) in places() {
            let wrong = match Self::at(&bin) {
                Ok(found) if wanted.fits(found.major) => return Ok(found),
                Ok(found) => format!("version {}", found.version),
                Err(wrong) => wrong,
            };
            let _ = write!(looked_at, "\n    {place} {}: {wrong}", bin.display());
        }
        if looked_at.is_empty() {
            looked_at =
                format!(" {ENV_BIN}, PATH, /usr/lib/postgresql/*/bin, {}: nothing there", cache_folder().display());
        }
        Err(Error::NotFound { wanted, looked_at })
    }

    /// All installations, in the order of [`find`](Self::find).
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for found in places().iter().filter_map(|(_, bin)| Self::at(bin).ok()) {
            if !all.contains(&found) {
                all.push(found);
            }
        }
        all
    }

    /// The installation whose programs are in this folder, if the server's user can run it.
    fn at(bin: &Path) -> Result<Self, String> {
        // PATH often holds a link to `postgres` alone; initdb is where it leads to.
        let program = fs::canonicalize(bin.join("postgres")).map_err(|e| e.to_string())?;
        let bin = program.parent().ok_or("no folder")?.to_owned();
        if !bin.join("initdb").exists() {
            return Err("no initdb there".to_owned());
        }
        let lib = bin.parent().map(|prefix| prefix.join("lib"));
        let libraries = lib.filter(|lib| bin.starts_with(cache_folder()) && lib.is_dir());
        let user = User::of_server();
        let mut command = user.command(&program, Path::new("/"));
        if let Some(libraries) = &libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let output = command
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("user {} cannot run it: {e}", user.name))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // "postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)"
        let version = text.split_whitespace().nth(2).unwrap_or_default().to_owned();
        let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
        let major =
            digits.parse().map_err(|_| format!("no version: {text} {}", String::from_utf8_lossy(&output.stderr)))?;
        Ok(Self { bin, major, version, libraries })
    }

    /// The folder of the programs.
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// The major version, like 15.
    pub fn major(&self) -> u32 {
        self.major
    }

    /// The version, like `15.20`.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn libraries(&self) -> Option<&Path> {
        self.libraries.as_deref()
    }

    /// An initialised data folder to copy, where `fetch` has made one for this version and user.
    pub(crate) fn template(&self, user: &User) -> PathBuf {
        let source = if self.libraries.is_some() { "fetched" } else { "system" };
        cache_folder().join("templates").join(format!("{}-{source}-{}", self.version, user.name))
    }
}

/// Where `fetch` puts what it fetches: [`ENV_CACHE`]; as root `/var/cache/test-postgres`, because the server's user cannot enter root's
/// home; otherwise `test-postgres` in the user's cache folder.
pub fn cache_folder() -> PathBuf {
    if let Some(folder) = env::var_os(ENV_CACHE) {
        return folder.into();
    }
    if rustix::process::geteuid().is_root() {
        return "/var/cache/test-postgres".into();
    }
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    base.or(home).unwrap_or_else(|| "/var/tmp".into()).join("test-postgres")
}

fn places() -> Vec<(&'static str, PathBuf)> {
    let mut places = Vec::new();
    if let Some(folders) = env::var_os(ENV_BIN) {
        places.extend(env::split_paths(&folders).map(|folder| (ENV_BIN, folder)));
    }
    if let Some(path) = env::var_os("PATH") {
        let found = env::split_paths(&path).filter(|folder| folder.join("postgres").exists());
        places.extend(found.map(|folder| ("PATH", folder)));
    }
    places.extend(newest_first(Path::new("/usr/lib/postgresql"), "bin").into_iter().map(|bin| ("installed", bin)));
    places.extend(newest_first(&cache_folder().join("installed"), "bin").into_iter().map(|bin| ("fetched", bin)));
    places
}

/// The folders `parent/*/below`, by the number their name begins with.
fn newest_first(parent: &Path, below: &str) -> Vec<PathBuf> {
    let number = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or(0)
    };
    let mut folders: Vec<PathBuf> =
        fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort_by_key(|path| (std::cmp::Reverse(number(path)), path.clone()));
    folders.into_iter().map(|folder| folder.join(below)).filter(|bin| bin.join("postgres").exists()).collect()
}
