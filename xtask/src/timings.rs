//! `cargo xtask ci --timings`: runs CI, and prints the times of its parts as tables.
//!
//! 1. The steps print their own times.
//! 2. A script around the compiler and the linker measures each of their runs ([`TIMED`]).
//! 3. The test harness prints the time of each test. It does so only as a nightly one: `RUSTC_BOOTSTRAP` makes it one.
//!
//! The tables show what this run had to do. In a fresh clone that is everything but the crates of this command itself.

mod tables;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::process::{self, Outcome};

/// The script around compilers and linkers.
const TIMED: &str = "xtask/src/timings/timed.sh";
/// The folder of the times that the script and the tests measure. While it is set, tests print their times.
pub(crate) const VARIABLE: &str = "DULY_TIMINGS";

/// Runs CI, prints its output, and then the tables.
pub(crate) fn run() -> Result<Outcome> {
    let folder = process::root().join("target/timings");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder).context("cannot make target/timings")?;
    let timed = process::root().join(TIMED);
    let target = std::env::consts::ARCH.to_uppercase();
    let mut ci = process::program("bash");
    ci.args(["-c", "exec .ci/run 2>&1"]).env(VARIABLE, &folder).env("RUSTC_WRAPPER", &timed);
    ci.env(format!("CARGO_TARGET_{target}_UNKNOWN_LINUX_GNU_LINKER"), &timed);
    let mut child = ci.stdout(Stdio::piped()).spawn().context("cannot start .ci/run")?;
    let mut log = fs::File::create(folder.join("log"))?;
    let output = child.stdout.take().context("the child has no output")?;
    for line in BufReader::new(output).split(b'\n') {
        let mut line = line?;
        line.push(b'\n');
        std::io::stdout().write_all(&line)?;
        log.write_all(&line)?;
    }
    let passed = child.wait()?.success();
    let log = String::from_utf8_lossy(&fs::read(folder.join("log"))?).into_owned();
    let compilers = fs::read_to_string(folder.join("compilers")).unwrap_or_default();
    println!("{}", tables::all(&log, &compilers));
    Ok(if passed { Outcome::Passed } else { Outcome::Failed })
}
