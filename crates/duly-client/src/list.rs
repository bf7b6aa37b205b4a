//! Lists: a filter, and a stream that turns the pages by itself.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::SystemTime,
};

use duly_core::State;
use futures::{Stream, StreamExt, stream::BoxStream};

use crate::error::Error;

/// Which timers to list: those that match all that is given; all that are pending without any.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub(crate) state: Option<State>,
    pub(crate) due_from: Option<SystemTime>,
    pub(crate) due_to: Option<SystemTime>,
    pub(crate) id_prefix: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) page: Option<u32>,
}

impl Filter {
    /// Everything that is pending.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Timers in this state.
    #[must_use]
    pub const fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self
    }

    /// Due at or after this.
    #[must_use]
    pub const fn due_from(mut self, time: SystemTime) -> Self {
        self.due_from = Some(time);
        self
    }

    /// Due before this.
    #[must_use]
    pub const fn due_to(mut self, time: SystemTime) -> Self {
        self.due_to = Some(time);
        self
    }

    /// Whose id begins with this.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Which have this tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// How many timers a page has, 1 to 1000; that is how many are in memory at once.
    #[must_use]
    pub const fn page(mut self, timers: u32) -> Self {
        self.page = Some(timers);
        self
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Page<T> {
    /// What is on it. It may be short, even empty, and still not be the last.
    pub items: Vec<T>,
    /// Where the next page begins; nothing after the last.
    pub cursor: Option<String>,
    /// With a filter by tag or id prefix: timers that were looked at for this page, about.
    pub examined: Option<u64>,
    /// With such a filter: the due time up to which the list was looked through; nothing at the end.
    pub up_to: Option<SystemTime>,
}

/// What a list has, page by page: a stream that asks for the next page when the one before is used
/// up. After an error it ends.
pub struct Listing<T>(BoxStream<'static, Result<T, Error>>);

impl<T> Listing<T> {
    pub(crate) fn new(stream: impl Stream<Item = Result<T, Error>> + Send + 'static) -> Self {
        Self(stream.boxed())
    }

    /// The next one; nothing at the end. Nothing is lost when it is dropped while it waits.
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        StreamExt::next(&mut self.0).await
    }

    /// All of them, in memory.
    pub async fn all(mut self) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        while let Some(item) = self.next().await {
            all.push(item?);
        }
        Ok(all)
    }
}

impl<T> Stream for Listing<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl<T> std::fmt::Debug for Listing<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing").finish_non_exhaustive()
    }
}
