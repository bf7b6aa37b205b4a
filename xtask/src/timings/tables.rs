//! Makes tables of the log of CI and of the runs of compilers.

use std::collections::BTreeMap;

/// Number of tests in their table.
const TESTS: usize = 50;
/// Crates that took less time of CPU, in seconds, share the last row.
const SMALL: f64 = 4.0;

/// The elapsed seconds of something, and those of CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    elapsed: f64,
    cpu: f64,
}

/// Returns all tables in Markdown.
pub(super) fn all(log: &str, compilers: &str) -> String {
    let runs: Vec<_> = compilers.lines().filter_map(Run::of).collect();
    let mut text = String::new();
    table(&mut text, "step", steps(log));
    table(&mut text, "form of compilation", forms(&runs));
    table(&mut text, "test binary: compile, link", binaries(&runs));
    table(&mut text, "crate, all forms together", crates(&runs));
    text.push_str("\n| slowest tests | s |\n|---|---:|\n");
    for (name, seconds) in tests(log).into_iter().take(TESTS) {
        text.push_str(&format!("| {name} | {seconds:.1} |\n"));
    }
    text
}

fn table(text: &mut String, head: &str, rows: Vec<(String, Times)>) {
    text.push_str(&format!("\n| {head} | elapsed s | CPU s |\n|---|---:|---:|\n"));
    for (name, Times { elapsed, cpu }) in rows {
        text.push_str(&format!("| {name} | {elapsed:.1} | {cpu:.1} |\n"));
    }
}

/// Reads lines such as `<== lints: 12.3 s, 20.0+1.5 s of CPU`.
fn steps(log: &str) -> Vec<(String, Times)> {
    let step = |line: &str| {
        let (rest, _) = line.strip_prefix("<== ")?.split_once(" s of CPU")?;
        let (rest, cpu) = rest.rsplit_once(" s, ")?;
        let (name, elapsed) = rest.rsplit_once(": ")?;
        let cpu = cpu.split('+').map(str::parse::<f64>).sum::<Result<f64, _>>().ok()?;
        Some((name.to_owned(), Times { elapsed: elapsed.parse().ok()?, cpu }))
    };
    log.lines().filter_map(step).collect()
}

/// Reads lines such as `test a::b ... ok <1.234s>`, the slowest first. The binary is the last one named before.
fn tests(log: &str) -> Vec<(String, f64)> {
    let mut binary = "";
    let mut tests = Vec::new();
    for line in log.lines() {
        if let Some(name) = line.strip_prefix("==> ") {
            binary = name;
        }
        let Some((name, rest)) = line.strip_prefix("test ").and_then(|it| it.split_once(" ... "))
        else {
            continue;
        };
        let seconds = rest.split_once('<').and_then(|(_, it)| it.strip_suffix("s>")?.parse().ok());
        if let Some(seconds) = seconds {
            tests.push((format!("{binary}: {name}"), seconds));
        }
    }
    tests.sort_by(|one, other| f64::total_cmp(&other.1, &one.1));
    tests
}

/// A run of a compiler or linker.
#[derive(Debug)]
struct Run<'a> {
    times: Times,
    program: &'a str,
    name: &'a str,
    kind: &'a str,
    form: &'a str,
    file: &'a str,
    target: &'a str,
}

impl<'a> Run<'a> {
    /// Reads a line of the script.
    fn of(line: &'a str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [elapsed, user, system, program, name, kind, form, file, target] = words[..] else {
            return None;
        };
        let seconds = |text: &str| text.parse::<f64>().ok();
        let times = Times { elapsed: seconds(elapsed)?, cpu: seconds(user)? + seconds(system)? };
        Some(Self { times, program, name, kind, form, file, target })
    }

    fn is_link(&self) -> bool {
        self.program == "cc"
    }

    fn is_own(&self) -> bool {
        self.name.starts_with("duly") || self.name.starts_with("xtask")
    }
}

/// Adds up rows of one name, and sorts them by their time of CPU.
fn sums(rows: impl Iterator<Item = (String, Times)>) -> Vec<(String, Times)> {
    let mut sums: BTreeMap<String, (usize, Times)> = BTreeMap::new();
    for (name, times) in rows {
        let (count, sum) = sums.entry(name).or_default();
        *count += 1;
        sum.elapsed += times.elapsed;
        sum.cpu += times.cpu;
    }
    let mut rows: Vec<_> = sums
        .into_iter()
        .map(|(name, (count, times))| (format!("{name} ({count})"), times))
        .collect();
    rows.sort_by(|(_, one), (_, other)| f64::total_cmp(&other.cpu, &one.cpu));
    rows
}

/// Sums of the forms in which crates are compiled, with the number of crates.
fn forms(runs: &[Run<'_>]) -> Vec<(String, Times)> {
    sums(runs.iter().map(|run| {
        let whose = if run.is_own() { "own" } else { "dependencies" };
        let form = match (run.kind, run.form) {
            _ if run.is_link() => return ("link".to_owned(), run.times),
            ("proc-macro", _) => "macros and build scripts",
            _ if run.name.starts_with("build_script") => "macros and build scripts",
            (_, "code") => "code",
            (_, "clippy") => "lints",
            _ => "types alone, for lints and documentation",
        };
        (format!("{whose}: {form}, {}", run.target), run.times)
    }))
}

/// The test binaries; links are found by the name of the file, which begins with that of the crate.
fn binaries(runs: &[Run<'_>]) -> Vec<(String, Times)> {
    let tests = runs.iter().filter(|run| run.kind == "test" && run.form == "code");
    let links = runs.iter().filter(|run| run.is_link() && !run.file.starts_with("build_script"));
    let mut rows: Vec<_> = tests
        .map(|run| (format!("{}: compile and link", run.name), run.times))
        .chain(links.map(|run| (format!("{}: link", run.file), run.times)))
        .filter(|(_, times)| times.cpu > SMALL / 2.0)
        .collect();
    rows.sort_by(|(_, one), (_, other)| f64::total_cmp(&other.cpu, &one.cpu));
    rows
}

/// Sums of each crate.
fn crates(runs: &[Run<'_>]) -> Vec<(String, Times)> {
    let mut rows = sums(runs.iter().filter(|run| !run.is_link()).map(|run| {
        let kind = if run.kind == "test" { " tests" } else { "" };
        (format!("{}{kind}", run.name), run.times)
    }));
    let from = rows.partition_point(|(_, times)| times.cpu >= SMALL);
    let small = rows.split_off(from);
    let mut sum = Times::default();
    for (_, times) in &small {
        sum.elapsed += times.elapsed;
        sum.cpu += times.cpu;
    }
    rows.push((format!("{} others", small.len()), sum));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_from_the_log() {
        let log = "==> lints: cargo clippy\n<== lints: 12.3 s, 20.0+1.5 s of CPU\n<== lints: ok\n\
                   <== duly it: 5.0 s, 0.5 s of CPU\nother\n";
        let expected = [
            ("lints".to_owned(), Times { elapsed: 12.3, cpu: 21.5 }),
            ("duly it".to_owned(), Times { elapsed: 5.0, cpu: 0.5 }),
        ];
        assert_eq!(steps(log), expected);
    }

    #[test]
    fn the_slowest_test_comes_first() {
        let log = "==> duly it\ntest a::b ... ok <0.5s>\ntest c - should panic ... ok <2.5s>\n\
                   test without a time ... ok\n";
        let found = super::tests(log);
        assert_eq!(
            found,
            [("duly it: c - should panic".to_owned(), 2.5), ("duly it: a::b".to_owned(), 0.5)]
        );
    }

    #[test]
    fn crates_are_added_up_over_their_forms() {
        let compilers = "5.0 4.0 1.0 rustc syn lib code - host\n\
                         9.0 8.0 1.0 rustc syn lib check - host\n\
                         1.0 1.0 0.0 rustc small lib code - host\n\
                         3.0 2.0 1.0 cc - lib code it-1a2b host\n\
                         cut short";
        let runs: Vec<_> = compilers.lines().filter_map(Run::of).collect();
        assert_eq!(runs.len(), 4);
        let expected = [
            ("syn (2)".to_owned(), Times { elapsed: 14.0, cpu: 14.0 }),
            ("1 others".to_owned(), Times { elapsed: 1.0, cpu: 1.0 }),
        ];
        assert_eq!(crates(&runs), expected);
        assert_eq!(
            binaries(&runs),
            [("it-1a2b: link".to_owned(), Times { elapsed: 3.0, cpu: 3.0 })]
        );
    }
}
