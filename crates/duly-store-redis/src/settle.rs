//! Settlements of leased firings: acks and extensions take one script each, the others *read, decide,
//! and write if nothing has changed*.
//!
//! Like operations, a call is executed in rounds that have each timer once.

use std::collections::{HashMap, VecDeque};

use duly_core::{NamespaceName, TimerId, shard::ShardId};
use duly_decide::{Lease, SettleItem, TRIES, contended};
use duly_store::{Result, SettleOutcome, SettleVerdict, Settlement};

use crate::{
    change::{WriteResult, at_once, next_round},
    deployment::{Deployment, NamespaceRef, ReadRequest},
    rows::ShardRows,
    script::Script,
    token::Ticket,
    verdicts::{OpenSettlement, acknowledge, extend, parse_outcome, words},
};

/// Most acks of one script.
const GROUP: usize = 128;

impl Deployment {
    /// Settles leases. An error means that none of the settlements is known to have taken effect.
    pub(crate) async fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        let mut outcomes = vec![SettleOutcome::InvalidToken; settlements.len()];
        let mut waiting: VecDeque<OpenSettlement> = VecDeque::new();
        for (i, settlement) in settlements.into_iter().enumerate() {
            if let Some(ticket) = Ticket::read(&settlement.token, shard, self.seed) {
                waiting.push_back((i, ticket, settlement));
            }
        }
        let mut failed = None;
        let mut any_settled = false;
        while !waiting.is_empty() {
            let key = |open: &OpenSettlement| Some((open.1.num.clone(), open.1.id.clone()));
            let round = next_round(&mut waiting, key);
            for (i, outcome) in self.settle_round(shard, round).await {
                outcomes[i] = match outcome {
                    Ok(outcome) => {
                        any_settled = true;
                        outcome
                    }
                    Err(error) => {
                        failed = Some(error);
                        SettleOutcome::InDoubt
                    }
                };
            }
        }
        match failed {
            Some(error) if !any_settled => Err(error),
            _ => Ok(outcomes),
        }
    }

    async fn settle_round(
        &self,
        shard: ShardId,
        round: Vec<OpenSettlement>,
    ) -> Vec<(usize, Result<SettleOutcome>)> {
        let mut done = Vec::with_capacity(round.len());
        let (mut sent, mut calls, mut slow) = (Vec::new(), Vec::new(), Vec::new());
        let mut groups: HashMap<(String, Option<NamespaceName>), Vec<OpenSettlement>> =
            HashMap::new();
        for open in round {
            match &open.2.verdict {
                SettleVerdict::Ack => {
                    let key = (open.1.num.clone(), open.2.namespace.clone());
                    groups.entry(key).or_default().push(open);
                }
                SettleVerdict::Extend { lease } => {
                    calls.push(extend(&open.1, &open.2, *lease));
                    sent.push(vec![open]);
                }
                _ => slow.push(open),
            }
        }
        for mut group in groups.into_values() {
            while !group.is_empty() {
                let rest = group.split_off(group.len().min(GROUP));
                calls.push(acknowledge(&group));
                sent.push(group);
                group = rest;
            }
        }
        let results = self.pipelined(shard, calls).await;
        for (items, answer) in sent.into_iter().zip(results) {
            let mut words = answer.and_then(words);
            for open in items {
                match words.as_mut().map_err(|error| error.clone()).and_then(parse_outcome) {
                    Ok(Some(outcome)) => done.push((open.0, Ok(outcome))),
                    Ok(None) => slow.push(open),
                    Err(error) => done.push((open.0, Err(error))),
                }
            }
        }
        let work = slow.into_iter().map(|(i, ticket, settlement)| async move {
            (i, self.settle_slow(shard, &ticket, &settlement).await)
        });
        done.extend(at_once(work).await);
        done
    }

    async fn settle_slow(
        &self,
        shard: ShardId,
        ticket: &Ticket,
        settlement: &Settlement,
    ) -> Result<SettleOutcome> {
        let mut rows = ShardRows::new(self, shard, Some(ticket));
        let item = SettleItem { settlement, nonce: ticket.nonce };
        let mut outcomes = duly_decide::settle(&mut rows, &[item]).await;
        outcomes.pop().unwrap_or_else(|| Err(contended()))
    }

    /// Hands back a firing that a claim granted whose reply was lost.
    pub(crate) async fn hand_back(
        &self,
        shard: ShardId,
        num: &str,
        id: &TimerId,
        nonce: [u8; 6],
    ) -> Result<()> {
        for _ in 0..TRIES {
            let wanted = ReadRequest::bare(NamespaceRef::Numbered(num), Some(id));
            let Some(row) = self.row(shard, wanted).await? else {
                return Ok(());
            };
            let Some(live) = &row.case.live else { return Ok(()) };
            let held = |lease: Lease| lease.nonce.to_be_bytes()[..6] == nonce;
            if !live.lease.is_some_and(held) {
                return Ok(());
            }
            let Some(draft) = row.case.hand_back(live) else { return Ok(()) };
            let written = self.write(shard, &row, &draft, Script::Change, None).await?;
            if written == WriteResult::Done {
                return Ok(());
            }
        }
        Ok(())
    }
}
