//! When to call a model again, and after how long. Pure: sleeping and chance are the caller's.

use std::time::Duration;

use super::model::ModelError;

/// How often and how patiently to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Calls in all, the first one included.
    pub attempts: u32,
    /// The wait after the first failure; doubled after each further one.
    pub base: Duration,
    /// The longest wait. What the vendor wants to be waited for longer is not retried.
    pub max: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self { attempts: 5, base: Duration::from_secs(1), max: Duration::from_secs(60) }
    }
}

impl Policy {
    /// How long to wait before the next call, or `None` when the error is to be given to the
    /// caller. `attempt` counts the calls made so far, from 1; `jitter` is in 0..1.
    ///
    /// The vendor's own wait is kept as a minimum and lengthened a little, so that many sessions
    /// that hit one limit do not all come back in the same instant.
    #[must_use]
    pub fn next(&self, attempt: u32, error: &ModelError, jitter: f64) -> Option<Duration> {
        if attempt >= self.attempts || !error.is_transient() {
            return None;
        }
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
        if let Some(wait) = error.retry_after() {
            if wait > self.max {
                return None;
            }
            return Some((wait + self.base.mul_f64(jitter)).min(self.max.max(wait)));
        }
        let doubled = self.base.saturating_mul(1_u32 << attempt.saturating_sub(1).min(16));
        // Between half and the whole: spread out, and still growing from one try to the next.
        Some(doubled.min(self.max).mul_f64(0.5 + jitter / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(retry_after: Option<u64>, quota: bool) -> ModelError {
        ModelError::Limit {
            message: String::new(),
            resets_at: None,
            retry_after: retry_after.map(Duration::from_secs),
            quota,
        }
    }

    #[test]
    fn backs_off_exponentially_within_bounds() {
        let policy = Policy::default();
        let error = ModelError::Network("x".into());
        let waits: Vec<_> =
            (1..6).map(|n| policy.next(n, &error, 1.0).map(|wait| wait.as_millis())).collect();
        assert_eq!(waits, [Some(1000), Some(2000), Some(4000), Some(8000), None]);
        assert_eq!(policy.next(1, &error, 0.0), Some(Duration::from_millis(500)));
        let patient = Policy { attempts: 100, ..policy };
        assert_eq!(patient.next(99, &error, 1.0), Some(Duration::from_secs(60)));
        assert_eq!(policy.next(1, &error, f64::NAN), Some(Duration::from_millis(500)));
    }

    #[test]
    fn honours_the_vendors_wait_up_to_the_bound() {
        let policy = Policy::default();
        assert_eq!(policy.next(1, &limit(Some(7), false), 0.0), Some(Duration::from_secs(7)));
        assert_eq!(policy.next(1, &limit(Some(7), false), 1.0), Some(Duration::from_secs(8)));
        assert_eq!(policy.next(1, &limit(Some(60), false), 1.0), Some(Duration::from_secs(60)));
        assert_eq!(policy.next(1, &limit(Some(61), false), 0.0), None);
    }

    #[test]
    fn does_not_retry_what_waiting_cannot_mend() {
        let policy = Policy::default();
        assert_eq!(policy.next(1, &limit(None, true), 0.0), None);
        assert!(policy.next(1, &limit(None, false), 0.0).is_some());
        for error in [
            ModelError::Cancelled,
            ModelError::ContextExhausted(String::new()),
            ModelError::BadRequest { status: 400, message: String::new() },
            ModelError::NotSignedIn { message: String::new(), fix: String::new() },
        ] {
            assert_eq!(policy.next(1, &error, 0.0), None, "{error}");
        }
    }
}
