//! Detection of the store's background work from outside. The store writes checkpoints, sorted runs
//! and spare segments under temporary names, and a thread polls for these names.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Time between two polls.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Background work that can be detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Checkpoint,
    /// A sorted run that the rewriter writes: from old segments, or merged from sparse sorted runs.
    Run,
    Spare,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Checkpoint, Self::Run, Self::Spare];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint is written",
            Self::Run => "run is written (rewrite, merge)",
            Self::Spare => "spare segment is written",
        }
    }

    fn is_under_way(self, store: &Path) -> bool {
        let has_temporary = |folder: &str| {
            let files = fs::read_dir(store.join(folder));
            let mut names = files.into_iter().flatten().flatten().map(|file| file.file_name());
            names.any(|name| name.to_string_lossy().ends_with(".tmp"))
        };
        match self {
            Self::Checkpoint => has_temporary("checkpoints"),
            Self::Run => has_temporary("runs"),
            Self::Spare => store.join("journal/spare.tmp").exists(),
        }
    }
}

/// The background work of a measurement, with its times.
#[derive(Debug, Default)]
pub(super) struct Background(Vec<(Kind, Duration)>);

impl Background {
    /// Polls until `stop` is set; times count from the call.
    pub(super) fn watch(store: &Path, stop: &AtomicBool) -> Self {
        let began = Instant::now();
        let mut seen = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let at = began.elapsed();
            let under_way = Kind::ALL.into_iter().filter(|kind| kind.is_under_way(store));
            seen.extend(under_way.map(|kind| (kind, at)));
            thread::sleep(LOOK_EVERY);
        }
        Self(seen)
    }

    /// Returns the intervals of one kind in seconds (start, end). Gaps of up to two polls are
    /// closed.
    pub(super) fn stretches(&self, kind: Kind) -> Vec<(f64, f64)> {
        let mut stretches: Vec<(f64, f64)> = Vec::new();
        for (_, at) in self.0.iter().filter(|(seen, _)| *seen == kind) {
            let from = at.as_secs_f64();
            let to = from + LOOK_EVERY.as_secs_f64();
            match stretches.last_mut() {
                Some((_, end)) if from <= *end + 2.0 * LOOK_EVERY.as_secs_f64() => *end = to,
                _ => stretches.push((from, to)),
            }
        }
        stretches
    }

    /// Returns `true` if this kind of work was seen in the interval of `seconds` seconds from
    /// `from` on.
    pub(super) fn went_on(&self, kind: Kind, from: f64, seconds: f64) -> bool {
        self.stretches(kind).iter().any(|&(begin, end)| begin < from + seconds && end > from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_stretches_of_work() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["journal", "runs", "checkpoints"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("runs/0000000000000019.tmp"), "").unwrap();
        fs::write(folder.path().join("checkpoints/0000000000000001.ckp"), "").unwrap();
        let seen = Kind::ALL.map(|kind| kind.is_under_way(folder.path()));
        assert_eq!(seen, [false, true, false]);
        let at = |ms| (Kind::Run, Duration::from_millis(ms));
        let background = Background(vec![at(100), at(120), at(140), at(500)]);
        assert_eq!(background.stretches(Kind::Run).len(), 2);
        assert!(background.stretches(Kind::Spare).is_empty());
        assert!(
            background.went_on(Kind::Run, 0.1, 0.1) && !background.went_on(Kind::Run, 0.2, 0.1)
        );
    }
}
