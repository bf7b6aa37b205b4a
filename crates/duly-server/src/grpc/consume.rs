//! `Timers.Consume`: sends firings as the consumer gives credits, and receives its verdicts.
//!
//! ```text
//!   requests ──► session (a task each) ──► settle ──┐
//!                   │ credits                       ├──► two slots ──► responses ──► connection
//!                   └──► a slot, then a lease ──────┘
//! ```
//!
//! 1. A firing is claimed only if its consumer has a credit for it and a slot for the response is free.
//!    A consumer that stops reading holds two messages, and no further claim is made for it.
//! 2. While the request memory is full, no claim is made for any consumer: its firings would exceed the
//!    budget ([`crate::memory::lease_reservation`]). A waiting consumer uses no memory.
//! 3. Nothing is read from a consumer whose responses have no free slot.
//! 4. A stream owns its claims. At its end, for any reason, unsettled claims are released at once
//!    ([`duly_node::StreamLeases`]). An unwritten claim does not count as an attempt; a written one
//!    counts as an attempt with an unknown outcome.
//! 5. A store that is unavailable for a moment ends no stream. A connection whose caller reads nothing
//!    is closed by the rule of all responses, with its streams.
//! 6. A stop sends no more firings, accepts verdicts for a moment, and ends the stream.

mod session;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use duly_api::v1;
use duly_core::Code;
use duly_node::PendingReply;
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstDecoder;

use self::session::Session;
use super::{admitted_of, inbound::Incoming, status::from_library};
use crate::{memory::budget::Reservation, problem::Problem};

/// Streams of consumers at once.
pub(crate) const CONSUMERS_MAX: usize = 10_000;
/// Responses that wait for the connection: one with firings, one with results.
const SLOTS: usize = 2;

type ConsumeResult = Result<v1::ConsumeResponse, Status>;

/// A response that waits for the connection.
#[derive(Debug)]
struct QueuedResponse {
    result: ConsumeResult,
    /// Memory of the response until the connection polls it.
    reservation: Reservation,
    /// The hand-over of a response with firings.
    pending_reply: Option<PendingReply>,
}

/// Responses with firings that were polled and are not written yet; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct PolledResponses(Arc<Mutex<Vec<PendingReply>>>);

impl PolledResponses {
    /// Takes the responses over; the caller reports when they are written.
    pub(super) fn take(&self) -> Vec<PendingReply> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// All consumers of a server.
#[derive(Debug)]
pub(super) struct Consumers(Arc<Semaphore>);

/// The responses to one consumer.
#[derive(Debug)]
pub(super) struct ConsumeResponses {
    receiver: mpsc::Receiver<QueuedResponse>,
    polled_responses: PolledResponses,
}

impl Default for Consumers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CONSUMERS_MAX)))
    }
}

impl Consumers {
    /// Begins a stream.
    pub(super) fn begin(
        &self,
        requests: Request<Streaming<v1::ConsumeRequest>>,
    ) -> Result<Response<ConsumeResponses>, Problem> {
        let admitted = admitted_of(&requests)?;
        let Ok(slot) = Arc::clone(&self.0).try_acquire_owned() else {
            let detail = format!(
                "{CONSUMERS_MAX} consumers are connected already, which is the limit: try again \
                 later, or consume on fewer streams"
            );
            return Err(Problem::temporary(Code::ResourceExhausted, detail));
        };
        let consumer = admitted.begin_consumer()?;
        let requests = Requests::new(requests);
        let (sender, receiver) = mpsc::channel(SLOTS);
        let reservation = admitted.budget().empty_reservation();
        let session = async move {
            let error_sender = sender.clone();
            tokio::select! {
                // Claims are released when the session is dropped.
                () = error_sender.closed() => {}
                ended = Session::run(admitted, consumer, requests, sender) => if let Err(status) = ended {
                    let result = Err(status);
                    let last = QueuedResponse { result, reservation, pending_reply: None };
                    error_sender.send(last).await.ok();
                },
            }
            drop(slot);
        };
        tokio::spawn(session);
        let polled_responses = PolledResponses::default();
        let mut response = Response::new(ConsumeResponses {
            receiver,
            polled_responses: polled_responses.clone(),
        });
        response.extensions_mut().insert(polled_responses);
        Ok(response)
    }
}

impl Stream for ConsumeResponses {
    type Item = ConsumeResult;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context).map(|waiting| {
            // The poller writes the response at once, and counts its bytes.
            let QueuedResponse { result, reservation, pending_reply } = waiting?;
            drop(reservation);
            self.polled_responses.0.lock().extend(pending_reply);
            Some(result)
        })
    }
}

/// The requests of one stream.
///
/// The library keeps the buffer of a message for the next one. With thousands of idle streams that each
/// sent one large batch of verdicts, these buffers would be most of the memory. So a large empty buffer
/// is dropped, together with the reader that holds it (P10).
struct Requests {
    reader: Streaming<v1::ConsumeRequest>,
    incoming: Option<Incoming>,
    /// Number of requests that were read.
    count: u64,
}

impl Requests {
    /// Returns the requests of a call.
    fn new(mut call: Request<Streaming<v1::ConsumeRequest>>) -> Self {
        let incoming = call.extensions_mut().remove();
        Self { reader: call.into_inner(), incoming, count: 0 }
    }

    /// Returns the next request; `None` at the end.
    ///
    /// Cancellation safe: no received request is lost.
    async fn next(&mut self) -> Result<Option<v1::ConsumeRequest>, Status> {
        if let Some(incoming) = &self.incoming
            && incoming.holds_empty_buffer(self.count)
        {
            let (body, bytes_max) = (incoming.clone(), incoming.bytes_max());
            let decoder = ProstDecoder::default();
            self.reader = Streaming::new_request(decoder, body, None, Some(bytes_max));
            incoming.note_buffer_release();
        }
        let next = self.reader.message().await.map_err(from_library)?;
        self.count += u64::from(next.is_some());
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
