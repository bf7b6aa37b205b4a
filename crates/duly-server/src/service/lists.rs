//! Pages of lists.

use duly_api::{
    Timer, View,
    number::within,
    timer::{PAGE_DEFAULT, ScheduleMark},
};
use duly_core::{Invalid, access::Action};
use duly_store::{TimerView, query::PAGE_MAX};

use super::Admitted;
use crate::problem::Problem;

/// Returns the most timers of a page.
pub(crate) fn page_limit(limit: Option<u32>) -> Result<usize, Invalid> {
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

/// Returns a timer of a list.
pub(crate) fn shown(timer: &TimerView, view: View) -> Timer {
    match view {
        View::Summary => Timer::summary(timer, ScheduleMark::None),
        View::Full | View::Unspecified => Timer::new(timer, ScheduleMark::None),
    }
}

/// Returns the view of a list that the caller may read. One who may not read payloads gets a summary, unless
/// it asks for more.
pub(crate) fn list_view(admitted: &Admitted, wanted: Option<View>) -> Result<View, Problem> {
    match wanted {
        Some(View::Summary) => Ok(View::Summary),
        None if !admitted.caller().permits(Action::Payload) => Ok(View::Summary),
        Some(View::Full | View::Unspecified) | None => {
            admitted.check(Action::Payload).map(|()| View::Full)
        }
    }
}
