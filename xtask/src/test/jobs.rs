//! Runs programs side by side, and shows the output of each as a whole.
//!
//! 1. Most tests wait for a server, a timer or a disk, so more programs run at once than the machine has cores.
//! 2. The output of a program goes into a file below `target/test`, and is printed when the program has ended. A file
//!    ends with its program. A pipe would not: a failed test can leave a server behind that holds it open.
//! 3. While nothing ends, a line from time to time names the programs that run. A program that runs too long is killed,
//!    and has failed.
//! 4. The caller shows the end of the output of a failed program again, behind all others: there a reader looks first.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::tally::Tally;
use crate::process;
use crate::steps;

/// The folder with the output of the programs that run.
const FOLDER: &str = "target/test";
/// Time between two looks at the programs.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time without an end after which a line names the programs that run.
const SILENCE: Duration = Duration::from_secs(30);
/// Time after which a program is killed: several times what the slowest takes on a slow machine.
const LONGEST: Duration = Duration::from_mins(40);
/// Lines of a failed program that are shown again.
const LINES_AGAIN: usize = 60;

/// A program to run.
pub(super) struct Job {
    /// Its name in the output and in the table of times.
    pub(super) name: String,
    /// The program with its arguments; its output is redirected.
    pub(super) command: Command,
    pub(super) verdict: Verdict,
}

/// The way in which a program tells its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// By the lines of the test harness. A program that ends without one has failed.
    Harness,
    /// By its exit code. It counts as one test.
    ExitCode,
}

/// A program that runs.
struct Running {
    name: String,
    child: Child,
    verdict: Verdict,
    output: PathBuf,
    started: Instant,
    is_killed: bool,
}

/// A job that has ended.
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) took: Duration,
    /// Processor time of the program and of those that it waited for.
    pub(super) cpu: Duration,
    pub(super) tally: Tally,
    /// The last lines of the output; empty if nothing failed.
    pub(super) last_lines: String,
}

/// Runs all jobs, at most `at_once` at the same time, in the order of the list.
pub(super) fn run(jobs: Vec<Job>, at_once: usize) -> Result<Vec<Ended>> {
    run_within(LONGEST, jobs, at_once)
}

fn run_within(longest: Duration, jobs: Vec<Job>, at_once: usize) -> Result<Vec<Ended>> {
    let mut waiting = jobs.into_iter();
    let mut running: Vec<Running> = Vec::new();
    let mut ended = Vec::new();
    let mut last_line = Instant::now();
    loop {
        while running.len() < at_once
            && let Some(job) = waiting.next()
        {
            let name = job.name.clone();
            match job.start() {
                Ok(job) => running.push(job),
                Err(error) => ended.push(Ended::failed(name, &error)),
            }
        }
        if running.is_empty() {
            return Ok(ended);
        }
        let mut at = 0;
        while at < running.len() {
            let cpu_before = process::cpu_of_children();
            let Some(status) = running[at].child.try_wait()? else {
                running[at].kill_after(longest)?;
                at += 1;
                continue;
            };
            let cpu = process::cpu_of_children().saturating_sub(cpu_before);
            let job = running.swap_remove(at);
            let name = job.name.clone();
            let end = job.end(status.success(), cpu);
            ended.push(end.unwrap_or_else(|error| Ended::failed(name, &error)));
            last_line = Instant::now();
        }
        if last_line.elapsed() > SILENCE {
            let names = running
                .iter()
                .map(|job| format!("{} ({} s)", job.name, job.started.elapsed().as_secs()));
            let names: Vec<_> = names.collect();
            println!("... running: {}; {} to come; {}", names.join(", "), waiting.len(), FOLDER);
            last_line = Instant::now();
        }
        thread::sleep(LOOK_EVERY);
    }
}

impl Ended {
    /// Returns the end of a job that could not be run or judged.
    fn failed(name: String, error: &anyhow::Error) -> Self {
        let last_lines = format!("{error:#}");
        let tally = Tally { passed: 0, failed: 1 };
        Self { name, took: Duration::ZERO, cpu: Duration::ZERO, tally, last_lines }
    }
}

impl Job {
    fn start(mut self) -> Result<Running> {
        // The tests of this module run within a run of jobs.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = process::root().join(FOLDER);
        fs::create_dir_all(&folder).context("cannot make target/test")?;
        let output = folder.join(format!("{}-{number}.out", std::process::id()));
        let file = File::create(&output).context("cannot write below target/test")?;
        self.command.stdout(file.try_clone()?).stderr(file);
        let child = self.command.spawn().with_context(|| format!("cannot start {}", self.name))?;
        let (name, verdict) = (self.name, self.verdict);
        Ok(Running { name, child, verdict, output, started: Instant::now(), is_killed: false })
    }
}

impl Running {
    /// Kills the program if it runs longer than allowed.
    fn kill_after(&mut self, longest: Duration) -> Result<()> {
        if self.started.elapsed() > longest && !self.is_killed {
            self.child.kill()?;
            self.is_killed = true;
            let mut output = File::options().append(true).open(&self.output)?;
            writeln!(output, "\nerror: killed after {} s: it hangs", longest.as_secs())?;
        }
        Ok(())
    }

    /// Prints the output, and returns the result.
    fn end(self, success: bool, cpu: Duration) -> Result<Ended> {
        let took = self.started.elapsed();
        let mut text = Vec::new();
        File::open(&self.output)?.read_to_end(&mut text)?;
        fs::remove_file(&self.output)?;
        let text = String::from_utf8_lossy(&text);
        println!("==> {}\n{}", self.name, text.trim_end());
        println!("<== {}: {}", self.name, steps::times(took, cpu));
        let mut tally = Tally::default();
        match self.verdict {
            Verdict::Harness => {
                text.lines().for_each(|line| tally.read(line));
                if tally == Tally::default() {
                    // A binary of which the filter leaves nothing still prints its verdict.
                    tally.failed += u64::from(!text.contains("test result: "));
                }
                tally.failed += u64::from(!success && tally.failed == 0);
            }
            Verdict::ExitCode => {
                tally.passed += u64::from(success);
                tally.failed += u64::from(!success);
            }
        }
        let mut last_lines = String::new();
        if tally.failed > 0 {
            let lines: Vec<_> = text.lines().collect();
            last_lines = lines[lines.len().saturating_sub(LINES_AGAIN)..].join("\n");
        }
        Ok(Ended { name: self.name, took, cpu, tally, last_lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, verdict: Verdict) -> Job {
        let mut command = process::program("sh");
        command.args(["-c", script]);
        Job { name: script.to_owned(), command, verdict }
    }

    fn tally(script: &str, verdict: Verdict) -> String {
        let ended = run(vec![shell(script, verdict)], 1).unwrap();
        ended[0].tally.to_string()
    }

    #[test]
    fn a_program_without_a_verdict_counts_as_a_failure() {
        let passed = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let failed = "echo 'test result: FAILED. 0 passed; 3 failed; 0 ignored'";
        let empty = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored'";
        for (script, verdict, expected) in [
            (passed.to_owned(), Verdict::Harness, "2 passed, 0 failed"),
            (format!("{passed}; exit 101"), Verdict::Harness, "2 passed, 1 failed"),
            (format!("{failed}; exit 101"), Verdict::Harness, "0 passed, 3 failed"),
            (empty.to_owned(), Verdict::Harness, "0 passed, 0 failed"),
            ("exit 0".to_owned(), Verdict::Harness, "0 passed, 1 failed"),
            ("exit 0".to_owned(), Verdict::ExitCode, "1 passed, 0 failed"),
            ("exit 3".to_owned(), Verdict::ExitCode, "0 passed, 1 failed"),
        ] {
            assert_eq!(tally(&script, verdict), expected, "{script}");
        }
    }

    #[test]
    fn the_end_of_a_failed_programs_output_is_shown_again() {
        let fails = shell("seq 1 100; exit 1", Verdict::ExitCode);
        let ended = run(vec![fails, shell("seq 1 100", Verdict::ExitCode)], 1).unwrap();
        let last: Vec<_> = ended[0].last_lines.lines().collect();
        assert_eq!((last.first(), last.last()), (Some(&"41"), Some(&"100")));
        assert_eq!(ended[1].last_lines, "");
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let hangs = shell("exec sleep 100", Verdict::ExitCode);
        let started = Instant::now();
        let ended = run_within(Duration::from_millis(100), vec![hangs], 1).unwrap();
        assert!(started.elapsed() < Duration::from_secs(50));
        assert_eq!(ended[0].tally.to_string(), "0 passed, 1 failed");
        assert!(ended[0].last_lines.contains("killed after 0 s"), "{}", ended[0].last_lines);
    }

    #[test]
    fn a_process_left_behind_does_not_hold_up_the_end() {
        // The `cat` lives, and keeps the output open, until `keeps_it_alive` is dropped.
        let (input, keeps_it_alive) = std::io::pipe().unwrap();
        let mut job = shell("exec 3<&0; cat <&3 & echo 1", Verdict::ExitCode);
        job.command.stdin(input);
        let ended = run(vec![job], 1).unwrap();
        assert_eq!(ended[0].tally.to_string(), "1 passed, 0 failed");
        drop(keeps_it_alive);
    }

    #[test]
    fn jobs_run_side_by_side_up_to_the_limit() {
        // Each waits until the other has started: alone, neither would end.
        let folder = std::env::temp_dir().join(format!("duly-jobs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let meet = |own: &str, other: &str| {
            let path = folder.display();
            shell(
                &format!("touch {path}/{own}; while [ ! -e {path}/{other} ]; do sleep 0.01; done"),
                Verdict::ExitCode,
            )
        };
        let ended = run(vec![meet("a", "b"), meet("b", "a")], 2).unwrap();
        assert!(ended.iter().all(|job| job.tally.failed == 0));
        fs::remove_dir_all(&folder).unwrap();
    }
}
