//! URLs with several hosts, as libpq takes them: sqlx knows one host a URL.

use ledger_core::{Invalid, LedgerError, Result};
use sqlx::postgres::PgConnectOptions;

use crate::classify;

/// What is wanted of a host: what `target_session_attrs` may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A primary that takes writes.
    Primary,
    /// A standby, else a primary.
    Replica,
}

/// The options of each host in a URL, in its order.
pub(crate) fn hosts(url: &str, wanted: Wanted) -> Result<Vec<PgConnectOptions>> {
    let urls = split(url, wanted)?;
    urls.iter().map(|url| url.parse().map_err(|error| classify::connect(error).error)).collect()
}

/// One URL a host. A URL that can not be taken apart is left to sqlx, which says what is wrong with it.
fn split(url: &str, wanted: Wanted) -> Result<Vec<String>> {
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(vec![url.to_owned()]) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, mut hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let (mut ports, mut others, mut attrs) = (None, Vec::new(), false);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            // As in libpq, and in sqlx: what stands in the query comes last and counts.
            ("host" | "hostaddr", value) => hosts = value,
            ("port", value) => ports = Some(value),
            ("target_session_attrs", value) => {
                check_attrs(value, wanted)?;
                attrs = true;
            }
            _ => others.push(pair),
        }
    }
    let hosts = list(hosts);
    if hosts.len() == 1 && !attrs {
        return Ok(vec![url.to_owned()]);
    }
    let ports = ports.map_or_else(Vec::new, list);
    if ports.len() > 1 && ports.len() != hosts.len() {
        return Err(unusable(format!(
            "{} hosts and {} ports: give one port, or one for each",
            hosts.len(),
            ports.len()
        )));
    }
    let each = hosts.iter().enumerate().map(|(nth, host)| {
        if host.is_empty() && hosts.len() > 1 {
            return Err(unusable("a host in the list is empty".to_owned()));
        }
        let port = ports.get(nth).or(ports.first());
        let host = encoded(host);
        // A port of the query replaces the one beside the host.
        let host = match port {
            Some(_) => host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(&*host, |(host, _)| host),
            None => &host,
        };
        let mut one = format!("{scheme}://");
        if !user.is_empty() {
            one = one + user + "@";
        }
        one += host;
        if let Some(port) = port {
            one = one + ":" + port;
        }
        one += path;
        if !others.is_empty() {
            one = one + "?" + &others.join("&");
        }
        Ok(one)
    });
    each.collect()
}

fn check_attrs(value: &str, wanted: Wanted) -> Result<()> {
    let fits = match wanted {
        Wanted::Primary => matches!(value, "read-write" | "primary"),
        Wanted::Replica => matches!(value, "any" | "prefer-standby" | "standby" | "read-only"),
    };
    if fits {
        return Ok(());
    }
    let problem = match wanted {
        Wanted::Primary => {
            format!("{value:?}: a ledger is on the primary, so `read-write` or `primary`; see also `connect_replica`")
        }
        Wanted::Replica => format!(
            "{value:?}: a replica is a standby where there is one, so `prefer-standby`, `standby`, `read-only` or `any`"
        ),
    };
    Err(LedgerError::Invalid(Invalid::Unusable { what: "target_session_attrs", problem }))
}

fn list(text: &str) -> Vec<&str> {
    // A comma may come encoded.
    text.split(',').flat_map(|part| part.split("%2C")).flat_map(|part| part.split("%2c")).collect()
}

/// The folder of a socket as the host part of a URL; another host as it is.
fn encoded(host: &str) -> String {
    if host.starts_with('/') { host.replace('/', "%2F") } else { host.to_owned() }
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn unusable(problem: String) -> LedgerError {
    LedgerError::Invalid(Invalid::Unusable { what: "hosts of the URL", problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> Vec<String> {
        split(url, Wanted::Primary).expect(url)
    }

    #[test]
    fn one_host_is_left_as_it_is() {
        for url in [
            "postgres://u:p@h:1/d?sslmode=require",
            "postgresql:///d?host=/tmp/x&user=u",
            "nonsense",
            "postgres://[::1]:5/d",
        ] {
            assert_eq!(parts(url), [url]);
        }
    }

    #[test]
    fn several_hosts_are_taken_apart_as_libpq_does() {
        assert_eq!(
            parts("postgres://u:p@a:1,b,[::1]:3/d?sslmode=require&target_session_attrs=read-write"),
            [
                "postgres://u:p@a:1/d?sslmode=require",
                "postgres://u:p@b/d?sslmode=require",
                "postgres://u:p@[::1]:3/d?sslmode=require",
            ]
        );
        assert_eq!(
            parts("postgresql:///d?host=/tmp/x,/tmp/y-1&user=u"),
            ["postgresql://%2Ftmp%2Fx/d?user=u", "postgresql://%2Ftmp%2Fy-1/d?user=u",]
        );
        assert_eq!(parts("postgresql://u@/d?host=a%2Cb&port=1,2"), ["postgresql://u@a:1/d", "postgresql://u@b:2/d"]);
        assert_eq!(parts("postgresql://a:9,b/d?port=5"), ["postgresql://a:5/d", "postgresql://b:5/d"]);
        let options = hosts("postgresql:///d?host=/tmp/x,h&user=u&port=7", Wanted::Primary).expect("a list");
        assert_eq!(options[0].get_socket().map(|path| path.to_string_lossy().into_owned()).as_deref(), Some("/tmp/x"));
        assert_eq!((options[1].get_host(), options[1].get_port(), options[1].get_username()), ("h", 7, "u"));
    }

    #[test]
    fn what_can_not_be_meant_is_refused_and_named() {
        for (url, word) in [
            ("postgres://a,b,c/d?port=1,2", "3 hosts and 2 ports"),
            ("postgres://a,,c/d", "empty"),
            ("postgres://a,b/d?target_session_attrs=standby", "connect_replica"),
        ] {
            let error = split(url, Wanted::Primary).expect_err(url).to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
        assert!(split("postgres://a/d?target_session_attrs=read-write", Wanted::Replica).is_err());
    }
}
