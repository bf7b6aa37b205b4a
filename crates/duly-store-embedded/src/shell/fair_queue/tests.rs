use duly_core::TimerId;
use duly_store::{Answer, Command, Operation};
use tokio::sync::oneshot;

use super::*;
use crate::shell::inbox;

fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).unwrap()
}

/// A batch of one command, identified by its timer.
fn batch(namespace: &str, timer: &str) -> Request {
    let operation = Operation::Fire { id: TimerId::new(timer).unwrap() };
    let command = Command { namespace: name(namespace), operation, answer: Answer::Brief };
    let (reply, _) = oneshot::channel();
    Request::Apply { commands: vec![command].into_iter(), outcomes: Vec::new(), reply }
}

fn call() -> Request {
    Request::Call(Box::new(|_| (inbox::ReplyAt::Now, Box::new(|_| {}))))
}

fn told(request: &Request) -> String {
    match request {
        Request::Apply { commands, .. } => {
            let command = &commands.as_slice()[0];
            match &command.operation {
                Operation::Fire { id } => format!("{}/{}", command.namespace, id.as_str()),
                other => unreachable!("{other:?}"),
            }
        }
        _ => "call".to_owned(),
    }
}

fn drained(turns: &mut FairQueue) -> Vec<String> {
    std::iter::from_fn(|| turns.pop()).map(|request| told(&request)).collect()
}

#[test]
fn p10_a_namespace_waits_for_one_slice_of_each_other() {
    let mut turns = FairQueue::default();
    (0..1_000).for_each(|n| turns.push(batch("importer", &format!("{n}"))));
    turns.push(batch("shop", "a"));
    turns.push(batch("mail", "b"));
    turns.push(batch("shop", "c"));
    assert_eq!(turns.len(), 1_003);
    let order = drained(&mut turns);
    let first = ["importer/0", "shop/a", "mail/b", "importer/1", "shop/c", "importer/2"];
    assert_eq!(order[..6], first);
    assert_eq!(order.len(), 1_003);
    assert!(turns.is_empty() && turns.pop().is_none());
    assert!(turns.waiting.is_empty(), "who waits for nothing takes no room");
}

#[test]
fn calls_run_in_their_turn_and_delay_no_namespace() {
    let mut turns = FairQueue::default();
    turns.push(batch("shop", "a"));
    (0..3).for_each(|_| turns.push(call()));
    turns.push(batch("shop", "b"));
    assert_eq!(told(&turns.pop().unwrap()), "shop/a");
    assert_eq!(told(&turns.pop().unwrap()), "call");
    // More calls come during their turn.
    (0..3).for_each(|_| turns.push(call()));
    let order = drained(&mut turns);
    assert_eq!(order, ["call", "call", "shop/b", "call", "call", "call"]);
}

#[test]
fn unfinished_batches_requeue_behind_their_namespace() {
    let mut turns = FairQueue::default();
    turns.push(batch("shop", "large"));
    turns.push(batch("shop", "small"));
    turns.push(batch("mail", "other"));
    let large = turns.pop().unwrap();
    turns.push(large);
    assert_eq!(drained(&mut turns), ["mail/other", "shop/small", "shop/large"]);
}
