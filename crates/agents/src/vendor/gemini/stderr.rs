//! What it only says on standard error: its retries, in lines of a fixed form.

use std::time::Duration;

use super::SIGN_IN;
use crate::vendor::{Signal, Trouble, api_error::ApiError};

/// The one retry that is told over several lines, and what the last report of an error was about.
#[derive(Debug, Default)]
pub(super) struct Stderr {
    /// The first line that tells what is wrong.
    pub(super) first: String,
    /// An attempt that failed; whether it is tried again is still to come.
    pub(super) attempt: Option<String>,
    pub(super) spent: bool,
    pub(super) retry_after: Option<Duration>,
}

impl Stderr {
    /// These are the program's own fixed words, and the names of its errors as Node prints them.
    pub(super) fn line(&mut self, line: &str) -> Option<Signal> {
        const REPORT: &str = "Error when talking to Gemini API ";
        let noise =
            ["Warning: ", "Ripgrep ", "[STARTUP]"].iter().any(|start| line.starts_with(start));
        if self.first.is_empty() && !noise && !line.trim().is_empty() {
            line.clone_into(&mut self.first);
        }
        if line.starts_with(REPORT) {
            self.spent = line.contains(".json TerminalQuotaError: ");
        }
        if self.spent
            && let Some(wait) = line.trim().strip_prefix("retryDelayMs: ")
        {
            self.retry_after = wait.trim_end_matches(',').parse().ok().map(Duration::from_millis);
        }
        let said = attempt_failed(line);
        if let Some((Failed::With(status), rest)) = said {
            return Some(Signal::Retrying { trouble: status_trouble(status, rest), wait: None });
        }
        if let Some((Failed::Because, message)) = said {
            self.attempt = Some(message.to_owned());
        }
        self.retried(line)
    }

    /// `… Retrying after 5186ms...` at the end of what a quota's error said. The time is there only
    /// for those.
    pub(super) fn retried(&mut self, line: &str) -> Option<Signal> {
        let (_, rest) = line.rsplit_once(". Retrying after ")?;
        let wait = rest.strip_suffix("ms...")?.parse().ok().map(Duration::from_millis)?;
        let message = self.attempt.take()?;
        let message = message.split(". Retrying after ").next().unwrap_or_default().to_owned();
        let trouble =
            Trouble::Limit { message, resets_at: None, retry_after: Some(wait), quota: false };
        Some(Signal::Retrying { trouble, wait: Some(wait) })
    }

    /// What an error without a body was, by the exit status and the name of the error.
    pub(super) fn trouble(&self, message: String, exit: Option<i32>) -> Trouble {
        const TOLD: [u16; 10] = [429, 499, 503, 500, 502, 504, 401, 403, 400, 404];
        let status = TOLD.into_iter().find(|status| exit == Some(i32::from(status % 256)));
        match (self.spent, status) {
            (true, _) => Trouble::Limit {
                message,
                resets_at: None,
                retry_after: self.retry_after,
                quota: true,
            },
            (false, Some(status)) => status_trouble(Some(status), &message),
            (false, None) => Trouble::BadRequest { status: 0, message },
        }
    }
}

/// How an attempt failed.
#[derive(Clone, Copy)]
pub(super) enum Failed {
    /// It will be tried again: by this status, or without any answer.
    With(Option<u16>),
    /// The message comes first.
    Because,
}

/// `Attempt 1 failed with status 500. Retrying with backoff... <error>`, or without a status, or
/// `Attempt 1 failed: <message>`.
pub(super) fn attempt_failed(line: &str) -> Option<(Failed, &str)> {
    let rest = line.strip_prefix("Attempt ")?.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix(" failed")?;
    if let Some(message) = rest.strip_prefix(": ") {
        return Some((Failed::Because, message));
    }
    let (how, error) = rest.split_once(". Retrying with backoff...")?;
    let status = match how.strip_prefix(" with ") {
        Some("429 error (no Retry-After header)") => Some(429),
        Some("5xx error") => Some(500),
        Some(how) => how.strip_prefix("status ").and_then(|status| status.parse().ok()),
        None => None,
    };
    Some((Failed::With(status), error.trim()))
}

/// 499 is what Google says when it gives up a request.
pub(super) fn status_trouble(status: Option<u16>, message: &str) -> Trouble {
    let Some(status) = status else { return Trouble::Network(message.to_owned()) };
    let status = if status == 499 { 503 } else { status };
    let message = message.strip_prefix("_ApiError: ").unwrap_or(message);
    let mut told = ApiError::read(message);
    told.status = Some(status);
    told.trouble(SIGN_IN).unwrap_or(Trouble::BadRequest { status, message: told.message })
}
