//! `duly dead`: looks after dead letters.

pub(crate) mod overdue;

use clap::Subcommand;
use duly_core::{Millis, NamespaceName, State, TimerId};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{
    Outcome,
    args::{confirm::Confirm, fields::RequestFields, filter::Filter, values},
    cli::Session,
    commands::{list, namespace::counts},
    failure::Failure,
    http,
    output::{text, timers},
};

/// List, redrive or purge dead letters: firings that were given up
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List dead letters with their last error
    List {
        /// The namespace
        #[arg(value_parser = values::namespace)]
        namespace: NamespaceName,
        #[command(flatten)]
        filter: Filter,
    },
    /// Send dead letters again, with a fresh budget of attempts
    Redrive {
        /// The namespace
        #[arg(value_parser = values::namespace)]
        namespace: NamespaceName,
        #[command(flatten)]
        which: Which,
        /// Wait this long first
        #[arg(long, value_name = "DURATION", value_parser = values::duration)]
        delay: Option<Millis>,
        /// Space them: at most this many a second
        #[arg(long, value_name = "N", value_parser = values::decimal)]
        per_second: Option<f64>,
    },
    /// Drop dead letters for good
    Purge {
        /// The namespace
        #[arg(value_parser = values::namespace)]
        namespace: NamespaceName,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        confirm: Confirm,
    },
    Overdue(overdue::Args),
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The latest dead letter of this timer; repeat it for more
    #[arg(long = "id", value_name = "ID", value_parser = values::timer_id)]
    ids: Vec<TimerId>,
    /// The dead letter with this delivery id; repeat it for more
    #[arg(long = "delivery-id", value_name = "ID")]
    delivery_ids: Vec<String>,
    /// Every dead letter of the namespace
    #[arg(long)]
    all: bool,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    match args.action {
        Action::List { namespace, filter } => {
            list::pages(session, &namespace, Some(State::Dead), &filter, timers::dead).await
        }
        Action::Redrive { namespace, which, delay, per_second } => {
            let mut fields = which.fields();
            fields.set_some("delay", delay.map(|delay| delay.to_string()));
            fields.set_some("per_second", per_second);
            deal(session, &namespace, "redrive", &which, fields).await
        }
        Action::Purge { namespace, which, confirm } => {
            if which.all && confirm.is_needed() {
                let dead = counts(session, &namespace).await?.dead;
                let letters = text::count(dead, "dead letter");
                Confirm::ask(&format!("Drop {letters} of {namespace} for good?"))?;
            }
            deal(session, &namespace, "purge", &which, which.fields()).await
        }
        Action::Overdue(args) => overdue::run(args, session).await,
    }
}

/// What one call came to.
#[derive(Deserialize)]
struct Step {
    #[serde(alias = "redriven", alias = "purged")]
    done: u64,
    cursor: Option<String>,
    #[serde(default)]
    errors: Vec<LetterError>,
}

#[derive(Deserialize)]
struct LetterError {
    error: Box<RawValue>,
}

/// Redrives or purges, call by call; prints what was done, and fails where a letter that was named was refused.
async fn deal(
    session: &Session,
    namespace: &NamespaceName,
    action: &str,
    which: &Which,
    fields: RequestFields,
) -> Outcome {
    let words = if action == "redrive" { "redriven" } else { "purged" };
    let (mut done, mut cursor, mut refusals) = (0, None, Vec::new());
    let document = loop {
        let mut fields = fields.clone();
        fields.set_some("cursor", cursor);
        let call = session.http.namespace(Method::POST, namespace, &["dead", action]);
        let reply = call.body(&fields).send().await?;
        let step: Step = reply.parse()?;
        done += step.done;
        refusals.extend(step.errors.iter().map(|item| http::detail(item.error.get())));
        cursor = step.cursor;
        match cursor {
            Some(_) => {}
            None if which.all => break json!({ words: done }).to_string(),
            None => break reply.text,
        }
    };
    session.printer.document(&document, || Ok(format!("{done} {words}")))?;
    if refusals.is_empty() {
        return Ok(());
    }
    let refusals = refusals.join("\n       ");
    let hint = format!("`duly dead list {namespace}` shows the dead letters");
    Err(Failure::coded("some_refused", format_args!("{refusals}\n  {hint}")))
}

impl Which {
    fn fields(&self) -> RequestFields {
        let mut fields = RequestFields::default();
        let ids: Vec<_> = self.ids.iter().map(TimerId::as_str).collect();
        fields.set_some("ids", (!ids.is_empty()).then_some(ids));
        let delivery_ids = (!self.delivery_ids.is_empty()).then_some(&self.delivery_ids);
        fields.set_some("delivery_ids", delivery_ids);
        fields.set_some("all", self.all.then_some(true));
        fields
    }
}
