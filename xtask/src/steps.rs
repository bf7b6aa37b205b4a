//! Prints the steps of a command as they run, with the time of each.
//!
//! For commands that take minutes: the log shows the current step and the time of each step. Steps run
//! one after the other. The caller decides the effect of a failed step.

use std::time::{Duration, Instant};

use anyhow::Result;

/// The steps done so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// Prints the name of a step, runs it, and prints its time.
    pub(crate) fn run<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("==> {name}");
        let started = Instant::now();
        let result = work();
        let took = started.elapsed();
        println!("<== {name}: {}", seconds(took));
        self.done.push((name.to_owned(), took));
        result
    }

    /// Prints all steps with their times, and the sum.
    pub(crate) fn print_times(&self) {
        let total = self.done.iter().map(|(_, took)| *took).sum();
        let rows = self.done.iter().map(|(name, took)| (name.as_str(), *took));
        println!();
        for (name, took) in rows.chain([("total", total)]) {
            println!("{:>9}  {name}", seconds(took));
        }
        println!();
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_kept_with_its_result() {
        let mut steps = Steps::default();
        assert_eq!(steps.run("seven", || Ok(7)).unwrap(), 7);
        assert!(steps.run::<()>("broken", || anyhow::bail!("no")).is_err());
        let names: Vec<_> = steps.done.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["seven", "broken"]);
    }

    #[test]
    fn times_are_shown_in_tenths() {
        assert_eq!(seconds(Duration::from_millis(12_345)), "12.3 s");
    }
}
