//! One stream of a consumer: sends credits and verdicts, receives firings and results.
//!
//! 1. There are never more credits than free handlers.
//! 2. Credits and verdicts gather until the stream accepts a message, and then go in one message.
//! 3. Results come in the order of the messages.

use std::{collections::VecDeque, mem};

use duly_api::{
    Firing, SettleOutcome, Settlement,
    v1::{self, consume_response::Kind},
};
use duly_core::Code;
use futures::stream;
use tokio::{
    sync::mpsc::{self, Sender},
    time::{Duration, Instant, sleep_until, timeout},
};
use tonic::Streaming;

use super::worker::{Worker, stop_requested};
use crate::{
    client::pulling::settled,
    error::{Error, Result, check_count, of_status},
};

/// Most verdicts per message.
const SETTLEMENTS_MAX: usize = 1_000;
/// Time to wait for the results of the last verdicts after a stop.
const FLUSH: Duration = Duration::from_secs(5);

/// The reason why a stream ended.
pub(super) enum StreamEnd {
    /// The consumer is to stop, and everything was sent.
    Stopped,
    /// The server or the connection ended the stream.
    Lost {
        error: Error,
        /// `true`: the server sent a message on it.
        received_any: bool,
    },
}

/// A stream.
pub(super) struct Session {
    requests: Sender<v1::ConsumeRequest>,
    responses: Streaming<v1::ConsumeResponse>,
    /// Credits that the server has, including those that are still to be sent.
    credits: usize,
    /// Credits that are still to be sent.
    credits_to_send: usize,
    to_settle: VecDeque<Settlement>,
    /// Settlements that were sent and have no result yet, by message.
    awaiting_results: VecDeque<Vec<Settlement>>,
    /// `true`: the server is stopping and delivers nothing more.
    server_stops: bool,
    received_any: bool,
}

/// An event of the stream.
enum Event {
    Ended(super::worker::HandlerResult),
    Received(Result<Option<v1::ConsumeResponse>, tonic::Status>),
    CanSend(Option<mpsc::OwnedPermit<v1::ConsumeRequest>>),
    Extend,
    Stop,
    OutOfTime,
}

impl Session {
    /// Opens a stream, with a credit for each free handler.
    pub(super) async fn open(worker: &Worker) -> Result<Self> {
        let connection = &worker.client.inner.connection;
        let credits = worker.options.concurrency.saturating_sub(worker.tasks.len());
        let (requests, mut queued) = mpsc::channel(1);
        let first = v1::ConsumeRequest {
            open: Some(v1::ConsumeOpen {
                namespace: worker.namespace.as_ref().to_owned(),
                lease: Some(worker.options.lease.into()),
            }),
            credits: u32::try_from(credits).unwrap_or(u32::MAX),
            settlements: Vec::new(),
        };
        // The channel has capacity for one message, and this is the first.
        requests.try_send(first).ok();
        let outgoing = stream::poll_fn(move |context| queued.poll_recv(context));
        let mut timers = connection.timers();
        let limit = worker.client.timeout;
        let responses = match timeout(limit, timers.consume(outgoing)).await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return Err(of_status(&status, &connection.server)),
            Err(_elapsed) => return Err(Error::no_response(limit)),
        };
        Ok(Self {
            requests,
            responses,
            credits,
            credits_to_send: 0,
            to_settle: VecDeque::new(),
            awaiting_results: VecDeque::new(),
            server_stops: false,
            received_any: false,
        })
    }

    /// Serves the stream until it ends.
    pub(super) async fn run(mut self, worker: &mut Worker) -> StreamEnd {
        let mut stopped = worker.stopped.clone();
        // Deadline for the last results.
        let mut flush_deadline = None;
        loop {
            self.give_credits(worker);
            let stops = worker.stops_at.is_some();
            if stops && worker.tasks.is_empty() {
                if self.to_settle.is_empty() && self.awaiting_results.is_empty() {
                    return StreamEnd::Stopped;
                }
                flush_deadline.get_or_insert_with(|| Instant::now() + FLUSH);
            }
            let ends_at = flush_deadline.or(worker.stops_at);
            let extend_at = worker.running.next_extension();
            let has_to_send = self.credits_to_send > 0 || !self.to_settle.is_empty();
            // Deadlines first, sending last: so verdicts that are ready at the same time go in one
            // message.
            let event = tokio::select! {
                biased;
                () = stop_requested(&mut stopped), if !stops => Event::Stop,
                () = sleep_until(ends_at.unwrap_or_else(Instant::now)), if ends_at.is_some() => {
                    Event::OutOfTime
                }
                () = sleep_until(extend_at.unwrap_or_else(Instant::now)), if extend_at.is_some() => {
                    Event::Extend
                }
                Some(ended) = worker.tasks.join_next_with_id() => Event::Ended(ended),
                received = self.responses.message() => Event::Received(received),
                permit = self.requests.clone().reserve_owned(), if has_to_send => {
                    Event::CanSend(permit.ok())
                }
            };
            match event {
                Event::Stop => drop(worker.begin_stop()),
                Event::Ended(ended) => {
                    self.to_settle.extend(worker.ended(ended));
                }
                Event::Received(Ok(Some(message))) => {
                    self.received_any = true;
                    if let Err(error) = self.take(worker, message) {
                        return self.lost(error);
                    }
                }
                Event::Received(Ok(None)) => {
                    return self.lost(Error::unknown(Code::Aborted, "the server ended the stream"));
                }
                Event::Received(Err(status)) => {
                    let error = of_status(&status, &worker.client.inner.connection.server);
                    return self.lost(error);
                }
                Event::CanSend(Some(permit)) => drop(permit.send(self.next_message())),
                // The next message of the stream contains the reason.
                Event::CanSend(None) => {
                    self.credits_to_send = 0;
                    self.to_settle.clear();
                }
                Event::Extend => self.extend(worker),
                Event::OutOfTime if flush_deadline.is_some() => return StreamEnd::Stopped,
                Event::OutOfTime => worker.abort(),
            }
        }
    }

    fn lost(self, error: Error) -> StreamEnd {
        StreamEnd::Lost { error, received_any: self.received_any }
    }

    /// Adds a credit for each free handler.
    fn give_credits(&mut self, worker: &Worker) {
        if worker.stops_at.is_some() || self.server_stops {
            // Credits that were not sent yet are withdrawn.
            self.credits -= mem::take(&mut self.credits_to_send);
            return;
        }
        let taken = worker.tasks.len() + self.credits;
        let free = worker.options.concurrency.saturating_sub(taken);
        self.credits += free;
        self.credits_to_send += free;
    }

    /// Returns the next message to send.
    fn next_message(&mut self) -> v1::ConsumeRequest {
        let count = self.to_settle.len().min(SETTLEMENTS_MAX);
        let settlements: Vec<_> = self.to_settle.drain(..count).collect();
        let credits = u32::try_from(mem::take(&mut self.credits_to_send)).unwrap_or(u32::MAX);
        if !settlements.is_empty() {
            self.awaiting_results.push_back(settlements.clone());
        }
        v1::ConsumeRequest { open: None, credits, settlements }
    }

    fn take(&mut self, worker: &mut Worker, message: v1::ConsumeResponse) -> Result<()> {
        match message.kind {
            Some(Kind::Firings(firings)) => {
                for firing in firings.firings {
                    self.credits = self.credits.saturating_sub(1);
                    self.take_firing(worker, firing);
                }
            }
            Some(Kind::Settled(v1::SettleResponse { results, .. })) => {
                let sent = self.awaiting_results.pop_front().unwrap_or_default();
                check_count(results.len(), sent.len(), "settlements")?;
                for (settlement, result) in sent.into_iter().zip(results) {
                    settle(worker, &settlement, settled(result));
                }
            }
            Some(Kind::Stopping(_)) => self.server_stops = true,
            // A message kind of a newer server.
            None => {}
        }
        Ok(())
    }

    fn take_firing(&mut self, worker: &mut Worker, firing: Firing) {
        worker.counters.received.increment();
        if worker.stops_at.is_some() {
            // The server releases it when the stream ends.
            worker.counters.released.increment();
            return;
        }
        let now = Instant::now();
        let extend_at = now + worker.options.lease / 3;
        let (token, delivery_id) = (&firing.token, &firing.delivery_id);
        if worker.running.continue_handler(delivery_id, token, extend_at) {
            worker.counters.continued.increment();
        } else if worker.recent.contains(delivery_id, now) {
            worker.counters.duplicates.increment();
            self.to_settle.push_back(Settlement::ack(token));
        } else {
            worker.begin(firing, extend_at);
        }
    }

    fn extend(&mut self, worker: &mut Worker) {
        let now = Instant::now();
        let lease = worker.options.lease;
        for token in worker.running.extend_due(now, now + lease / 3) {
            self.to_settle.push_back(Settlement::extend(token, lease));
        }
    }
}

/// Counts the result of a settlement.
fn settle(worker: &mut Worker, settlement: &Settlement, result: Result<SettleOutcome>) {
    let counters = &worker.counters;
    match result {
        Ok(SettleOutcome::Ok | SettleOutcome::AlreadySettled | SettleOutcome::Cancelled) => {
            match settlement {
                Settlement { ack: Some(_), .. } => counters.acked.increment(),
                Settlement { retry: Some(_), .. } => counters.retried.increment(),
                Settlement { snooze: Some(_), .. } => counters.snoozed.increment(),
                Settlement { dead: Some(_), .. } => counters.dead.increment(),
                Settlement { .. } => counters.extended.increment(),
            }
        }
        Ok(SettleOutcome::Dead) => counters.dead.increment(),
        Ok(_) => {
            counters.lease_lost.increment();
            worker.running.mark_lost(&settlement.token);
        }
        Err(error) => {
            counters.unsettled.increment();
            tracing::warn!(namespace = %worker.namespace, %error, "settlement failed; unless it was recorded, the firing is retried when its lease ends");
        }
    }
}
