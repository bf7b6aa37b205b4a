//! Refuses unreachable receivers when a caller names them, and not hours later.
//!
//! The sink checks each address before it connects, and would fail such a firing at every attempt. A
//! call checks the parts of a URL that need no look-up: a host that is an address, and the port. Names
//! are looked up only for attempts, because their addresses at that time count.

use duly_core::{
    Destination, Invalid, NamespaceName, Settings, access::HostPattern, schedule::Change,
};
use duly_sink::http::address::AddressKind;
use duly_store::{Answer, Command, Operation};
use url::{Position, Url};

use super::Admitted;

/// An operation whose receiver this server and the tenant allow. Only [`Admitted::check_operation`] makes one.
#[derive(Debug, Clone)]
pub(crate) struct CheckedCommand(Command);

impl CheckedCommand {
    /// Returns the operation.
    pub(crate) const fn operation(&self) -> &Operation {
        &self.0.operation
    }

    /// Returns the command, whose response does not show the whole timer.
    pub(super) fn into_command(self) -> Command {
        self.0
    }
}

impl Admitted {
    /// Returns the command of an operation, checked.
    pub(crate) fn check_operation(
        &self,
        namespace: NamespaceName,
        operation: Operation,
    ) -> Result<CheckedCommand, Invalid> {
        self.check_receiver(&namespace, &operation)?;
        Ok(CheckedCommand(Command { namespace, operation, answer: Answer::Brief }))
    }

    /// Checks the receiver that an operation names.
    ///
    /// # Errors
    /// When the rules of this server do not allow the receiver.
    fn check_receiver(
        &self,
        namespace: &NamespaceName,
        operation: &Operation,
    ) -> Result<(), Invalid> {
        let receiver = match operation {
            Operation::Schedule { schedule, .. } => schedule.spec.destination.as_ref(),
            Operation::Import { timer } => timer.spec.destination.as_ref(),
            Operation::Reschedule { patch, .. } => match &patch.destination {
                Change::Set(to) => Some(to),
                Change::Keep | Change::Reset => None,
            },
            _ => None,
        };
        receiver.map_or(Ok(()), |to| self.check_destination(namespace, to, "destination"))
    }

    /// Checks the receivers of settings, except unchanged ones: a newer rule does not prevent other
    /// changes.
    ///
    /// # Errors
    /// The errors of [`Admitted::check_operation`].
    pub(super) fn check_settings(
        &self,
        namespace: &NamespaceName,
        settings: &Settings,
        present: Option<&Settings>,
    ) -> Result<(), Invalid> {
        if present.is_none_or(|present| present.destination != settings.destination) {
            self.check_destination(namespace, &settings.destination, "destination")?;
        }
        match &settings.fallback {
            Some(second) if present.is_none_or(|it| it.fallback.as_ref() != Some(second)) => {
                self.check_destination(namespace, &second.destination, "fallback.destination")
            }
            _ => Ok(()),
        }
    }

    fn check_destination(
        &self,
        namespace: &NamespaceName,
        to: &Destination,
        field: &str,
    ) -> Result<(), Invalid> {
        to.allowed_by(|url| self.check_url(namespace, url)).map_err(|refused| refused.within(field))
    }

    fn check_url(&self, namespace: &NamespaceName, url: &Url) -> Result<(), Invalid> {
        let rules = &self.addresses;
        if let Err(refused) = rules.check_url(url) {
            let place = match refused.kind {
                AddressKind::Own => "at another address",
                _ => "at a public address, or at one of a network in delivery.allow_networks",
            };
            let allowed = format!("{place} ({} is {})", refused.address, refused.kind.as_str());
            return Err(Invalid::new("", shown(url), allowed));
        }
        if let Some(tenant) = self.auth.tenants().of_namespace(namespace.as_str()) {
            let tenant = tenant.tenant();
            if !tenant.permits_host(url.host_str().unwrap_or_default()) {
                let hosts = tenant.destinations.iter().flatten().map(HostPattern::as_str);
                let hosts: Vec<_> = hosts.collect();
                let allowed = format!(
                    "at a host that tenant {} may send to ({}); an administrator can add one",
                    tenant.name,
                    if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") }
                );
                return Err(Invalid::new("", shown(url), allowed));
            }
        }
        let port = url.port_or_known_default().unwrap_or_default();
        rules.check_port(port).map_err(|_| {
            let allowed = format!("at a port of webhook.allow_ports ({port} is none)");
            Invalid::new("", shown(url), allowed)
        })
    }
}

/// Returns scheme, host and port: the rest of a URL may hold secrets.
fn shown(url: &Url) -> &str {
    &url[..Position::BeforePath]
}
