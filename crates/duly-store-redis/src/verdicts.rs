//! The verdicts that a script takes without a read before: acks and extensions.

use duly_core::{Millis, namespace::LEASE_MAX};
use duly_store::{Result, SettleOutcome, Settlement};
use redis::Value;

use crate::{
    change::digits, connection::Call, error::damaged, reply::Reply, script::Script, token::Ticket,
};

/// A settlement whose token was parsed, with its place in the call.
pub(crate) type OpenSettlement = (usize, Ticket, Settlement);

/// Returns the script call that takes acks of one namespace.
pub(crate) fn acknowledge(group: &[OpenSettlement]) -> Call {
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
pub(crate) fn extend(ticket: &Ticket, settlement: &Settlement, by: Millis) -> Call {
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
pub(crate) fn words(answer: Value) -> Result<Reply> {
    let mut reply = Reply::list(answer)?;
    let _now = reply.time()?;
    Ok(reply)
}

/// Returns the outcome that a word means; `None` if the slow path is needed.
pub(crate) fn parse_outcome(words: &mut Reply) -> Result<Option<SettleOutcome>> {
    Ok(match words.text()?.as_str() {
        "OK" => Some(SettleOutcome::Ok),
        "LOST" => Some(SettleOutcome::LeaseLost),
        "INVALID" => Some(SettleOutcome::InvalidToken),
        "SLOW" => None,
        other => return Err(damaged(format!("unknown reply to a settlement: {other}"))),
    })
}
