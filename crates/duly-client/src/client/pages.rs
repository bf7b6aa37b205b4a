//! Turning pages: a list as a stream.

use std::{collections::VecDeque, future::Future};

use futures::stream;

use crate::{error::Error, list::Listing};

/// A page: what it has, and the request for the next one.
pub(super) struct Page<Q, M> {
    pub(super) items: Vec<M>,
    pub(super) next: Option<Q>,
}

/// A list under way.
struct Pages<Q, M, F> {
    /// What is left of this page.
    items: VecDeque<M>,
    /// What asks for the next one; none after the last.
    next: Option<Q>,
    turn: F,
}

/// Lists what pages hold, from the first request on, one page in memory at a time.
pub(super) fn listing<Q, M, T, F, Fut>(
    first: Result<Q, Error>,
    turn: F,
    read: fn(M) -> Result<T, Error>,
) -> Listing<T>
where
    Q: Send + 'static,
    M: Send + 'static,
    T: Send + 'static,
    F: Fn(Q) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Page<Q, M>, Error>> + Send,
{
    let begun = first.map(|first| Pages { items: VecDeque::new(), next: Some(first), turn });
    Listing::new(stream::unfold(Some(begun), move |pages| async move {
        let mut pages = match pages? {
            Ok(pages) => pages,
            Err(error) => return Some((Err(error), None)),
        };
        loop {
            if let Some(item) = pages.items.pop_front() {
                return Some(match read(item) {
                    Ok(item) => (Ok(item), Some(Ok(pages))),
                    Err(error) => (Err(error), None),
                });
            }
            // A page may be empty and still not be the last.
            match (pages.turn)(pages.next.take()?).await {
                Ok(page) => (pages.items, pages.next) = (page.items.into(), page.next),
                Err(error) => return Some((Err(error), None)),
            }
        }
    }))
}
