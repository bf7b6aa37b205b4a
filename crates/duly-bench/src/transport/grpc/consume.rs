//! One gRPC stream of a consumer: credits and settlements go out, firings and results come back.

use anyhow::{Result, ensure};
use duly_api::{
    Settlement,
    v1::{self, consume_response::Kind},
};
use duly_checker::history::SettleAnswer;
use futures::channel::mpsc;
use tonic::Streaming;

use super::{Grpc, firing, said, settled};
use crate::transport::Firing;

/// An open stream.
#[derive(Debug)]
pub(crate) struct Consuming {
    /// Sender of requests; it holds no more of them than there are credits.
    requests: mpsc::UnboundedSender<v1::ConsumeRequest>,
    responses: Streaming<v1::ConsumeResponse>,
}

/// A message of the server on the stream.
#[derive(Debug)]
pub(crate) enum StreamMessage {
    /// Firings, each for one credit.
    Firings(Vec<Firing>),
    /// Results of the acknowledgements that were sent as one request, in their order.
    Settled(Vec<SettleAnswer>),
}

impl Grpc {
    /// Opens a stream on a line and gives it `credits` credits.
    pub(crate) async fn consume(
        &self,
        line: usize,
        namespace: &str,
        credits: u32,
    ) -> Result<Consuming> {
        let (requests, receiver) = mpsc::unbounded();
        let open = v1::ConsumeOpen { namespace: namespace.to_owned(), lease: None };
        let first = v1::ConsumeRequest { open: Some(open), credits, settlements: Vec::new() };
        requests.unbounded_send(first)?;
        let responses = self.timers(line).consume(receiver).await.map_err(said)?.into_inner();
        Ok(Consuming { requests, responses })
    }
}

impl Consuming {
    /// Returns the next message. Cancellation safe: a drop during the wait loses nothing.
    pub(crate) async fn hear(&mut self) -> Result<StreamMessage> {
        loop {
            let heard = self.responses.message().await.map_err(said)?;
            match heard.map(|heard| heard.kind) {
                Some(Some(Kind::Firings(v1::Firings { firings }))) => {
                    return Ok(StreamMessage::Firings(firings.into_iter().map(firing).collect()));
                }
                Some(Some(Kind::Settled(v1::SettleResponse { results, .. }))) => {
                    return Ok(StreamMessage::Settled(results.into_iter().map(settled).collect()));
                }
                Some(None) => {}
                Some(Some(Kind::Stopping(v1::Stopping {}))) | None => {
                    anyhow::bail!("the server ended the stream of a consumer");
                }
            }
        }
    }

    /// Acknowledges firings and gives their credits back.
    pub(crate) fn acknowledge(&self, firings: &[Firing]) -> Result<()> {
        let credits = u32::try_from(firings.len())?;
        let settlements = firings.iter().map(|firing| Settlement::ack(&firing.token)).collect();
        let request = v1::ConsumeRequest { open: None, credits, settlements };
        let sent = self.requests.unbounded_send(request);
        ensure!(sent.is_ok(), "the server ended the stream of a consumer");
        Ok(())
    }
}
