//! `duly store repair`.

use std::time::Duration;

use duly_api::cluster::Repair;
use reqwest::Method;
use serde::Deserialize;

use crate::{Outcome, cli::Session};

/// Time limit of a repair, long enough for any number of namespaces.
const TIME_LIMIT: Duration = Duration::from_secs(24 * 3_600);

#[derive(Deserialize)]
struct Repaired {
    shards: Vec<Shard>,
}

#[derive(Deserialize)]
struct Shard {
    shard: u16,
    outcome: String,
    behind_ms: Option<u64>,
    namespaces: Option<u64>,
}

pub(super) async fn run(shards: &[u16], session: &Session) -> Outcome {
    let call = session.http.service(Method::POST, &["store", "repair"]);
    let response =
        call.body(&Repair { shards: shards.to_vec() }).waiting(TIME_LIMIT).send().await?;
    session.printer.document(&response.text, || {
        let Repaired { shards } = response.parse()?;
        let lines: Vec<_> = shards.iter().map(Shard::line).collect();
        Ok(lines.join("\n"))
    })
}

impl Shard {
    fn line(&self) -> String {
        let shard = self.shard;
        match (self.outcome.as_str(), self.behind_ms, self.namespaces) {
            ("restored", _, Some(namespaces)) => {
                format!("shard {shard}  restored, {namespaces} namespaces; its timers are gone")
            }
            ("confirmed", Some(behind_ms), _) => {
                format!("shard {shard}  confirmed: changes of {behind_ms} ms are gone")
            }
            _ => format!("shard {shard}  already in service"),
        }
    }
}
