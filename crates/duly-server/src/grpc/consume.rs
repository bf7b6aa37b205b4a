//! `Timers.Consume`: firings go out as the consumer gives credits, verdicts come back.
//!
//! ```text
//!   requests ──► Consumer (a task each) ──► settle ──┐
//!                   │ credits                        ├──► two places ──► answers ──► connection
//!                   └──► a place, then a lease ──────┘
//! ```
//!
//! * A firing is claimed only when its consumer has a credit for it and there is a place for it among
//!   the answers: one who stops reading holds two messages, and no claim is made for it any more.
//! * While the memory of bodies is full, no claim is made for anybody: its firings would come on top
//!   ([`crate::http::room`]). A consumer that waits for firings takes none of it.
//! * Nothing is read from a consumer whose answers have no place.
//! * A stream owns its claims. When it ends, however it ends, what is not settled goes back at once:
//!   uncounted if it was not written, as an attempt with an unknown outcome if it was
//!   ([`duly_node::Held`]). A store that is away for a moment ends no stream. A connection whose caller takes nothing ends by the rule of [`crate::http`]'s
//!   answers, and its streams with it.
//! * A stop hands out nothing more, takes verdicts for a moment, and ends the stream.

mod requests;
mod session;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use duly_api::v1;
use duly_core::{Code, Millis, error_code::Retry};
use duly_node::OnItsWay;
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tonic::{Request, Response, Status, Streaming};

use self::{requests::Requests, session::Session};
use crate::http::{App, Problem, budget::Share};

/// Streams of consumers at once.
pub(crate) const CONSUMERS_MAX: usize = 10_000;
/// Answers that wait for the connection: one with firings, one with results.
const PLACES: usize = 2;

type Answer = Result<v1::ConsumeResponse, Status>;

/// An answer that waits for the connection.
#[derive(Debug)]
struct Waiting {
    answer: Answer,
    /// The memory that it takes until it is asked for.
    share: Share,
    /// Of an answer with firings.
    way: Option<OnItsWay>,
}

/// The answers with firings that were asked for and are not written yet; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked(Arc<Mutex<Vec<OnItsWay>>>);

impl Asked {
    /// Takes them over; whoever does says when they are written.
    pub(super) fn take(&self) -> Vec<OnItsWay> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// All consumers of a server.
#[derive(Debug)]
pub(super) struct Consumers {
    app: App,
    places: Arc<Semaphore>,
}

/// What one of them hears.
#[derive(Debug)]
pub(super) struct Answers {
    answered: mpsc::Receiver<Waiting>,
    asked: Asked,
}

impl Consumers {
    /// None yet.
    pub(super) fn new(app: App) -> Self {
        Self { app, places: Arc::new(Semaphore::new(CONSUMERS_MAX)) }
    }

    /// Begins a stream.
    pub(super) fn begin(
        &self,
        requests: Request<Streaming<v1::ConsumeRequest>>,
    ) -> Result<Response<Answers>, Problem> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let detail = format!(
                "{CONSUMERS_MAX} consumers are connected already, as many as may: come again, or \
                 consume on fewer streams"
            );
            return Err(Problem::new(Code::ResourceExhausted, detail)
                .with_retry(Retry::After(Millis::from_secs(1))));
        };
        let requests = Requests::new(requests);
        let (answers, answered) = mpsc::channel(PLACES);
        let app = self.app.clone();
        let share = app.budget().share();
        tokio::spawn(async move {
            let gone = answers.clone();
            tokio::select! {
                // Claims go back as the session is dropped.
                () = gone.closed() => {}
                ended = Session::run(app, requests, answers) => if let Err(status) = ended {
                    gone.send(Waiting { answer: Err(status), share, way: None }).await.ok();
                },
            }
            drop(place);
        });
        let asked = Asked::default();
        let mut response = Response::new(Answers { answered, asked: asked.clone() });
        response.extensions_mut().insert(asked);
        Ok(response)
    }
}

impl Stream for Answers {
    type Item = Answer;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.answered.poll_recv(context).map(|waiting| {
            // Whoever asks writes it out at once, and counts what comes of it.
            let Waiting { answer, share, way } = waiting?;
            drop(share);
            self.asked.0.lock().extend(way);
            Some(answer)
        })
    }
}

#[cfg(test)]
mod tests;
