//! `duly cluster`: the nodes of the deployment, and the counts of all of them.

use duly_api::{ClusterInfo, Node};
use reqwest::Method;

use crate::{
    Outcome,
    output::{Table, Tone, table},
    session::Session,
};

/// Runs the command.
pub(crate) async fn run(session: &Session) -> Outcome {
    let screen = session.printer.screen;
    let text = |cluster: ClusterInfo| {
        let counts = [
            ("version", cluster.version),
            ("shards", cluster.shards.to_string()),
            ("ready", if cluster.ready { "yes".to_owned() } else { cluster.reasons.join("; ") }),
            ("pending", cluster.pending.to_string()),
            ("overdue", cluster.overdue.to_string()),
            ("in flight", cluster.in_flight.to_string()),
            ("dead", cluster.dead.to_string()),
        ];
        let counts = counts.map(|(name, value)| (name.to_owned(), value));
        let counts = table::of_pairs(screen, counts);
        let warnings = cluster.warnings.iter().map(|warning| format!("warning: {warning}\n"));
        let nodes = nodes(&cluster.nodes).text(screen);
        format!("{}{counts}\n{nodes}", warnings.collect::<String>())
    };
    session.print(session.http.service(Method::GET, &["cluster"]), text).await
}

fn nodes(nodes: &[Node]) -> Table {
    let mut table = Table::new(&["node", "member id", "state", "shards", "last heartbeat"])
        .numbers(&["shards", "last heartbeat"]);
    for node in nodes {
        let tone = if node.state == "active" { Tone::Plain } else { Tone::Warning };
        let name = if node.this { format!("{} (answers)", node.name) } else { node.name.clone() };
        let heard = format!("{} ms ago", node.heartbeat_age_ms);
        let (run, state) = (node.member_id.clone(), node.state.clone());
        table.row(tone, [name, run, state, node.shards.to_string(), heard]);
    }
    table
}
