//! Which API and what a request wants, from its method, path and headers.

use axum::http::{HeaderMap, Method};

use super::dialect::Wire;
use super::record::{Api, Purpose};

/// The meaning of a request line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) api: Api,
    pub(super) purpose: Purpose,
    /// Only Gemini has it in the path.
    pub(super) model: Option<String>,
    /// How the answer travels. `None`: the body's `stream` tells.
    pub(super) wire: Option<Wire>,
}

impl Route {
    pub(super) fn of(method: &Method, path: &str, query: &str, headers: &HeaderMap) -> Self {
        let upgrade = headers.contains_key("sec-websocket-key");
        let (api, purpose) = match (method.as_str(), path) {
            ("POST", "/v1/messages") => (Api::Anthropic, Purpose::Generate),
            ("POST", "/v1/messages/count_tokens") => (Api::Anthropic, Purpose::CountTokens),
            ("POST", "/v1/responses" | "/responses") => (Api::Responses, Purpose::Generate),
            ("GET", "/v1/responses" | "/responses") if upgrade => {
                (Api::Responses, Purpose::Handshake)
            }
            ("POST", "/v1/chat/completions" | "/chat/completions") => {
                (Api::Chat, Purpose::Generate)
            }
            ("GET", "/v1/models" | "/models" | "/v1beta/models") => {
                (vendor(path, headers), Purpose::Models)
            }
            ("POST", _) => match gemini(path, query) {
                Some(route) => return route,
                None => (vendor(path, headers), Purpose::Unknown),
            },
            _ => (vendor(path, headers), Purpose::Unknown),
        };
        Self { api, purpose, model: None, wire: None }
    }
}

fn gemini(path: &str, query: &str) -> Option<Route> {
    let rest = path.strip_prefix("/v1beta/models/").or_else(|| path.strip_prefix("/v1/models/"))?;
    let (model, verb) = rest.rsplit_once(':')?;
    let sse = query.split('&').any(|pair| pair == "alt=sse");
    let (purpose, wire) = match verb {
        "generateContent" => (Purpose::Generate, Wire::Whole),
        "streamGenerateContent" if sse => (Purpose::Generate, Wire::Sse),
        "streamGenerateContent" => (Purpose::Generate, Wire::JsonArray),
        "countTokens" => (Purpose::CountTokens, Wire::Whole),
        _ => return None,
    };
    Some(Route { api: Api::Gemini, purpose, model: Some(model.to_owned()), wire: Some(wire) })
}

/// Whose error shape a client expects on a path that several vendors have or none.
fn vendor(path: &str, headers: &HeaderMap) -> Api {
    let is = |name: &str| headers.contains_key(name);
    if path.starts_with("/v1beta") || is("x-goog-api-key") || is("x-goog-api-client") {
        Api::Gemini
    } else if is("anthropic-version")
        || path.starts_with("/v1/messages")
        || path.starts_with("/api/")
    {
        Api::Anthropic
    } else if path.contains("/responses") {
        Api::Responses
    } else if path.contains("/chat/") {
        Api::Chat
    } else {
        Api::Other
    }
}
