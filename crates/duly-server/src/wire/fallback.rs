//! A namespace's second receiver on the wire.

use duly_core::{
    Destination, Invalid, Millis,
    namespace::{
        FALLBACK_ATTEMPTS_DEFAULT, FALLBACK_ATTEMPTS_MAX, FALLBACK_OPEN_DEFAULT, FALLBACK_OPEN_MAX,
        Fallback,
    },
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    DestinationIn, DestinationOut, Duration, DurationOut, Integer, destination::http_out,
    headers::Credentials,
};

/// A second receiver of a namespace's webhooks, which takes over when the first fails.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Fallback)]
pub struct FallbackIn {
    /// The receiver: a webhook.
    pub(super) destination: DestinationIn,
    /// It gets the later attempts of a firing of which so many have failed, 1 to 10000, default 5.
    pub(super) after_attempts: Option<Integer>,
    /// It gets every firing of a lane whose breaker has stayed open for so long, 0s to 1d, default
    /// 1m.
    pub(super) after_open: Option<Duration>,
}

impl FallbackIn {
    /// Checks it; the error names the field below `field`.
    ///
    /// # Errors
    /// When a value is not allowed.
    pub fn check(self, field: &str) -> Result<Fallback, Invalid> {
        self.fallback().map_err(|invalid| invalid.within(field))
    }

    fn fallback(self) -> Result<Fallback, Invalid> {
        let Destination::Http(destination) = self.destination.check("destination")? else {
            let allowed = "an http destination: a fallback is a webhook";
            return Err(Invalid::new("destination", "pull", allowed));
        };
        let mut fallback = Fallback {
            destination,
            after_attempts: FALLBACK_ATTEMPTS_DEFAULT,
            after_open: FALLBACK_OPEN_DEFAULT,
        };
        if let Some(count) = self.after_attempts {
            fallback.after_attempts =
                count.within_u32("after_attempts", 1, FALLBACK_ATTEMPTS_MAX)?;
        }
        if let Some(open) = &self.after_open {
            fallback.after_open =
                open.check_within("after_open", Millis::ZERO, FALLBACK_OPEN_MAX)?;
        }
        Ok(fallback)
    }
}

/// A second receiver in an answer.
#[derive(Debug, Serialize)]
pub struct FallbackOut<'a> {
    destination: DestinationOut<'a>,
    after_attempts: u32,
    after_open: DurationOut,
}

impl<'a> From<&'a Fallback> for FallbackOut<'a> {
    fn from(fallback: &'a Fallback) -> Self {
        Self::of(fallback, Credentials::Redacted)
    }
}

impl<'a> FallbackOut<'a> {
    /// A fallback with or without its credentials.
    pub fn of(fallback: &'a Fallback, credentials: Credentials) -> Self {
        Self {
            destination: http_out(&fallback.destination, credentials),
            after_attempts: fallback.after_attempts,
            after_open: fallback.after_open.into(),
        }
    }
}
