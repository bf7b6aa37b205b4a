//! The place of a call: the server, and the context that named it.

use std::fmt;

/// The server that a command calls, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The address, without user name and password.
    server: String,
    /// The context that named the server.
    context: Option<String>,
}

impl Place {
    /// Returns the place of a server.
    pub(crate) fn new(server: String, context: Option<String>) -> Self {
        Self { server, context }
    }

    /// Returns the address of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Returns the context that named the server, if one did.
    pub(crate) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }
}

/// The address, and the context.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server)?;
        self.context.as_ref().map_or(Ok(()), |context| write!(f, " (context {context})"))
    }
}
