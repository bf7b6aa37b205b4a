//! Prints the steps of a command as they run, with the time of each.
//!
//! For commands that take minutes: the log shows the current step and the time of each step. Steps run
//! one after the other; programs that run side by side are added when they have ended. The caller decides the effect of
//! a failed step.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::process;

/// The steps done so far.
pub(crate) struct Steps {
    started: Instant,
    /// Name, elapsed time and processor time.
    done: Vec<(String, Duration, Duration)>,
}

impl Default for Steps {
    fn default() -> Self {
        Self { started: Instant::now(), done: Vec::new() }
    }
}

impl Steps {
    /// Prints the name of a step, runs it, and prints its time.
    pub(crate) fn run<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("==> {name}");
        let (started, cpu_before) = (Instant::now(), process::cpu_of_children());
        let result = work();
        let took = started.elapsed();
        let cpu = process::cpu_of_children().saturating_sub(cpu_before);
        println!("<== {name}: {}", times(took, cpu));
        self.add(name, took, cpu);
        result
    }

    /// Adds a step that ran elsewhere, with the processor time of its programs.
    pub(crate) fn add(&mut self, name: &str, took: Duration, cpu: Duration) {
        self.done.push((name.to_owned(), took, cpu));
    }

    /// Prints all steps with their times, and the time since the first began.
    pub(crate) fn print_times(&self) {
        let cpu = self.done.iter().map(|(_, _, cpu)| *cpu).sum();
        println!("\n  elapsed    of CPU");
        let rows = self.done.iter().map(|(name, took, cpu)| (name.as_str(), *took, *cpu));
        for (name, took, cpu) in rows.chain([("total", self.started.elapsed(), cpu)]) {
            println!("{:>9} {:>9}  {name}", seconds(took), seconds(cpu));
        }
        println!();
    }
}

/// Returns the text of an elapsed time and of the processor time within it.
pub(crate) fn times(took: Duration, cpu: Duration) -> String {
    format!("{}, {} of CPU", seconds(took), seconds(cpu))
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
        let names: Vec<_> = steps.done.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["seven", "broken"]);
    }

    #[test]
    fn times_are_shown_in_tenths() {
        let (took, cpu) = (Duration::from_millis(12_345), Duration::from_secs(2));
        assert_eq!(times(took, cpu), "12.3 s, 2.0 s of CPU");
    }
}
