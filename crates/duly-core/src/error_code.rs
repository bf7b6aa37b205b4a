//! The stable error codes of the API, with the HTTP and gRPC status of each: the only such table.

crate::named_enum! {
    /// A stable code that every error and refusal carries. Its name appears in error bodies.
    pub enum Code {
        /// A value that is not allowed.
        InvalidArgument = "invalid_argument",
        /// No or wrong credentials.
        Unauthenticated = "unauthenticated",
        /// Credentials without the required permission.
        PermissionDenied = "permission_denied",
        /// No such timer, namespace or path.
        NotFound = "not_found",
        /// The path exists, the method does not.
        MethodNotAllowed = "method_not_allowed",
        /// A body of an unsupported content type.
        UnsupportedMediaType = "unsupported_media_type",
        /// Another timer has this id.
        AlreadyExists = "already_exists",
        /// The timer has another revision.
        RevisionMismatch = "revision_mismatch",
        /// The firing is being delivered.
        InFlight = "in_flight",
        /// The timer has been delivered.
        Finished = "finished",
        /// The timer has been cancelled.
        Cancelled = "cancelled",
        /// The firing is a dead letter.
        Dead = "dead",
        /// The namespace still holds timers.
        NamespaceNotEmpty = "namespace_not_empty",
        /// The payload is larger than the namespace allows.
        PayloadTooLarge = "payload_too_large",
        /// The request is larger than allowed.
        RequestTooLarge = "request_too_large",
        /// A limit is reached.
        ResourceExhausted = "resource_exhausted",
        /// The service cannot work now.
        Unavailable = "unavailable",
        /// The outcome is not known.
        Aborted = "aborted",
        /// The call took too long.
        DeadlineExceeded = "deadline_exceeded",
        /// A fault in Duly.
        Internal = "internal",
    }
}

impl Code {
    /// Returns its HTTP status, its gRPC status by number, and its title for people.
    const fn row(self) -> (u16, i32, &'static str) {
        match self {
            Self::InvalidArgument => (400, 3, "A value is not allowed"),
            Self::Unauthenticated => (401, 16, "Credentials are missing or wrong"),
            Self::PermissionDenied => (403, 7, "Not permitted"),
            Self::NotFound => (404, 5, "Not found"),
            Self::MethodNotAllowed => (405, 12, "Method not allowed"),
            Self::UnsupportedMediaType => (415, 3, "Content type not supported"),
            Self::AlreadyExists => (409, 6, "Another timer has this id"),
            Self::RevisionMismatch => (409, 10, "The timer has another revision"),
            Self::InFlight => (409, 9, "The firing is being delivered"),
            Self::Finished => (409, 9, "The timer has been delivered"),
            Self::Cancelled => (409, 9, "The timer has been cancelled"),
            Self::Dead => (409, 9, "The firing is a dead letter"),
            Self::NamespaceNotEmpty => (409, 9, "The namespace still holds timers"),
            Self::PayloadTooLarge => (413, 3, "The payload is too large"),
            Self::RequestTooLarge => (413, 3, "The request is too large"),
            Self::ResourceExhausted => (429, 8, "A limit is reached"),
            Self::Unavailable => (503, 14, "The service cannot do this now"),
            Self::Aborted => (503, 10, "The outcome is not known; repeat the same call"),
            Self::DeadlineExceeded => (504, 4, "It took too long"),
            Self::Internal => (500, 13, "A fault in Duly"),
        }
    }

    /// Returns its HTTP status.
    pub const fn http_status(self) -> u16 {
        self.row().0
    }

    /// Returns its gRPC status, by number.
    pub const fn grpc_status(self) -> i32 {
        self.row().1
    }

    /// Returns its title for people.
    pub const fn title(self) -> &'static str {
        self.row().2
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
