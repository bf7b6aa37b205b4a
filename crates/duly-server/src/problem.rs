//! Refusals: the only place where an error becomes a problem that a caller reads.
//!
//! Every error, including those of the framework, ends as a [`Problem`]: an `application/problem+json`
//! body with a stable code (RFC 9457).

pub(crate) mod refusal_texts;

use std::any::Any;

use duly_api::{Problem as Message, State, Time};
use duly_core::{Code, Invalid, Millis, error_code::Retry};
use duly_store::Refusal;

/// Time after which to look again at a firing in flight: it may end long before its lease does.
const IN_FLIGHT_WAIT_MS: u64 = 1_000;

/// The reasons for which a timer may not be found.
pub(crate) const KNOWN_TIMERS: &str = "ids are compared byte for byte, and an ended timer is known \
                                       for the namespace's retention";

/// The reason for which a request was refused.
#[derive(Debug, Clone)]
pub struct Problem {
    code: Code,
    body: Box<Message>,
}

impl Problem {
    /// Returns a problem with only its code and a sentence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, body: Box::new(Message::new(code, detail)) }
    }

    /// Returns a problem that can pass: the call may be repeated after a second.
    pub(crate) fn temporary(code: Code, detail: impl Into<String>) -> Self {
        Self::new(code, detail).with_retry(Retry::After(Millis::from_secs(1)))
    }

    /// Returns the problem of a bound that a request or a part of it exceeds.
    pub(crate) fn too_large(field: &str, what: &str, bytes_max: usize, remedy: &str) -> Self {
        let allowed = format!("at most {bytes_max} bytes");
        let detail = format!("{what} must be {allowed}: {remedy}");
        Self::new(Code::RequestTooLarge, detail).at(field, None, &allowed)
    }

    /// Returns the problem of a handler that panicked.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        tracing::error!(panic = text, "handler panicked; the code internal is returned");
        Self::fault("a handler panicked")
    }

    /// Returns the problem of a broken invariant. The details go to the log.
    pub(crate) fn fault(what: &str) -> Self {
        tracing::error!(what, "internal fault; the code internal is returned");
        Self::new(
            Code::Internal,
            format!(
                "a fault in Duly ({what}): it is not known whether the change was made; check \
                 before you repeat the call, and report it with the lines of the server's log"
            ),
        )
    }

    /// Returns the problem that this namespace has no such timer.
    pub fn no_timer(id: &str, namespace: &str) -> Self {
        let id = duly_core::invalid::shorten(id);
        let detail = format!("there is no timer {id} in namespace {namespace}: {KNOWN_TIMERS}");
        Self::new(Code::NotFound, detail)
    }

    /// Returns the problem that there is no such namespace.
    pub fn no_namespace(name: &str) -> Self {
        Self::new(
            Code::NotFound,
            format!(
                "there is no namespace \"{name}\": check the name (GET /v1/namespaces lists all), \
                 or create it with PUT /v1/namespaces/{name}"
            ),
        )
    }

    /// Adds the field at fault, the value seen and the allowed values.
    #[must_use]
    pub fn at(mut self, field: &str, seen: Option<String>, allowed: &str) -> Self {
        self.body.field = Some(field.to_owned());
        self.body.seen = seen;
        self.body.allowed = Some(allowed.to_owned());
        self
    }

    /// Adds the time after which a retry can help.
    #[must_use]
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { code: self.code, body: Box::new(self.body.with_retry(retry)) }
    }

    /// Puts the path of an operation in front of the field at fault.
    #[must_use]
    pub(crate) fn within(mut self, path: &str) -> Self {
        if let Some(field) = self.body.field.as_mut().filter(|_| !path.is_empty()) {
            *field = format!("{path}.{field}");
        }
        self
    }

    /// Adds the number of items that were done before the error.
    #[must_use]
    pub(crate) fn after_doing(mut self, count: u64, done: &str) -> Self {
        if count > 0 {
            self.body.detail = format!("{}; {count} were {done} before that", self.body.detail);
        }
        self
    }

    /// Adds the values of the store's refusal that its sentence does not hold.
    #[must_use]
    pub(crate) fn with(mut self, refusal: Refusal) -> Self {
        let out = &mut self.body;
        match refusal {
            Refusal::Invalid(_)
            | Refusal::DelayTooLong { .. }
            | Refusal::UnknownNamespace(_)
            | Refusal::UnknownTimer { .. }
            | Refusal::UnknownDeadLetter { .. }
            | Refusal::PayloadLost { .. } => {}
            Refusal::State { state, code, leased_until, attempts, maybe_delivered, .. } => {
                out.retry_after_ms = (code == Code::InFlight).then_some(IN_FLIGHT_WAIT_MS);
                out.state = State::from(state).into();
                out.leased_until = leased_until.map(Time::from);
                out.attempts = Some(attempts);
                out.maybe_delivered = Some(maybe_delivered);
            }
            Refusal::Revision { expected, actual, .. } => {
                out.expected_revision = Some(expected);
                out.actual_revision = Some(actual);
                out.field = Some("if_revision".to_owned());
                out.seen = Some(expected.to_string());
                out.allowed = Some(actual.to_string());
            }
            Refusal::PayloadTooLarge { bytes, bytes_max, .. } => {
                out.field = Some("payload".to_owned());
                out.seen = Some(format!("{bytes} bytes"));
                out.allowed = Some(format!("at most {bytes_max} bytes"));
            }
            Refusal::QuotaExceeded { retry_after, .. }
            | Refusal::TenantLimit { retry_after, .. }
            | Refusal::Exhausted { retry_after, .. } => {
                out.retry_after_ms = retry_after.map(Millis::ms);
            }
        }
        self
    }

    /// Adds the definite outcome of a cancel.
    #[must_use]
    pub(crate) fn for_cancel(mut self) -> Self {
        let is_definite =
            matches!(self.code, Code::InFlight | Code::Finished | Code::Dead | Code::NotFound);
        self.body.outcome = is_definite.then(|| self.code.as_str().to_owned());
        self
    }

    /// Puts a reason in front of the sentence.
    #[must_use]
    pub(crate) fn because(mut self, reason: &str) -> Self {
        self.body.detail = format!("{reason} {}", self.body.detail);
        self
    }

    /// Returns the code.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Returns the path of the field at fault.
    pub(crate) fn field(&self) -> Option<&str> {
        self.body.field.as_deref()
    }

    /// Returns `true` if the same call can succeed, now or later.
    pub(crate) fn can_pass(&self) -> bool {
        self.body.retry_after_ms.is_some()
    }

    /// Returns the body.
    pub(crate) const fn body(&self) -> &Message {
        &self.body
    }

    /// Returns the body, for use inside a response.
    pub fn into_body(self) -> Box<Message> {
        self.body
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let mut problem = Self::new(Code::InvalidArgument, invalid.to_string());
        problem.body.field = (!invalid.field.is_empty()).then_some(invalid.field);
        problem.body.seen = invalid.seen;
        problem.body.allowed = Some(invalid.allowed);
        problem
    }
}

impl From<duly_store::Error> for Problem {
    fn from(error: duly_store::Error) -> Self {
        use duly_store::Error;
        match &error {
            Error::Invalid(invalid) => invalid.clone().into(),
            Error::UnknownNamespace(name) => Self::no_namespace(name),
            Error::NamespaceNotEmpty { .. } => Self::new(
                error.code(),
                format!("{error}: cancel and purge them, or repeat with ?force=true"),
            ),
            _ => {
                if matches!(error.code(), Code::Internal) {
                    tracing::error!(%error, "store call failed; the code internal is returned");
                }
                Self::new(error.code(), error.to_string()).with_retry(error.retry())
            }
        }
    }
}
