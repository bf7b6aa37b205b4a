//! The selected server: its address, and the credentials for it.

use std::{env, path::PathBuf, time::Duration};

use clap_complete::CompletionCandidate;
use duly_api::namespace::ListNamespacesResponse;
use reqwest::Method;

use super::{key, server, values};
use crate::{
    context::{named_on_the_command_line, select},
    failure::Failure,
    http::Http,
    runtime::block_on,
};

/// Longest wait for the server while a shell completes a name.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(1);

/// Options that select a server, and how it is called.
#[derive(clap::Args)]
pub(crate) struct ConnectionOptions {
    /// The server to call; default is the variable DULY_SERVER, else that of the context, else
    /// http://127.0.0.1:3859
    // clap does not read the variable: it would show the option in every usage as one to be typed.
    #[arg(long, global = true, value_name = "URL", value_parser = values::unchecked)]
    pub(crate) server: Option<values::Unchecked>,
    /// A context of `duly context`: a server with its key, authorities and namespace
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "server")]
    context: Option<String>,
    /// A file in PEM with further authorities of the server's certificate; default is the variable
    /// DULY_CA_FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// A file with the key, or the token, to send; default is the file that the variable
    /// DULY_API_KEY_FILE names, else the key in the variable DULY_API_KEY
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// A file in PEM with a certificate of your own and its private key; default is the variable
    /// DULY_CERT_FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) cert_file: Option<PathBuf>,
}

impl ConnectionOptions {
    /// Returns a client of the selected server.
    pub(crate) fn connect(&self) -> Result<Http, Failure> {
        let of_variable =
            |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let selected = select(self.context.as_deref(), self.server.is_some())?;
        // The key of another server, in a variable, must not be sent to the server of a context.
        let reads_variables = selected.is_none();
        let name = selected.as_ref().map(|(name, _)| name.clone());
        let (server, key_file, cert_file, ca_file) = match selected {
            Some((_, context)) => (
                server::of_context(&context.server)?,
                self.key_file.clone().or(context.key_file),
                self.cert_file.clone().or(context.cert_file),
                self.ca_file.clone().or(context.ca_file),
            ),
            None => (
                self.server.as_ref().map_or_else(server::from_env, |typed| typed.url())?,
                self.key_file.clone().or_else(|| of_variable(key::FILE)),
                self.cert_file.clone().or_else(|| of_variable("DULY_CERT_FILE")),
                self.ca_file.clone().or_else(|| of_variable("DULY_CA_FILE")),
            ),
        };
        let key = key::authorization(key_file.as_deref(), reads_variables)?;
        let http = Http::new(server, [ca_file.as_deref(), cert_file.as_deref()], key)?;
        Ok(http.of_context(name))
    }
}

/// Returns the names of the namespaces of the selected server, for completions; none if it does not reply at
/// once.
pub(crate) fn completed_namespaces() -> Vec<CompletionCandidate> {
    let (context, server) = named_on_the_command_line();
    let connection = ConnectionOptions {
        server: server.map(values::Unchecked),
        context,
        ca_file: None,
        key_file: None,
        cert_file: None,
    };
    let names = block_on(async {
        let http = connection.connect()?;
        let call =
            http.service(Method::GET, &["namespaces"]).query(&[("limit", "1000".to_owned())]);
        let response = tokio::time::timeout(COMPLETION_TIMEOUT, call.send()).await;
        let page: ListNamespacesResponse =
            response.map_err(|_| Failure::new("no response in time"))??.parse()?;
        Ok(page.namespaces.into_iter().map(|namespace| namespace.name))
    });
    names.into_iter().flatten().map(CompletionCandidate::new).collect()
}
