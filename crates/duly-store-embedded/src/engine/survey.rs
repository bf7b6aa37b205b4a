//! Surveys: walks over the pending timers of one namespace for whoever asks what lies ahead, that is
//! for forecasts and for the `next_due_at` of stats.
//!
//! ```text
//!   ask ──► queue of surveys ──► a few tables of one, a few of the next, … ──► answers
//!            (one namespace each)           (every step)
//! ```
//!
//! Who asks for a namespace whose survey has not begun yet joins it, so that a crowd costs one walk;
//! equal forecasts share one count. A namespace of a few tables is done within one step, so its
//! answer is of one moment; a larger one is seen as it goes by. Called by the store (`ask`) and by
//! the tick (`survey`); it changes nothing.
//!
//! Invariants: a step looks at no more than [`LOOKS_PER_STEP`] entries for one count (twice as many
//! counts, half as many entries), but for the rest of the table that it is in; a timer that does not
//! change during the walk is counted exactly once.

use duly_core::{Millis, NamespaceName};
use duly_store::{Error, Forecast, ForecastRequest, Result, Stats};
use tokio::sync::oneshot::Sender;

use crate::index::{Cursor, Entry, Flags, Key, Kind, Scan};

use super::{Engine, HeldBack};
use tally::{Earliest, Moment, Wanted};

mod tally;

/// Entries that one step looks at, for a single count.
pub(super) const LOOKS_PER_STEP: usize = 32_768;
/// What a look at a namespace costs besides its entries, in looks.
const NAMESPACE_LOOKS: usize = 64;
/// Different counts that one survey makes.
const COUNTS_MAX: usize = 8;
/// Surveys that wait or are under way.
const SURVEYS_MAX: usize = 1_024;
/// Who may wait for them, all together.
const ASKERS_MAX: usize = 4_096;

/// What is asked, and who waits for the answer.
#[derive(Debug)]
pub(crate) enum Question {
    Stats(Sender<Result<Option<Stats>>>),
    Forecast(ForecastRequest, Sender<Result<Option<Forecast>>>),
}

impl Question {
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

/// The surveys that wait or are under way, the next one in front.
#[derive(Debug, Default)]
pub(super) struct Surveys {
    queue: std::collections::VecDeque<Survey>,
    /// Entries looked at in the last step.
    #[cfg(test)]
    pub(super) looked: usize,
}

/// A walk over one namespace.
#[derive(Debug)]
struct Survey {
    number: u32,
    /// When it began; its counts are as seen from then.
    began: Option<Moment>,
    cursor: Option<Cursor>,
    /// How far the retries that are held back were looked through.
    held_from: Option<HeldBack>,
    /// Retries that are due by the steady clock and that no lane counts: some may be held back.
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

    /// Takes a question on, if there is room for it; hands it back otherwise.
    fn join(&mut self, question: Question) -> Option<Question> {
        match question {
            Question::Stats(reply) => self.stats.push(reply),
            Question::Forecast(request, reply) => {
                let known = self.forecasts.iter().position(|wanted| wanted.request == request);
                match known {
                    Some(known) => self.forecasts[known].replies.push(reply),
                    None if self.forecasts.len() < COUNTS_MAX => {
                        self.forecasts.push(Wanted::new(request, reply));
                    }
                    None => return Some(Question::Forecast(request, reply)),
                }
            }
        }
        None
    }

    fn askers(&self) -> usize {
        let forecasts = self.forecasts.iter().map(|wanted| wanted.replies.len());
        self.stats.len() + forecasts.sum::<usize>()
    }

    /// Lets go of those who do not listen any more; answers whether anybody does.
    fn is_wanted(&mut self) -> bool {
        self.stats.retain(|reply| !reply.is_closed());
        for wanted in &mut self.forecasts {
            wanted.replies.retain(|reply| !reply.is_closed());
        }
        self.forecasts.retain(|wanted| !wanted.replies.is_empty());
        self.askers() > 0
    }

    /// Looks for each entry: one for each count.
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

    /// Counts a retry that is held back where it is claimable: it was taken for overdue.
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
    /// Has a question about a namespace answered in one of the next steps.
    pub(crate) fn ask(&mut self, name: &NamespaceName, mut question: Question) {
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

    /// Whether somebody waits for a survey.
    pub(crate) fn is_surveying(&self) -> bool {
        !self.surveys.queue.is_empty()
    }

    /// One step of the surveys: the tick's.
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

    /// Walks on; answers whether everything was seen.
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

    /// Finds the namespace's retries that a step back of the wall clock put off; answers whether all
    /// were looked through.
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
            // One that is held back waits for the time that it was offered with.
            let is_held = entry.claimable().kind == Kind::Retry && at <= now.wall_ms;
            (!entry.flags().has(Flags::LEASED)).then_some(if is_held { at_ms } else { at })
        });
        let stats = self.counts_of(survey.number).map(|stats| Stats { next_due_at, ..stats });
        for reply in survey.stats {
            drop(reply.send(Ok(stats.clone())));
        }
    }

    /// Nothing more is answered.
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
