//! `duly namespace`: manages namespaces.

mod activity;
mod forecast;
mod list;
mod remove;
mod repair;
mod secret;
mod set;
mod settings;
mod stats;

use clap::Subcommand;
use duly_api::NamespaceStats;
use duly_core::NamespaceName;
use reqwest::Method;

pub(super) use self::list::{all, checked_name, destination};
use self::settings::Settings;
use crate::{Outcome, args::identity::NamespaceArg, cli::Session, commands::get, failure::Failure};

/// Requests the counts of a namespace.
pub(super) async fn counts(
    session: &Session,
    namespace: &NamespaceName,
) -> Result<NamespaceStats, Failure> {
    session.http.namespace(Method::GET, namespace, &["stats"]).send().await?.parse()
}

/// Create, change, show, list, delete, pause and resume namespaces
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a namespace or replace its settings
    ///
    /// All settings are replaced: an absent setting returns to its default. Signing secrets stay if none
    /// is given. To change some settings and keep the others: `duly namespace set`.
    Put {
        #[command(flatten)]
        named: NamespaceArg,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    Set(Box<set::Args>),
    /// Show the settings of a namespace
    Get(NamespaceArg),
    /// List namespaces
    List,
    Delete(remove::Args),
    Pause(activity::PauseArgs),
    Resume(activity::ResumeArgs),
    Repair(repair::Args),
    /// Show the counts of a namespace, and the state of each lane
    Stats(NamespaceArg),
    /// Show the state of each lane: its receiver, breaker, backlog and limits
    Lanes(NamespaceArg),
    Forecast(forecast::Args),
    Secret(secret::Args),
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let client = &session.http;
    match args.action {
        Action::Put { named, settings } => {
            let call = client.namespace(Method::PUT, &named.namespace, &[]);
            let response = call.body(&settings.read()?).send().await?;
            get::show(session.printer, &response)
        }
        Action::Set(args) => set::run(*args, session).await,
        Action::Get(named) => {
            let call = client.namespace(Method::GET, &named.namespace, &[]);
            get::show(session.printer, &call.send().await?)
        }
        Action::List => list::run(session).await,
        Action::Delete(args) => remove::run(args, session).await,
        Action::Pause(args) => activity::pause(args, session).await,
        Action::Resume(args) => activity::resume(args, session).await,
        Action::Repair(args) => repair::run(args, session).await,
        Action::Stats(named) => stats::stats(&named.namespace, session).await,
        Action::Lanes(named) => stats::lanes(&named.namespace, session).await,
        Action::Forecast(args) => forecast::run(&args, session).await,
        Action::Secret(args) => secret::run(args, session).await,
    }
}
