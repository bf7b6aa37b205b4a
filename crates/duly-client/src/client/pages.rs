//! Paging: a list as a stream.

use std::{collections::VecDeque, future::Future};

use futures::stream;

use crate::{error::Result, list::Listing};

/// A page: its items, and the request for the next one.
pub(super) struct Page<Q, T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<Q>,
}

/// The state of a list that is being read.
struct Pages<Q, T, F> {
    /// The rest of the current page.
    items: VecDeque<T>,
    /// The request for the next page; none after the last.
    next: Option<Q>,
    read_page: F,
}

/// Lists the items of all pages, from the first request on. Holds one page in memory at a time.
pub(super) fn listing<Q, T, F, Fut>(first: Result<Q>, read_page: F) -> Listing<T>
where
    Q: Send + 'static,
    T: Send + 'static,
    F: Fn(Q) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Page<Q, T>>> + Send,
{
    let state = first.map(|first| Pages { items: VecDeque::new(), next: Some(first), read_page });
    Listing::new(stream::unfold(Some(state), move |pages| async move {
        let mut pages = match pages? {
            Ok(pages) => pages,
            Err(error) => return Some((Err(error), None)),
        };
        loop {
            if let Some(item) = pages.items.pop_front() {
                return Some((Ok(item), Some(Ok(pages))));
            }
            // An empty page is not necessarily the last one.
            match (pages.read_page)(pages.next.take()?).await {
                Ok(page) => (pages.items, pages.next) = (page.items.into(), page.next),
                Err(error) => return Some((Err(error), None)),
            }
        }
    }))
}
