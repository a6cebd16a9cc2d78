//! Remote URLs, as far as they say which repository is meant.
//!
//! Promise: URLs that git would take to the same repository of the same host come out the same, and
//! nothing that could be a secret comes out: no user, no password, no query, no fragment.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// Where a remote points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `host/path`, or `host:port/path` where the port is not the scheme's own.
    Network(String),
    /// A repository on this machine; may be relative to the top of the working tree.
    Local(PathBuf),
}

/// Hosts that offer ssh on port 443 under a second name.
const SECOND_NAMES: [(&str, &str); 3] = [
    ("ssh.github.com", "github.com"),
    ("altssh.gitlab.com", "gitlab.com"),
    ("altssh.bitbucket.org", "bitbucket.org"),
];

/// `None`: no repository can be meant by this.
pub(crate) fn parse(url: &[u8]) -> Option<Target> {
    let url = url.trim_ascii();
    if let Some((scheme, rest)) = split_once(url, b"://")
        && scheme.iter().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b))
    {
        let scheme = scheme.to_ascii_lowercase();
        return match scheme.as_slice() {
            b"file" => local(rest.strip_prefix(b"localhost").unwrap_or(rest), true),
            _ => network(&scheme, rest),
        };
    }
    if let Some((helper, rest)) = split_once(url, b"::")
        && !helper.is_empty()
        && helper.iter().all(u8::is_ascii_alphanumeric)
    {
        return foreign(helper, rest);
    }
    // As git sees it: with a colon before the first slash it is `host:path`, else a path.
    match scp_colon(url) {
        Some(colon) => scp(url.get(..colon)?, url.get(colon + 1..)?),
        None => local(url, false),
    }
}

fn local(path: &[u8], encoded: bool) -> Option<Target> {
    if path.is_empty() {
        return None;
    }
    let path = if encoded { decode(path) } else { path.to_vec() };
    Some(Target::Local(OsString::from_vec(path).into()))
}

/// A remote helper (`ext::…`, `codecommit::…`) may put anything after the colons, also a secret, so
/// only a hash of it is kept.
fn foreign(helper: &[u8], rest: &[u8]) -> Option<Target> {
    if let Some(Target::Network(inner)) = split_once(rest, b"://").and_then(|_| parse(rest)) {
        return Some(Target::Network(inner));
    }
    let hash = blake3::hash(rest).to_hex();
    let helper = String::from_utf8_lossy(helper).to_ascii_lowercase();
    Some(Target::Network(format!("{helper}/{}", hash.get(..16)?)))
}

fn scp_colon(url: &[u8]) -> Option<usize> {
    // A bracket may hold colons of its own: [::1]:path, user@[::1]:path, [host:port]:path.
    let open = url.iter().position(|&b| b == b'[');
    let from = match open {
        Some(open) if !url.get(..open)?.contains(&b'/') => {
            open + url.get(open..)?.iter().position(|&b| b == b']')?
        }
        _ => 0,
    };
    let rest = url.get(from..)?;
    let colon = rest.iter().position(|&b| b == b':')?;
    let slash = rest.iter().position(|&b| b == b'/');
    slash.is_none_or(|slash| colon < slash).then_some(from + colon)
}

fn scp(authority: &[u8], path: &[u8]) -> Option<Target> {
    // The brackets belong to an IPv6 address, or hold the whole of host and port.
    let authority = match authority.strip_prefix(b"[") {
        Some(inner) => {
            let inner = inner.strip_suffix(b"]").unwrap_or(inner);
            let colons = inner.iter().filter(|&&b| b == b':').count();
            if colons > 1 { authority } else { inner }
        }
        None => authority,
    };
    join(b"ssh", authority, path)
}

fn network(scheme: &[u8], rest: &[u8]) -> Option<Target> {
    let rest = match scheme {
        b"http" | b"https" | b"ftp" | b"ftps" => {
            let end = rest.iter().position(|b| b"?#".contains(b));
            rest.get(..end.unwrap_or(rest.len()))?
        }
        _ => rest,
    };
    let slash = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
    let (mut authority, mut path) = rest.split_at_checked(slash)?;
    // A password with a bare slash cuts the authority short: what looks like a port is none. All up
    // to the last @ is then taken for the secret.
    if !port_is_number(authority)
        && let Some(at) = rest.iter().rposition(|&b| b == b'@')
    {
        let rest = rest.get(at + 1..)?;
        let slash = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
        (authority, path) = rest.split_at_checked(slash)?;
    }
    join(scheme, authority, &decode(path))
}

fn port_is_number(authority: &[u8]) -> bool {
    let host = after_user(authority);
    let (_, port) = host_and_port(host);
    port.iter().all(u8::is_ascii_digit)
}

fn after_user(authority: &[u8]) -> &[u8] {
    let at = authority.iter().rposition(|&b| b == b'@');
    at.and_then(|at| authority.get(at + 1..)).unwrap_or(authority)
}

fn host_and_port(host: &[u8]) -> (&[u8], &[u8]) {
    let bracket = host.iter().rposition(|&b| b == b']').unwrap_or(0);
    match host.iter().rposition(|&b| b == b':') {
        Some(colon) if colon >= bracket => {
            let (host, port) = host.split_at(colon);
            (host, port.get(1..).unwrap_or_default())
        }
        _ => (host, b""),
    }
}

fn join(scheme: &[u8], authority: &[u8], path: &[u8]) -> Option<Target> {
    let (host, port) = host_and_port(after_user(authority));
    let host = super::escape(host).to_lowercase();
    let mut host = host.trim_end_matches('.');
    let default: &[u8] = match scheme {
        b"ssh" | b"git+ssh" | b"ssh+git" => b"22",
        b"https" => b"443",
        b"http" => b"80",
        b"git" => b"9418",
        _ => b"",
    };
    let mut port = if port == default { b"" } else { port };
    if let Some((_, first)) = SECOND_NAMES.iter().find(|(second, _)| *second == host) {
        host = first;
        port = b"";
    }
    let path = super::escape(path);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let path = parts.join("/");
    let path = path.strip_suffix(".git").unwrap_or(&path);
    let path = path.trim_end_matches('/');
    if host.is_empty() || path.is_empty() {
        return None;
    }
    Some(Target::Network(match port {
        b"" => format!("{host}/{path}"),
        port => format!("{host}:{}/{path}", super::escape(port)),
    }))
}

fn split_once<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.windows(separator.len()).position(|window| window == separator)?;
    Some((text.get(..at)?, text.get(at + separator.len()..)?))
}

/// Percent signs that stand for a byte; any other stays as it is.
fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let byte = tail
            .get(..2)
            .filter(|hex| first == b'%' && hex.iter().all(u8::is_ascii_hexdigit))
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match byte {
            Some(byte) => {
                out.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(url: &str) -> String {
        match parse(url.as_bytes()) {
            Some(Target::Network(identity)) => identity,
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn all_ways_to_write_one_repository_agree() {
        for url in [
            "git@github.com:user/Repo.git",
            "github.com:user/Repo",
            "git@github.com:/user/Repo.git/",
            "[git@github.com:22]:user/Repo",
            "ssh://git@github.com/user/Repo.git",
            "ssh://git@github.com:22/user/Repo",
            "ssh://git@ssh.github.com:443/user/Repo.git",
            "git+ssh://git@github.com/user/Repo.git",
            "https://github.com/user/Repo",
            "https://github.com:443/user/Repo.git",
            "https://user:token@github.com/user/Repo.git/",
            "https://x-access-token:gh%40p_1@github.com//user/Repo",
            "https://user:to/k:en@github.com/user/Repo",
            "https://user:p@ss@github.com/user/Repo",
            "https://github.com/user/Repo.git?token=secret#secret",
            "HTTPS://GitHub.com/user/Repo",
            "http://github.com:80/user/Repo/",
            "git://github.com:9418/user/Repo.git",
            "https://github.com./user/R%65po",
            " https://github.com/user/Repo\n",
        ] {
            assert_eq!(net(url), "github.com/user/Repo", "{url}");
        }
    }

    #[test]
    fn what_differs_stays_different() {
        assert_eq!(net("https://h/u/repo"), "h/u/repo");
        assert_eq!(net("https://h:8443/u/repo"), "h:8443/u/repo");
        assert_eq!(net("ssh://git@h:2222/u/repo.git"), "h:2222/u/repo");
        assert_eq!(net("[h:2222]:u/repo"), "h:2222/u/repo");
        assert_eq!(net("ssh://[2001:DB8::1]:22/u/r"), "[2001:db8::1]/u/r");
        assert_eq!(net("git@[::1]:u/r"), "[::1]/u/r");
        assert_eq!(net("https://h/group/sub/repo@v1.git"), "h/group/sub/repo@v1");
        assert_eq!(net("https://h/a%20b/c"), "h/a b/c");
        assert_eq!(net("https://h/a%0Ab/%FF"), "h/a\\x0ab/\\xff");
    }

    #[test]
    fn helpers_keep_no_text_that_could_be_secret() {
        assert_eq!(net("gcrypt::https://u:secret@h/u/r.git"), "h/u/r");
        let ext = net("ext::ssh -i key secret %S");
        assert!(ext.starts_with("ext/") && !ext.contains("secret"), "{ext}");
    }

    #[test]
    fn paths_are_paths() {
        for (url, path) in [
            ("/srv/a b.git", "/srv/a b.git"),
            ("../other", "../other"),
            ("./x:y", "./x:y"),
            ("dir/x:y", "dir/x:y"),
            ("/a[b]:c", "/a[b]:c"),
            ("file:///srv/a%20b", "/srv/a b"),
            ("FILE://localhost/srv/a", "/srv/a"),
        ] {
            assert_eq!(parse(url.as_bytes()), Some(Target::Local(path.into())), "{url}");
        }
        for url in ["", "https://", "https:///x", "ssh://host", "host:"] {
            assert_eq!(parse(url.as_bytes()), None, "{url}");
        }
    }

    #[test]
    fn no_input_is_too_odd() {
        let pieces: [&[u8]; 11] =
            [b":", b"/", b"@", b"[", b"]", b"://", b"%", b"a", b"\xff", b"?", b".git"];
        for number in 0..pieces.len().pow(4) {
            let mut rest = number;
            let mut url = Vec::new();
            for _ in 0..4 {
                url.extend_from_slice(pieces[rest % pieces.len()]);
                rest /= pieces.len();
            }
            let _ = parse(&url);
        }
    }
}
