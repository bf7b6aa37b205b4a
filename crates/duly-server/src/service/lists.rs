//! Pages of lists, and their cursors: opaque texts that name a place in a list, bound to the filters of the list.
//!
//! A cursor is base64url of: version (1 byte), hash of the filters (8), count of items before (8), due time (8),
//! incarnation (8), occurrence (4), id; integers big endian. A cursor of another version or of other
//! filters is refused, so that a page is never silently wrong.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use duly_api::{
    Timer, View,
    number::within,
    timer::{CallEffect, PAGE_DEFAULT},
};
use duly_core::{Incarnation, Invalid, NamespaceName, State, TimerId, Timestamp, access::Action};
use duly_store::{
    TimerView,
    namespaces::Namespace,
    query::{ListRequest, ListState, PAGE_MAX, Position},
};
use xxhash_rust::xxh3::Xxh3Default;

use super::Admitted;
use crate::problem::Problem;

/// Version of the layout.
const VERSION: u8 = 1;
/// Bytes before the id.
const FIXED_BYTES: usize = 1 + 8 + 8 + 8 + 8 + 4;

/// Hash of a list's filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterHash(u64);

/// A place in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    filter: FilterHash,
    /// Items handled before, where the caller counts them.
    pub(crate) count: u64,
    /// The place.
    pub(crate) position: Position,
}

impl Cursor {
    /// Creates a cursor after `position`.
    pub(crate) const fn new(position: Position, filter: FilterHash) -> Self {
        Self { filter, count: 0, position }
    }

    /// Sets the count of items handled before.
    pub(crate) const fn with_count(mut self, count: u64) -> Self {
        self.count = count;
        self
    }

    /// Returns the hash of a request's filters; limit and position are not part of it.
    pub(crate) fn filter_of(request: &ListRequest) -> FilterHash {
        let mut hasher = Xxh3Default::new();
        let mut feed = |part: Option<&[u8]>| {
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            hasher.update(&length.to_be_bytes());
            hasher.update(part.unwrap_or_default());
        };
        let ms = |time: Option<Timestamp>| time.map(|time| time.unix_ms().to_be_bytes());
        let state = match request.state {
            ListState::Pending => "pending",
            ListState::Only(state) => state.as_str(),
        };
        feed(Some(request.namespace.as_str().as_bytes()));
        feed(Some(state.as_bytes()));
        feed(ms(request.due_from).as_ref().map(<[u8; 8]>::as_slice));
        feed(ms(request.due_to).as_ref().map(<[u8; 8]>::as_slice));
        feed(request.id_prefix.as_ref().map(String::as_bytes));
        feed(request.tag.as_ref().map(String::as_bytes));
        FilterHash(hasher.digest())
    }

    /// Reads a cursor of a list with these filters.
    pub(crate) fn parse(field: &str, text: &str, filter: FilterHash) -> Result<Self, Invalid> {
        let cursor = URL_SAFE_NO_PAD
            .decode(text)
            .ok()
            .and_then(|bytes| Self::decode(&bytes))
            .ok_or_else(|| Invalid::new(field, text, "the cursor of the page before"))?;
        if cursor.filter == filter {
            Ok(cursor)
        } else {
            let allowed = "used with the same filters as the page that it comes from";
            Err(Invalid::new(field, text, allowed))
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < FIXED_BYTES || bytes[0] != VERSION {
            return None;
        }
        let number = |from: usize| {
            let eight = bytes[from..from + 8].try_into().ok()?;
            Some(u64::from_be_bytes(eight))
        };
        Some(Self {
            filter: FilterHash(number(1)?),
            count: number(9)?,
            position: Position {
                due_at: Timestamp::from_unix_ms(number(17)?)?,
                incarnation: Incarnation(number(25)?),
                occurrence: u32::from_be_bytes(bytes[33..FIXED_BYTES].try_into().ok()?),
                id: TimerId::new(std::str::from_utf8(&bytes[FIXED_BYTES..]).ok()?).ok()?,
            },
        })
    }
}

/// Returns the most timers of a page.
pub(super) fn page_limit(limit: Option<u32>) -> Result<usize, Invalid> {
    let limit = usize::try_from(limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    within("limit", limit, 1, PAGE_MAX)
}

/// Returns the first items of a list, as many as a page has, and `true` if the list has more.
pub(crate) fn first_page<T>(items: impl Iterator<Item = T>, limit: usize) -> (Vec<T>, bool) {
    let mut page: Vec<_> = items.take(limit + 1).collect();
    let has_more = page.len() > limit;
    page.truncate(limit);
    (page, has_more)
}

/// A list as a front has read it: each field, or the reason why it cannot be read.
#[derive(Debug)]
pub(crate) struct ListFields<'f> {
    pub(crate) state: Result<ListState, Invalid>,
    pub(crate) due_from: Result<Option<Timestamp>, Invalid>,
    pub(crate) due_to: Result<Option<Timestamp>, Invalid>,
    pub(crate) id_prefix: Option<&'f str>,
    pub(crate) tag: Option<&'f str>,
    pub(crate) limit: Result<Option<u32>, Invalid>,
    pub(crate) view: Result<Option<View>, Invalid>,
    pub(crate) cursor: Option<&'f str>,
}

/// A checked list.
#[derive(Debug)]
pub(crate) struct ListCall {
    pub(crate) request: ListRequest,
    pub(crate) filter: FilterHash,
    pub(crate) view: PermittedView,
}

/// A checked export. Its first page has the namespace.
#[derive(Debug)]
pub(crate) struct ExportCall {
    pub(crate) request: ListRequest,
    pub(crate) filter: FilterHash,
    pub(crate) namespace: Option<Namespace>,
}

/// A view that the caller may read. Only [`Admitted::list_call`] makes one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PermittedView(View);

impl Admitted {
    /// Checks a list: the fields in their order, the right to the view, and the cursor, which needs all filters.
    pub(crate) fn list_call(
        &self,
        namespace: NamespaceName,
        fields: ListFields<'_>,
    ) -> Result<ListCall, Problem> {
        let list = ListRequest::new(namespace, fields.state?);
        let mut request = ListRequest {
            due_from: fields.due_from?,
            due_to: fields.due_to?,
            id_prefix: fields.id_prefix.map(str::to_owned),
            tag: fields.tag.map(str::to_owned),
            limit: page_limit(fields.limit?)?,
            ..list
        };
        let view = PermittedView(list_view(self, fields.view?)?);
        let filter = apply_cursor(&mut request, fields.cursor)?;
        Ok(ListCall { request, filter, view })
    }

    /// Checks an export of pending timers or of dead letters: tombstones have no transport form.
    pub(crate) async fn export_call(
        &self,
        name: NamespaceName,
        state: Option<&str>,
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<ExportCall, Problem> {
        let state = match state {
            None | Some("pending") => ListState::Pending,
            Some("dead") => ListState::Only(State::Dead),
            Some(other) => return Err(Invalid::new("state", other, "pending or dead").into()),
        };
        let mut request = ListRequest::new(name.clone(), state);
        request.limit = page_limit(limit.or(u32::try_from(PAGE_MAX).ok()))?;
        let filter = apply_cursor(&mut request, cursor)?;
        let namespace = match request.after {
            Some(_) => None,
            None => Some(self.present_namespace(name).await?),
        };
        Ok(ExportCall { request, filter, namespace })
    }
}

/// Returns a timer of a list.
pub(crate) fn shown(timer: &TimerView, PermittedView(view): PermittedView) -> Timer {
    match view {
        View::Summary => Timer::summary(timer, CallEffect::Plain),
        View::Full | View::Unspecified => Timer::new(timer, CallEffect::Plain),
    }
}

/// Returns the view of a list that the caller may read. One who may not read payloads gets a summary, unless
/// it asks for more.
fn list_view(admitted: &Admitted, wanted: Option<View>) -> Result<View, Problem> {
    match wanted {
        Some(View::Summary) => Ok(View::Summary),
        None if !admitted.caller().permits(Action::Payload) => Ok(View::Summary),
        Some(View::Full | View::Unspecified) | None => {
            admitted.check(Action::Payload).map(|()| View::Full)
        }
    }
}

/// Sets the position of a cursor in a request whose filters are complete.
pub(super) fn apply_cursor(
    request: &mut ListRequest,
    cursor: Option<&str>,
) -> Result<FilterHash, Invalid> {
    let filter = Cursor::filter_of(request);
    if let Some(text) = cursor {
        request.after = Some(Cursor::parse("cursor", text, filter)?.position);
    }
    Ok(filter)
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = &self.position;
        let mut bytes = Vec::with_capacity(FIXED_BYTES + position.id.as_str().len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.filter.0.to_be_bytes());
        bytes.extend_from_slice(&self.count.to_be_bytes());
        bytes.extend_from_slice(&position.due_at.unix_ms().to_be_bytes());
        bytes.extend_from_slice(&position.incarnation.0.to_be_bytes());
        bytes.extend_from_slice(&position.occurrence.to_be_bytes());
        bytes.extend_from_slice(position.id.as_str().as_bytes());
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use duly_core::NamespaceName;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn request() -> ListRequest {
        ListRequest {
            limit: 10,
            ..ListRequest::new(NamespaceName::new("a").unwrap(), ListState::Pending)
        }
    }

    #[test]
    fn round_trips_and_is_bound_to_its_filters() {
        let filter = Cursor::filter_of(&request());
        let position = Position {
            due_at: Timestamp::from_unix_ms(7).unwrap(),
            id: TimerId::new("ä/%").unwrap(),
            incarnation: Incarnation(u64::MAX),
            occurrence: 3,
        };
        let cursor = Cursor::new(position, filter).with_count(9);
        let text = cursor.to_string();
        assert_eq!(Cursor::parse("cursor", &text, filter), Ok(cursor));
        let mut other = request();
        other.tag = Some("x".into());
        let refused = Cursor::parse("cursor", &text, Cursor::filter_of(&other)).unwrap_err();
        assert!(refused.allowed.contains("same filters"), "{refused}");
        let mut wider = request();
        wider.limit = 500;
        assert_eq!(Cursor::filter_of(&wider), filter);
    }

    /// `DULY_FUZZ_SEED` and `DULY_FUZZ_SEEDS` repeat one seed or try many.
    #[test]
    fn damaged_cursors_are_refused_or_round_trip() {
        let number = |variable: &str, default: u64| {
            std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
        };
        let first = number("DULY_FUZZ_SEED", 1);
        let filter = Cursor::filter_of(&request());
        for seed in first..first + number("DULY_FUZZ_SEEDS", 2_000) {
            let mut random = StdRng::seed_from_u64(seed);
            let position = Position {
                due_at: Timestamp::saturating_from_unix_ms(random.random()),
                id: TimerId::new("abc").unwrap(),
                incarnation: Incarnation(random.random()),
                occurrence: random.random(),
            };
            let text = Cursor::new(position, filter).to_string();
            assert!(Cursor::parse("cursor", &text, filter).is_ok(), "seed {seed}");
            let mut bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
            // Only bytes after the filter are damaged: a damaged filter would be refused.
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(9..bytes.len());
                match random.random_range(0..4) {
                    0 => bytes[at] ^= 1 << random.random_range(0..8),
                    1 => bytes[at..].fill(0xff),
                    2 => bytes.insert(at, random.random()),
                    _ if bytes.len() > 12 => bytes.truncate(at.max(11)),
                    _ => {}
                }
            }
            let damaged = URL_SAFE_NO_PAD.encode(&bytes);
            if let Ok(cursor) = Cursor::parse("cursor", &damaged, filter) {
                assert_eq!(
                    cursor.to_string(),
                    damaged,
                    "repeat with: DULY_FUZZ_SEED={seed} DULY_FUZZ_SEEDS=1 cargo test -p \
                     duly-server --lib cursor"
                );
            }
        }
    }

    #[test]
    fn junk_is_refused() {
        let filter = Cursor::filter_of(&request());
        let junk = URL_SAFE_NO_PAD.encode([2; 60]);
        for text in ["", "!", "AAAA", &junk, &"A".repeat(60)] {
            assert!(Cursor::parse("cursor", text, filter).is_err(), "{text}");
        }
    }
}
