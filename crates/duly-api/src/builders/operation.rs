//! Operations of a batch.

use crate::{Cancel, Fire, Operation, Reschedule, Schedule};

impl Operation {
    /// Returns the operation that changes a pending timer.
    pub fn reschedule(id: impl Into<String>, change: Reschedule) -> Self {
        let reschedule = Some(Box::new(Reschedule { id: id.into(), ..change }));
        Self { reschedule, ..Self::default() }
    }

    /// Returns the operation that cancels a timer at any revision.
    pub fn cancel(id: impl Into<String>) -> Self {
        Self::from(Cancel { id: id.into(), if_revision: None })
    }

    /// Returns the operation that makes a timer or its next attempt due now.
    pub fn fire(id: impl Into<String>) -> Self {
        Self { fire: Some(Fire { id: id.into() }), ..Self::default() }
    }

    /// Returns the name of the operation: `schedule`, `cancel`, `reschedule` or `fire`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self { schedule: Some(_), .. } => "schedule",
            Self { cancel: Some(_), .. } => "cancel",
            Self { reschedule: Some(_), .. } => "reschedule",
            Self { fire: Some(_), .. } => "fire",
            Self { .. } => "",
        }
    }

    /// Returns the id of the timer; empty if a schedule leaves it to the server.
    pub fn timer_id(&self) -> &str {
        match self {
            Self { schedule: Some(schedule), .. } => schedule.id(),
            Self { cancel: Some(cancel), .. } => &cancel.id,
            Self { reschedule: Some(reschedule), .. } => &reschedule.id,
            Self { fire: Some(fire), .. } => &fire.id,
            Self { .. } => "",
        }
    }
}

impl From<Schedule> for Operation {
    fn from(schedule: Schedule) -> Self {
        Self { schedule: Some(Box::new(schedule)), ..Self::default() }
    }
}

impl From<Cancel> for Operation {
    fn from(cancel: Cancel) -> Self {
        Self { cancel: Some(cancel), ..Self::default() }
    }
}
