//! The stable error codes of the API, with the HTTP and gRPC status of each: the only such table.

/// A stable code that every error and refusal carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A value that is not allowed.
    InvalidArgument,
    /// No or wrong credentials.
    Unauthenticated,
    /// Credentials without the required permission.
    PermissionDenied,
    /// No such timer, namespace or path.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// A body of an unsupported content type.
    UnsupportedMediaType,
    /// Another timer has this id.
    AlreadyExists,
    /// The timer has another revision.
    RevisionMismatch,
    /// The firing is being delivered.
    InFlight,
    /// The timer has been delivered.
    Finished,
    /// The timer has been cancelled.
    Cancelled,
    /// The firing is a dead letter.
    Dead,
    /// The namespace still holds timers.
    NamespaceNotEmpty,
    /// The payload is larger than the namespace allows.
    PayloadTooLarge,
    /// The request is larger than allowed.
    RequestTooLarge,
    /// A limit is reached.
    ResourceExhausted,
    /// The service cannot work now.
    Unavailable,
    /// The outcome is not known.
    Aborted,
    /// The call took too long.
    DeadlineExceeded,
    /// A fault in Duly.
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 20] = [
        Self::InvalidArgument,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::UnsupportedMediaType,
        Self::AlreadyExists,
        Self::RevisionMismatch,
        Self::InFlight,
        Self::Finished,
        Self::Cancelled,
        Self::Dead,
        Self::NamespaceNotEmpty,
        Self::PayloadTooLarge,
        Self::RequestTooLarge,
        Self::ResourceExhausted,
        Self::Unavailable,
        Self::Aborted,
        Self::DeadlineExceeded,
        Self::Internal,
    ];

    /// Returns the code as it appears in error bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::AlreadyExists => "already_exists",
            Self::RevisionMismatch => "revision_mismatch",
            Self::InFlight => "in_flight",
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
            Self::NamespaceNotEmpty => "namespace_not_empty",
            Self::PayloadTooLarge => "payload_too_large",
            Self::RequestTooLarge => "request_too_large",
            Self::ResourceExhausted => "resource_exhausted",
            Self::Unavailable => "unavailable",
            Self::Aborted => "aborted",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Internal => "internal",
        }
    }

    /// Returns its HTTP status.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::InvalidArgument => 400,
            Self::Unauthenticated => 401,
            Self::PermissionDenied => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::UnsupportedMediaType => 415,
            Self::AlreadyExists
            | Self::RevisionMismatch
            | Self::InFlight
            | Self::Finished
            | Self::Cancelled
            | Self::Dead
            | Self::NamespaceNotEmpty => 409,
            Self::PayloadTooLarge | Self::RequestTooLarge => 413,
            Self::ResourceExhausted => 429,
            Self::Unavailable | Self::Aborted => 503,
            Self::DeadlineExceeded => 504,
            Self::Internal => 500,
        }
    }

    /// Returns its gRPC status, by number.
    pub const fn grpc_status(self) -> i32 {
        match self {
            Self::InvalidArgument
            | Self::UnsupportedMediaType
            | Self::PayloadTooLarge
            | Self::RequestTooLarge => 3,
            Self::DeadlineExceeded => 4,
            Self::NotFound => 5,
            Self::AlreadyExists => 6,
            Self::PermissionDenied => 7,
            Self::ResourceExhausted => 8,
            Self::InFlight
            | Self::Finished
            | Self::Cancelled
            | Self::Dead
            | Self::NamespaceNotEmpty => 9,
            Self::RevisionMismatch | Self::Aborted => 10,
            Self::MethodNotAllowed => 12,
            Self::Internal => 13,
            Self::Unavailable => 14,
            Self::Unauthenticated => 16,
        }
    }

    /// Returns its title for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::InvalidArgument => "A value is not allowed",
            Self::Unauthenticated => "Credentials are missing or wrong",
            Self::PermissionDenied => "Not permitted",
            Self::NotFound => "Not found",
            Self::MethodNotAllowed => "Method not allowed",
            Self::UnsupportedMediaType => "Content type not supported",
            Self::AlreadyExists => "Another timer has this id",
            Self::RevisionMismatch => "The timer has another revision",
            Self::InFlight => "The firing is being delivered",
            Self::Finished => "The timer has been delivered",
            Self::Cancelled => "The timer has been cancelled",
            Self::Dead => "The firing is a dead letter",
            Self::NamespaceNotEmpty => "The namespace still holds timers",
            Self::PayloadTooLarge => "The payload is too large",
            Self::RequestTooLarge => "The request is too large",
            Self::ResourceExhausted => "A limit is reached",
            Self::Unavailable => "The service cannot do this now",
            Self::Aborted => "The outcome is not known; repeat the same call",
            Self::DeadlineExceeded => "It took too long",
            Self::Internal => "A fault in Duly",
        }
    }
}

/// The effect of a repetition of the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The call will be refused again.
    Never,
    /// The call can be repeated at once.
    Now,
    /// The call can be repeated after this wait.
    After(crate::Millis),
}

#[cfg(test)]
mod tests;
