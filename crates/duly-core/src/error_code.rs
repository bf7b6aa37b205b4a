//! The stable error codes of the API, with the HTTP status, the gRPC status and the rule of repetition of
//! each: the only such table.
//!
//! The OpenAPI document publishes the table, `docs/reference/http.md` has it as text, and the Rust client
//! repeats calls by it.

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
    /// Returns its HTTP status, its gRPC status, its rule of repetition and its title for people.
    const fn row(self) -> (u16, Grpc, Repeat, &'static str) {
        use Grpc::{
            Aborted, AlreadyExists, DeadlineExceeded, FailedPrecondition, Internal,
            InvalidArgument, NotFound, PermissionDenied, ResourceExhausted, Unauthenticated,
            Unavailable, Unimplemented,
        };
        use Repeat::{AfterCheck, AfterRead, AfterWait, IfTold, Never, SameCall};
        match self {
            Self::InvalidArgument => (400, InvalidArgument, Never, "A value is not allowed"),
            Self::Unauthenticated => {
                (401, Unauthenticated, Never, "Credentials are missing or wrong")
            }
            Self::PermissionDenied => (403, PermissionDenied, Never, "Not permitted"),
            Self::NotFound => (404, NotFound, Never, "Not found"),
            Self::MethodNotAllowed => (405, Unimplemented, Never, "Method not allowed"),
            Self::UnsupportedMediaType => {
                (415, InvalidArgument, Never, "Content type not supported")
            }
            Self::AlreadyExists => (409, AlreadyExists, AfterRead, "Another timer has this id"),
            Self::RevisionMismatch => (409, Aborted, AfterRead, "The timer has another revision"),
            Self::InFlight => (409, FailedPrecondition, AfterRead, "The firing is being delivered"),
            Self::Finished => (409, FailedPrecondition, AfterRead, "The timer has been delivered"),
            Self::Cancelled => (409, FailedPrecondition, AfterRead, "The timer has been cancelled"),
            Self::Dead => (409, FailedPrecondition, AfterRead, "The firing is a dead letter"),
            Self::NamespaceNotEmpty => {
                (409, FailedPrecondition, AfterRead, "The namespace still holds timers")
            }
            Self::PayloadTooLarge => (413, InvalidArgument, Never, "The payload is too large"),
            Self::RequestTooLarge => (413, InvalidArgument, Never, "The request is too large"),
            Self::ResourceExhausted => (429, ResourceExhausted, IfTold, "A limit is reached"),
            Self::Unavailable => (503, Unavailable, AfterWait, "The service cannot do this now"),
            Self::Aborted => {
                (503, Aborted, SameCall, "The outcome is not known; repeat the same call")
            }
            Self::DeadlineExceeded => (504, DeadlineExceeded, SameCall, "It took too long"),
            Self::Internal => (500, Internal, AfterCheck, "A fault in Duly"),
        }
    }

    /// Returns its HTTP status.
    pub const fn http_status(self) -> u16 {
        self.row().0
    }

    /// Returns its gRPC status.
    pub const fn grpc(self) -> Grpc {
        self.row().1
    }

    /// Returns its gRPC status, by number.
    pub const fn grpc_status(self) -> i32 {
        self.grpc() as i32
    }

    /// Returns the rule by which a client repeats a call that was refused with it.
    pub const fn repeat(self) -> Repeat {
        self.row().2
    }

    /// Returns its title for people.
    pub const fn title(self) -> &'static str {
        self.row().3
    }
}

crate::named_enum! {
    /// The statuses of gRPC, in the order of their numbers.
    pub enum Grpc {
        /// Status 0.
        Ok = "OK",
        /// Status 1.
        Cancelled = "CANCELLED",
        /// Status 2.
        Unknown = "UNKNOWN",
        /// Status 3.
        InvalidArgument = "INVALID_ARGUMENT",
        /// Status 4.
        DeadlineExceeded = "DEADLINE_EXCEEDED",
        /// Status 5.
        NotFound = "NOT_FOUND",
        /// Status 6.
        AlreadyExists = "ALREADY_EXISTS",
        /// Status 7.
        PermissionDenied = "PERMISSION_DENIED",
        /// Status 8.
        ResourceExhausted = "RESOURCE_EXHAUSTED",
        /// Status 9.
        FailedPrecondition = "FAILED_PRECONDITION",
        /// Status 10.
        Aborted = "ABORTED",
        /// Status 11.
        OutOfRange = "OUT_OF_RANGE",
        /// Status 12.
        Unimplemented = "UNIMPLEMENTED",
        /// Status 13.
        Internal = "INTERNAL",
        /// Status 14.
        Unavailable = "UNAVAILABLE",
        /// Status 15.
        DataLoss = "DATA_LOSS",
        /// Status 16.
        Unauthenticated = "UNAUTHENTICATED",
    }

    /// The rule by which a client repeats a call that was refused. Its name appears in the OpenAPI document.
    pub enum Repeat {
        /// The same call would be refused again. Nothing changed.
        Never = "never",
        /// The state is another one than the call expected: read it, and decide again. Nothing changed.
        AfterRead = "after_read",
        /// The call is repeated after the wait that the refusal names, and not if it names none. Nothing
        /// changed.
        IfTold = "if_told",
        /// The call is repeated after the wait that the refusal names, or after a growing wait. Nothing
        /// changed.
        AfterWait = "after_wait",
        /// The outcome is not known. The same call is repeated if a second time does no harm.
        SameCall = "same_call",
        /// The outcome is not known, and the cause is a fault: check before the call is repeated.
        AfterCheck = "after_check",
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
