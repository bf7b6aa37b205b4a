//! The messages of commits: a subject of at most [`SUBJECT_MAX`] characters, and a body with the reason where
//! more than [`LINES_MAX`] lines change. Commits before [`SINCE`] are not judged.

use anyhow::Result;

use super::Complaint;
use crate::process;

const SINCE: &str = "2026-11-24T09:00:00Z";
const SUBJECT_MAX: usize = 72;
const LINES_MAX: usize = 50;

/// Complains of each commit that breaks the rules.
pub(super) fn check() -> Result<Vec<Complaint>> {
    let since = format!("--since={SINCE}");
    let format = "--format=%x1e%h%x1f%s%x1f%b%x1f";
    Ok(check_log(&process::git(&["log", &since, "--no-merges", "--shortstat", format])?))
}

fn check_log(log: &str) -> Vec<Complaint> {
    log.split('\x1e').filter_map(check_commit).collect()
}

fn check_commit(commit: &str) -> Option<Complaint> {
    let mut fields = commit.split('\x1f').map(str::trim);
    let (hash, subject, body, stat) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let length = subject.chars().count();
    let text = if length > SUBJECT_MAX {
        format!("the subject has {length} characters, more than {SUBJECT_MAX}: {subject}")
    } else if body.is_empty() && lines(stat) > LINES_MAX {
        format!("{} lines change and no body gives the reason: {subject}", lines(stat))
    } else {
        return None;
    };
    Some(Complaint::about(&format!("commit {hash}"), text))
}

/// Returns the lines that were inserted and deleted: `3 files changed, 40 insertions(+), 2 deletions(-)`.
fn lines(stat: &str) -> usize {
    let counts = stat.split(", ").skip(1).filter_map(|part| part.split(' ').next());
    counts.filter_map(|count| count.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_short_and_bodies_give_reasons() {
        let stat = " 3 files changed, 40 insertions(+), 11 deletions(-)\n";
        for (subject, body, stat, count) in [
            ("Add a rule", "It was missing.\n", stat, 0),
            ("Add a rule", "", stat, 1),
            ("Add a rule", "", " 1 file changed, 50 insertions(+)\n", 0),
            (&*"a".repeat(73), "Why.\n", stat, 1),
        ] {
            let log = format!("\x1eabc\x1f{subject}\x1f{body}\x1f\n\n{stat}");
            assert_eq!(check_log(&log).len(), count, "{log}");
        }
    }
}
