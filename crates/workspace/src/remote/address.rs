//! Web addresses of hosted repositories.

use std::fmt::Write as _;

use crate::repo::url::{self, Target};

/// What kind of page a host has for this.
enum Page {
    GitHub,
    GitLab,
    Bitbucket,
    Gitea,
}

/// A repository on a server that has pages.
struct Hosted {
    /// The server, as it is named in the address.
    authority: String,
    host: String,
    path: String,
    /// How the address began, where its pages are at the same place.
    web: Option<String>,
}

impl Hosted {
    /// `None` where the URL is too odd to be sure that nothing of it is a secret.
    fn at(remote_url: &str) -> Option<Self> {
        let Some(Target::Network(identity)) = url::parse(remote_url.as_bytes()) else {
            return None;
        };
        let (authority, path) = identity.split_once('/')?;
        let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
        let scheme =
            remote_url.trim().split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let web = scheme.filter(|scheme| matches!(scheme.as_str(), "http" | "https"));
        // A short name in an ssh address may be one of the user's own ssh settings.
        if !is_host(host) || (web.is_none() && !host.contains('.')) {
            return None;
        }
        if !port.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        // Stricter than the hosts are. So no part of a password that was cut in the wrong place,
        // which would come with its @, gets through.
        if path.split('/').count() < 2 || !path.split('/').all(is_name) {
            return None;
        }
        let (authority, host, path) = (authority.to_owned(), host.to_owned(), path.to_owned());
        Some(Self { authority, host, path, web })
    }

    /// Whether it is somebody's, and not in a group of groups.
    fn is_flat(&self) -> bool {
        self.path.split('/').count() == 2
    }
}

/// The page on which `branch` can be proposed for merging into `base`, for a remote at this URL.
/// `None` where the host is not known to have one, or where the URL is too odd to be sure that
/// nothing of it is a secret.
pub fn compare_url(remote_url: &str, base: &str, branch: &str) -> Option<String> {
    let hosted = Hosted::at(remote_url)?;
    let page = page(&hosted.host)?;
    let whole = matches!(page, Page::GitLab) || hosted.is_flat();
    if !whole || base.is_empty() || branch.is_empty() {
        return None;
    }
    let Hosted { authority, host, path, web } = hosted;
    let top = match web.as_deref() {
        Some("http") if !is_public(&host) => format!("http://{authority}"),
        Some(_) => format!("https://{authority}"),
        // The port is that of ssh.
        None => format!("https://{host}"),
    };
    let (base, branch) = (encode(base), encode(branch));
    let query = match page {
        Page::GitHub => format!("compare/{base}...{branch}?expand=1"),
        Page::Gitea => format!("compare/{base}...{branch}"),
        Page::Bitbucket => format!("pull-requests/new?source={branch}&dest={base}"),
        Page::GitLab => format!(
            "-/merge_requests/new?merge_request%5Bsource_branch%5D={branch}\
             &merge_request%5Btarget_branch%5D={base}"
        ),
    };
    Some(format!("{top}/{path}/{query}"))
}

/// What `gh` calls the repository of a remote at this URL: `github.com/owner/name`. `None` where it is
/// certainly none of GitHub's, or where nobody can tell.
pub fn gh_repo(remote_url: &str) -> Option<String> {
    let hosted = Hosted::at(remote_url)?;
    // A company's own GitHub may have any name.
    let may_be = matches!(page(&hosted.host), Some(Page::GitHub) | None);
    (may_be && hosted.is_flat()).then(|| format!("{}/{}", hosted.host, hosted.path))
}

fn page(host: &str) -> Option<Page> {
    match host {
        "bitbucket.org" => Some(Page::Bitbucket),
        "codeberg.org" => Some(Page::Gitea),
        _ if host.contains("gitlab") => Some(Page::GitLab),
        _ if host.contains("gitea") || host.contains("forgejo") => Some(Page::Gitea),
        _ if host.contains("git") => Some(Page::GitHub),
        _ => None,
    }
}

/// Hosts that have no page without encryption.
fn is_public(host: &str) -> bool {
    matches!(host, "github.com" | "gitlab.com" | "bitbucket.org" | "codeberg.org")
}

fn is_host(host: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    !host.is_empty() && host.chars().all(fine)
}

fn is_name(part: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    !part.is_empty() && part.chars().all(fine) && part != "." && part != ".."
}

/// Everything but letters, digits and `-._~` as `%NN`.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            // Writing to a String cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}
