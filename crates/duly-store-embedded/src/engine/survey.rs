//! Async counts: walks over the pending timers of one namespace, for forecasts and for the `next_due_at`
//! of stats.
//!
//! ```text
//!   ask ──► queue of counts ──► a few tables of one, a few of the next, … ──► replies
//!            (one namespace each)          (every step)
//! ```
//!
//! How it works:
//!
//! 1. A call for a namespace whose walk has not begun yet joins it, so that many calls cost one walk.
//!    Equal forecasts share one count.
//! 2. A namespace of a few tables is done within one step, so its result is of one moment. A larger one
//!    may change during the walk.
//! 3. The store calls `ask`, and the tick calls `survey`. Both change no timer.
//!
//! What must stay true:
//!
//! 1. A step visits at most [`LOOKS_PER_STEP`] entries for one count, plus the rest of the current table.
//!    With twice as many counts it visits half as many entries.
//! 2. A timer that does not change during the walk is counted exactly once.

use duly_core::{Millis, NamespaceName};
use duly_store::{Error, Forecast, ForecastRequest, Result, Stats};
use tokio::sync::oneshot::Sender;

use crate::index::{Cursor, Entry, Flags, Key, Kind, Scan};

use super::{Engine, HeldBack};
use tally::{Earliest, Moment, Wanted};

mod tally;

/// Entries that one step visits, for a single count.
pub(super) const LOOKS_PER_STEP: usize = 32_768;
/// Cost of a namespace besides its entries, in entries.
const NAMESPACE_LOOKS: usize = 64;
/// Different counts that one walk makes.
const COUNTS_MAX: usize = 8;
/// Walks that wait or are under way.
const SURVEYS_MAX: usize = 1_024;
/// Calls that may wait for all walks together.
const ASKERS_MAX: usize = 4_096;

/// A question, and the channel of its reply.
#[derive(Debug)]
pub(crate) enum CountQuestion {
    Stats(Sender<Result<Option<Stats>>>),
    Forecast(ForecastRequest, Sender<Result<Option<Forecast>>>),
}

impl CountQuestion {
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Self::Stats(reply) => drop(reply.send(Err(error))),
            Self::Forecast(_, reply) => drop(reply.send(Err(error))),
        }
    }

    fn answer_nothing(self) {
        match self {
            Self::Stats(reply) => drop(reply.send(Ok(None))),
            Self::Forecast(_, reply) => drop(reply.send(Ok(None))),
        }
    }
}

/// The walks that wait or are under way, the next one in front.
#[derive(Debug, Default)]
pub(super) struct Surveys {
    queue: std::collections::VecDeque<Survey>,
    /// Entries visited in the last step.
    #[cfg(test)]
    pub(super) looked: usize,
}

/// A walk over one namespace.
#[derive(Debug)]
struct Survey {
    number: u32,
    /// Time at which it began, and to which its counts refer.
    began: Option<Moment>,
    cursor: Option<Cursor>,
    /// Place among the deferred retries.
    held_from: Option<HeldBack>,
    /// Number of retries that are due by the steady clock and counted in no lane: some may be deferred.
    unsurfaced: u64,
    in_flight: u64,
    earliest: Earliest,
    stats: Vec<Sender<Result<Option<Stats>>>>,
    forecasts: Vec<Wanted>,
}

impl Survey {
    fn new(number: u32) -> Self {
        Self {
            number,
            began: None,
            cursor: Some(Cursor::START),
            held_from: None,
            unsurfaced: 0,
            in_flight: 0,
            earliest: Earliest::default(),
            stats: Vec::new(),
            forecasts: Vec::new(),
        }
    }

    /// Adds a question. Returns it if there is no capacity for it.
    fn join(&mut self, question: CountQuestion) -> Option<CountQuestion> {
        match question {
            CountQuestion::Stats(reply) => self.stats.push(reply),
            CountQuestion::Forecast(request, reply) => {
                let known = self.forecasts.iter().position(|wanted| wanted.request == request);
                match known {
                    Some(known) => self.forecasts[known].replies.push(reply),
                    None if self.forecasts.len() < COUNTS_MAX => {
                        self.forecasts.push(Wanted::new(request, reply));
                    }
                    None => return Some(CountQuestion::Forecast(request, reply)),
                }
            }
        }
        None
    }

    fn askers(&self) -> usize {
        let forecasts = self.forecasts.iter().map(|wanted| wanted.replies.len());
        self.stats.len() + forecasts.sum::<usize>()
    }

    /// Drops the callers that have gone. Returns `true` if any is left.
    fn is_wanted(&mut self) -> bool {
        self.stats.retain(|reply| !reply.is_closed());
        for wanted in &mut self.forecasts {
            wanted.replies.retain(|reply| !reply.is_closed());
        }
        self.forecasts.retain(|wanted| !wanted.replies.is_empty());
        self.askers() > 0
    }

    /// Returns the cost of each entry: one for each count.
    fn counts(&self) -> usize {
        (usize::from(!self.stats.is_empty()) + self.forecasts.len()).max(1)
    }

    fn look_at(&mut self, moment: Moment, entry: &Entry) {
        let (flags, claimable) = (entry.flags(), entry.claimable());
        if flags.has(Flags::LEASED) {
            self.in_flight += 1;
            return;
        }
        let at_ms = moment.wall_ms_of(claimable);
        self.forecasts.iter_mut().for_each(|wanted| wanted.count(moment, at_ms));
        if at_ms > moment.wall_ms {
            if !self.stats.is_empty() {
                self.earliest.offer(at_ms, entry.key(self.number).pack());
            }
        } else if claimable.kind == Kind::Retry && !flags.has(Flags::SURFACED) {
            self.unsurfaced += 1;
        }
    }

    /// Moves a deferred retry to the time at which it is claimable: it was counted as overdue.
    fn move_held(&mut self, moment: Moment, held: HeldBack) {
        if self.unsurfaced == 0 {
            return;
        }
        self.unsurfaced -= 1;
        self.earliest.offer(held.due_ms, held.key);
        self.forecasts.iter_mut().for_each(|wanted| wanted.recount(moment, held.due_ms));
    }
}

impl Engine {
    /// Adds a question about a namespace. One of the next steps sends the reply.
    pub(crate) fn ask(&mut self, name: &NamespaceName, mut question: CountQuestion) {
        let Some(number) = self.namespaces.number_of(name) else {
            question.answer_nothing();
            return;
        };
        self.busy = true;
        let queue = &mut self.surveys.queue;
        if queue.iter().map(Survey::askers).sum::<usize>() >= ASKERS_MAX {
            question.refuse(crowded(ASKERS_MAX, "questions"));
            return;
        }
        for survey in queue.iter_mut().filter(|survey| survey.number == number) {
            if survey.began.is_none() {
                match survey.join(question) {
                    None => return,
                    Some(back) => question = back,
                }
            }
        }
        if queue.len() >= SURVEYS_MAX {
            question.refuse(crowded(SURVEYS_MAX, "walks over namespaces"));
            return;
        }
        let mut survey = Survey::new(number);
        let back = survey.join(question);
        debug_assert!(back.is_none(), "a survey that nobody joined yet has room");
        queue.push_back(survey);
    }

    /// Returns `true` if a call waits for a walk.
    pub(crate) fn is_surveying(&self) -> bool {
        !self.surveys.queue.is_empty()
    }

    /// Runs one step of the walks; called by the tick.
    pub(super) fn survey(&mut self) {
        let mut looks = 0;
        while looks < LOOKS_PER_STEP
            && let Some(mut survey) = self.surveys.queue.pop_front()
        {
            if !survey.is_wanted() {
                continue;
            }
            looks += NAMESPACE_LOOKS;
            if self.namespaces.get(survey.number).is_none() {
                survey.stats.drain(..).for_each(|reply| drop(reply.send(Ok(None))));
                survey.forecasts.drain(..).for_each(Wanted::answer_nothing);
            } else if self.survey_on(&mut survey, &mut looks) {
                self.end_survey(survey);
            } else {
                self.surveys.queue.push_back(survey);
            }
        }
        #[cfg(test)]
        {
            self.surveys.looked = looks;
        }
        self.busy |= self.is_surveying();
    }

    /// Continues a walk. Returns `true` if it is complete.
    fn survey_on(&self, survey: &mut Survey, looks: &mut usize) -> bool {
        let now = Moment { wall_ms: self.now.wall_ms, steady_ms: self.now.steady_ms };
        let moment = *survey.began.get_or_insert(now);
        let counts = survey.counts();
        while let Some(from) = survey.cursor {
            if *looks >= LOOKS_PER_STEP {
                return false;
            }
            let namespace = self.namespaces.get(survey.number);
            let scan = namespace.and_then(|namespace| namespace.live.scan(from));
            survey.cursor = scan.as_ref().and_then(|scan| scan.next);
            for entry in scan.iter().flat_map(Scan::entries) {
                survey.look_at(moment, &entry);
                *looks += counts;
            }
        }
        self.look_through_held(survey, moment, looks)
    }

    /// Finds the namespace's retries that a step back of the wall clock deferred. Returns `true` if all
    /// were visited.
    fn look_through_held(&self, survey: &mut Survey, moment: Moment, looks: &mut usize) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        if survey.unsurfaced == 0 {
            return true;
        }
        let from = survey.held_from.map_or(Unbounded, Excluded);
        for held in self.held_back.range((from, Unbounded)) {
            if *looks >= LOOKS_PER_STEP {
                return false;
            }
            *looks += 1;
            survey.held_from = Some(*held);
            if self.is_held_back(survey.number, held) {
                survey.move_held(moment, *held);
            }
        }
        true
    }

    fn is_held_back(&self, number: u32, held: &HeldBack) -> bool {
        let key = Key::unpack(held.key);
        let entry = if key.namespace() == number { self.namespaces.live(key) } else { None };
        entry.is_some_and(|entry| {
            let (flags, claimable) = (entry.flags(), entry.claimable());
            let waits = !flags.has(Flags::LEASED) && !flags.has(Flags::SURFACED);
            waits && claimable.kind == Kind::Retry && claimable.at_ms == held.at_ms
        })
    }

    fn end_survey(&self, survey: Survey) {
        let moment = survey.began.expect("it has walked");
        for wanted in survey.forecasts {
            wanted.answer(moment, survey.in_flight);
        }
        if survey.stats.is_empty() {
            return;
        }
        let next_due_at = survey.earliest.first(self.now.wall_ms, |at_ms, key| {
            let key = Key::unpack(key);
            let entry = self.namespaces.live(key)?;
            let now = Moment { wall_ms: self.now.wall_ms, steady_ms: self.now.steady_ms };
            let at = now.wall_ms_of(entry.claimable());
            // A deferred retry waits for the time that it was offered with.
            let is_held = entry.claimable().kind == Kind::Retry && at <= now.wall_ms;
            (!entry.flags().has(Flags::LEASED)).then_some(if is_held { at_ms } else { at })
        });
        let stats = self.counts_of(survey.number).map(|stats| Stats { next_due_at, ..stats });
        for reply in survey.stats {
            drop(reply.send(Ok(stats.clone())));
        }
    }

    /// Fails all questions.
    pub(super) fn fail_surveys(&mut self, error: &Error) {
        for survey in self.surveys.queue.drain(..) {
            for reply in survey.stats {
                drop(reply.send(Err(error.clone())));
            }
            survey.forecasts.into_iter().for_each(|wanted| wanted.refuse(error));
        }
    }
}

fn crowded(max: usize, what: &str) -> Error {
    Error::Overloaded {
        reason: format!("{max} {what} for stats and forecasts wait already; ask again later"),
        retry_after: Millis::from_secs(1),
    }
}

#[cfg(test)]
mod tests;
