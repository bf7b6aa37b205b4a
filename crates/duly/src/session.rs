//! The session of a command that calls a server.

use serde::de::DeserializeOwned;

use crate::{
    Outcome,
    http::{Call, Http},
    output::Printer,
};

/// The context of a command that calls a server.
pub(crate) struct Session {
    /// The server, over HTTP.
    pub(crate) http: Http,
    /// Prints results.
    pub(crate) printer: Printer,
}

impl Session {
    /// Makes a call, and prints its response: unchanged as JSON, or as the text for people.
    pub(crate) async fn print<T: DeserializeOwned>(
        &self,
        call: Call<'_>,
        text: impl FnOnce(T) -> String,
    ) -> Outcome {
        let response = call.send().await?;
        self.printer.document(&response.text, || Ok(text(response.parse()?)))?;
        response.check_change()
    }
}
