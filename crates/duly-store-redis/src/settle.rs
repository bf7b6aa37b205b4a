//! Settlements of leased firings: acks and extensions take one script each, the others *read, decide,
//! and write if nothing has changed*.
//!
//! Like operations, a call is executed in rounds that have each timer once.

use std::collections::{HashMap, VecDeque};

use duly_core::{Millis, NamespaceName, TimerId, namespace::LEASE_MAX, shard::ShardId};
use duly_store::{Result, SettleOutcome, SettleVerdict, Settlement};
use redis::Value;

use crate::{
    case::SettleDecision,
    change::{TRIES, WriteResult, at_once, contended, digits, next_round},
    connection::Call,
    deployment::{Deployment, NamespaceRef, ReadRequest},
    error::damaged,
    reply::Reply,
    script::Script,
    token::Ticket,
};

/// Most acks of one script.
const GROUP: usize = 128;

/// A settlement whose token was parsed, with its place in the call.
type OpenSettlement = (usize, Ticket, Settlement);

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
        for _ in 0..TRIES {
            let wanted = ReadRequest {
                firing: Some((ticket.incarnation, ticket.occurrence)),
                ..ReadRequest::bare(NamespaceRef::Numbered(&ticket.num), Some(&ticket.id))
            };
            let Some(case) = self.case(shard, wanted).await? else {
                return Ok(SettleOutcome::LeaseLost);
            };
            let believed = settlement.namespace.as_ref();
            if believed.is_some_and(|name| *name != case.control.name) {
                return Ok(SettleOutcome::InvalidToken);
            }
            if let Some(draft) = case.due() {
                self.write(shard, &case, &draft, Script::Change).await?;
                continue;
            }
            match case.decide_settlement(ticket, &settlement.verdict) {
                SettleDecision::Answer(outcome) => return Ok(outcome),
                SettleDecision::Write(draft, outcome) => {
                    if self.write(shard, &case, &draft, Script::Change).await? == WriteResult::Done
                    {
                        return Ok(outcome);
                    }
                }
                SettleDecision::Held => {
                    let call = match settlement.verdict {
                        SettleVerdict::Extend { lease } => extend(ticket, settlement, lease),
                        _ => acknowledge(&[(0, ticket.clone(), settlement.clone())]),
                    };
                    let mut words = words(self.router.call(shard, call).await?)?;
                    if let Some(outcome) = parse_outcome(&mut words)? {
                        return Ok(outcome);
                    }
                }
            }
        }
        Err(contended())
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
            let Some(case) = self.case(shard, wanted).await? else {
                return Ok(());
            };
            let Some(live) = &case.live else { return Ok(()) };
            let held = |lease: crate::record::Lease| lease.nonce.to_be_bytes()[..6] == nonce;
            if !live.lease.is_some_and(held) {
                return Ok(());
            }
            let Some(draft) = case.hand_back(live) else { return Ok(()) };
            if self.write(shard, &case, &draft, Script::Change).await? == WriteResult::Done {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Returns the script call that takes acks of one namespace.
fn acknowledge(group: &[OpenSettlement]) -> Call {
    let mut arguments = Vec::with_capacity(2 + 2 * group.len());
    if let Some((_, ticket, settlement)) = group.first() {
        arguments.push(ticket.num.clone().into_bytes());
        arguments.push(believed(settlement));
    }
    for (_, ticket, _) in group {
        arguments.push(ticket.id.as_str().as_bytes().to_vec());
        arguments.push(ticket.nonce.to_be_bytes().to_vec());
    }
    Call::new(Script::Ack, arguments)
}

/// Returns the script call that moves the end of a lease.
fn extend(ticket: &Ticket, settlement: &Settlement, by: Millis) -> Call {
    let arguments = vec![
        ticket.num.clone().into_bytes(),
        ticket.id.as_str().as_bytes().to_vec(),
        ticket.nonce.to_be_bytes().to_vec(),
        believed(settlement),
        digits(by.ms()),
        digits(LEASE_MAX.ms()),
    ];
    Call::new(Script::Extend, arguments)
}

/// Returns the namespace that the caller named, or nothing.
fn believed(settlement: &Settlement) -> Vec<u8> {
    let name = settlement.namespace.as_ref();
    name.map_or_else(Vec::new, |name| name.as_str().as_bytes().to_vec())
}

/// Returns the words of a reply, without the time in front.
fn words(answer: Value) -> Result<Reply> {
    let mut reply = Reply::list(answer)?;
    let _now = reply.time()?;
    Ok(reply)
}

/// Returns the outcome that a word means; `None` if the slow path is needed.
fn parse_outcome(words: &mut Reply) -> Result<Option<SettleOutcome>> {
    Ok(match words.text()?.as_str() {
        "OK" => Some(SettleOutcome::Ok),
        "LOST" => Some(SettleOutcome::LeaseLost),
        "INVALID" => Some(SettleOutcome::InvalidToken),
        "SLOW" => None,
        other => return Err(damaged(format!("unknown reply to a settlement: {other}"))),
    })
}
