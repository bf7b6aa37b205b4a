//! Refusals of operations, as values. The API layer renders their texts for callers.

use std::time::Duration;

use crate::{
    Code, Invalid, Millis, NamespaceName, State, TimerId, TimerView, Timestamp,
    access::{TenantLimit, TenantName},
    invalid::shorten,
    schedule::When,
    timer::DeadLetterId,
};

/// Wait before a repetition when the pending timers are full: some of them may have fired by then.
const PENDING_WAIT: Millis = Millis::from_secs(1);

crate::named_enum! {
    /// A limit of a namespace or of the store. Its name is a label of metrics.
    pub enum Limit {
        /// `limits.namespace.schedule_per_second` of a namespace.
        SchedulePerSecond = "schedule_per_second",
        /// `limits.namespace.max_pending` of a namespace.
        MaxPending = "max_pending",
        /// `limits.namespace.max_dead` of a namespace.
        MaxDead = "max_dead",
        /// Free space on the disk, or a disk that fails.
        Disk = "disk",
        /// Memory of the index.
        Memory = "memory",
        /// Maximum size of a record in a segment of the journal.
        Segment = "segment",
    }
}

/// The reason for which one operation was refused. The operation changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A value is not allowed.
    #[error("{0}")]
    Invalid(Invalid),
    /// No namespace of this name.
    #[error("there is no namespace {0:?}")]
    UnknownNamespace(NamespaceName),
    /// No timer of this id.
    #[error("there is no timer {} in namespace {namespace}", shorten(id.as_str()))]
    UnknownTimer {
        /// The namespace.
        namespace: NamespaceName,
        /// The id.
        id: TimerId,
    },
    /// No such dead letter.
    #[error("there is no dead letter {letter} in namespace {namespace}")]
    UnknownDeadLetter {
        /// The namespace.
        namespace: NamespaceName,
        /// The dead letter that was asked for.
        letter: DeadLetterId,
    },
    /// The record of this dead letter was damaged: its payload is lost, so it cannot be redriven.
    #[error("the record of dead letter {letter} was damaged and its payload is lost")]
    PayloadLost {
        /// The dead letter that was asked for.
        letter: DeadLetterId,
    },
    /// The state of the timer does not allow the operation.
    #[error("timer {} is {state}", shorten(id.as_str()))]
    State {
        /// The timer.
        id: TimerId,
        /// Its state.
        state: State,
        /// The code in the API: the code of the state, or `already_exists`.
        code: Code,
        /// The end of its lease, if it is in flight.
        leased_until: Option<Timestamp>,
        /// Number of attempts so far.
        attempts: u32,
        /// `true`: an attempt may have arrived.
        maybe_delivered: bool,
    },
    /// The timer has another revision.
    #[error("timer {} has revision {actual}, not {expected}", shorten(id.as_str()))]
    Revision {
        /// The timer.
        id: TimerId,
        /// The revision asked for.
        expected: u32,
        /// The revision it has.
        actual: u32,
    },
    /// The payload is larger than the namespace allows.
    #[error("the payload has {bytes} bytes; namespace {namespace} allows {bytes_max}")]
    PayloadTooLarge {
        /// The namespace.
        namespace: NamespaceName,
        /// Its size, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        bytes_max: u64,
    },
    /// The due time is further away than the namespace allows.
    #[error("{}", delay_too_long(namespace, *when, *max_delay))]
    DelayTooLong {
        /// The namespace.
        namespace: NamespaceName,
        /// The due time, as the caller gave it.
        when: When,
        /// The limit.
        max_delay: Millis,
    },
    /// A quota of the namespace is used up.
    #[error("{}", quota_exceeded(namespace, *quota, *max))]
    QuotaExceeded {
        /// The namespace.
        namespace: NamespaceName,
        /// The quota.
        quota: Limit,
        /// The value of the quota.
        max: u64,
        /// The wait after which a repetition can succeed, if waiting helps.
        retry_after: Option<Millis>,
    },
    /// A limit of the namespace's or the caller's tenant is reached.
    #[error("{}", tenant_limit_reached(tenant, *limit, *max))]
    TenantLimit {
        /// The tenant.
        tenant: TenantName,
        /// The limit.
        limit: TenantLimit,
        /// The value of the limit.
        max: u64,
        /// The wait after which a repetition can succeed, if waiting helps.
        retry_after: Option<Millis>,
    },
    /// A limit of the store itself is reached.
    #[error("{reason}")]
    Exhausted {
        /// The limit.
        limit: Limit,
        /// The cause and the remedy.
        reason: String,
        /// The wait after which a repetition can succeed, if waiting helps.
        retry_after: Option<Millis>,
    },
}

impl Refusal {
    /// Returns the refusal for a timer's state, with the facts that its caller needs.
    pub fn state(view: &TimerView, code: Code) -> Self {
        Self::State {
            id: view.id().clone(),
            state: view.state,
            code,
            leased_until: view.leased_until,
            attempts: view.attempts(),
            maybe_delivered: view.maybe_delivered(),
        }
    }

    /// Returns the refusal of one more pending timer in a namespace that has `max` of them.
    pub fn pending_full(namespace: &NamespaceName, max: u64) -> Self {
        Self::quota_exceeded(namespace, Limit::MaxPending, max, Some(PENDING_WAIT))
    }

    /// Returns the refusal of one more dead letter in a namespace that has `max` of them.
    pub fn dead_letters_full(namespace: &NamespaceName, max: u64) -> Self {
        Self::quota_exceeded(namespace, Limit::MaxDead, max, None)
    }

    /// Returns the refusal of a schedule in a namespace whose rate is used up for `wait`.
    pub fn schedules_too_fast(namespace: &NamespaceName, per_second: u32, wait: Duration) -> Self {
        let retry_after = Some(wait_of(wait));
        Self::quota_exceeded(namespace, Limit::SchedulePerSecond, per_second.into(), retry_after)
    }

    fn quota_exceeded(
        namespace: &NamespaceName,
        quota: Limit,
        max: u64,
        retry_after: Option<Millis>,
    ) -> Self {
        Self::QuotaExceeded { namespace: namespace.clone(), quota, max, retry_after }
    }

    /// Returns the value that is not allowed, if that is the reason.
    pub fn invalid(&self) -> Option<Invalid> {
        match self {
            Self::Invalid(invalid) => Some(invalid.clone()),
            Self::DelayTooLong { namespace, when, max_delay } => {
                Some(delay_too_long(namespace, *when, *max_delay))
            }
            _ => None,
        }
    }

    /// Returns the stable code of the API.
    pub const fn code(&self) -> Code {
        match self {
            Self::Invalid(_) | Self::DelayTooLong { .. } => Code::InvalidArgument,
            Self::UnknownNamespace(_)
            | Self::UnknownTimer { .. }
            | Self::UnknownDeadLetter { .. }
            | Self::PayloadLost { .. } => Code::NotFound,
            Self::State { code, .. } => *code,
            Self::Revision { .. } => Code::RevisionMismatch,
            Self::PayloadTooLarge { .. } => Code::PayloadTooLarge,
            Self::QuotaExceeded { .. } | Self::TenantLimit { .. } | Self::Exhausted { .. } => {
                Code::ResourceExhausted
            }
        }
    }
}

/// Returns a wait in whole milliseconds, at least one.
pub fn wait_of(wait: Duration) -> Millis {
    let wait_ms = u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
    Millis::from_ms(wait_ms.max(1))
}

fn delay_too_long(namespace: &NamespaceName, when: When, max_delay: Millis) -> Invalid {
    let allowed = format!(
        "at most {max_delay} from now (limits.namespace.max_delay of namespace {namespace})"
    );
    match when {
        When::At(due_at) => Invalid::new("due_at", due_at, allowed),
        When::After(delay) => Invalid::new("delay", delay, allowed),
    }
}

fn quota_exceeded(namespace: &NamespaceName, quota: Limit, max: u64) -> String {
    let (used, remedy) = match quota {
        Limit::MaxPending => (
            format!("has {max} pending timers, its limit"),
            "cancel some, wait until some have fired, or raise limits.namespace.max_pending \
             (action namespace)",
        ),
        Limit::MaxDead => (
            format!("has {max} dead letters, its limit"),
            "redrive or purge some, or raise limits.namespace.max_dead (action namespace)",
        ),
        Limit::SchedulePerSecond => (
            format!("takes {max} schedules a second, its limits.namespace.schedule_per_second"),
            "repeat the call after the wait, or raise the limit (action namespace)",
        ),
        Limit::Disk | Limit::Memory | Limit::Segment => {
            (format!("is at its limit of {max}"), "free some, or raise the limit")
        }
    };
    format!("namespace {namespace} {used}: {remedy}")
}

fn tenant_limit_reached(tenant: &TenantName, limit: TenantLimit, max: u64) -> String {
    let (most, remedy) = match limit {
        TenantLimit::MaxNamespaces => ("namespaces", "delete some"),
        TenantLimit::MaxPending => ("pending timers", "cancel some, wait until some have fired"),
        TenantLimit::MaxPendingBytes => {
            ("bytes of pending timers", "cancel some, wait until some have fired, send less")
        }
        TenantLimit::MaxDead => ("dead letters", "redrive or purge some"),
        TenantLimit::SchedulePerSecond => ("schedules a second", "repeat the call after the wait"),
        TenantLimit::CallPerSecond => ("calls a second", "repeat the call after the wait"),
        TenantLimit::MaxConnections => ("connections", "send more calls on each"),
        TenantLimit::MaxWaitingCalls => ("waiting lease calls and streams", "use fewer consumers"),
        TenantLimit::MaxRequestBytes => {
            ("bytes of request memory", "send fewer or smaller requests, read responses at once")
        }
    };
    format!(
        "tenant {tenant} is at its limit of {max} {most}: {remedy}, or have an administrator raise {} of \
         the tenant",
        limit.as_str()
    )
}
