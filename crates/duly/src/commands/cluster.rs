//! `duly cluster`: the nodes of the deployment, and the counts of all of them.

use duly_api::{ClusterInfo, Node};
use reqwest::Method;

use crate::{
    Outcome,
    cli::Session,
    output::{
        table::{self, Column, Table},
        terminal::Tone,
    },
};

/// Show the nodes of the deployment, as the called server sees them
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) async fn run(_: Args, session: &Session) -> Outcome {
    let response = session.http.service(Method::GET, &["cluster"]).send().await?;
    let printer = session.printer;
    printer.document(&response.text, || {
        let cluster: ClusterInfo = response.parse()?;
        let counts = [
            ("version", cluster.version.clone()),
            ("shards", cluster.shards.to_string()),
            ("ready", if cluster.ready { "yes".to_owned() } else { cluster.reasons.join("; ") }),
            ("pending", cluster.pending.to_string()),
            ("overdue", cluster.overdue.to_string()),
            ("in flight", cluster.in_flight.to_string()),
            ("dead", cluster.dead.to_string()),
        ];
        let counts = counts.map(|(name, value)| (name.to_owned(), value));
        let counts = table::of_pairs(printer.screen(), counts);
        let warnings = cluster.warnings.iter().map(|warning| format!("warning: {warning}\n"));
        let nodes = nodes(&cluster.nodes).text(printer.screen());
        Ok(format!("{}{counts}\n{nodes}", warnings.collect::<String>()))
    })
}

fn nodes(nodes: &[Node]) -> Table {
    let mut table = Table::new([
        Column::Whole("node"),
        Column::Whole("member id"),
        Column::Whole("state"),
        Column::Number("shards"),
        Column::Number("last heartbeat"),
    ]);
    for node in nodes {
        let tone = if node.state == "active" { Tone::Plain } else { Tone::Warning };
        let name = if node.this { format!("{} (answers)", node.name) } else { node.name.clone() };
        let heard = format!("{} ms ago", node.heartbeat_age_ms);
        let (run, state) = (node.member_id.clone(), node.state.clone());
        table.row(tone, [name, run, state, node.shards.to_string(), heard]);
    }
    table
}
