//! Loads a real server, kills it again and again, and exits with 1 when a promise was broken.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use duly_testkit::{checker, history, torture};

#[tokio::main]
async fn main() -> ExitCode {
    let options = torture::Options::parse();
    match run(&options).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &torture::Options) -> Result<ExitCode> {
    let clean = if let Some(file) = &options.judge {
        let history =
            history::file::load(file).with_context(|| format!("cannot read {}", file.display()))?;
        let verdict = checker::check(&history);
        print!("{verdict}");
        verdict.is_clean()
    } else {
        let report = torture::run(options).await?;
        print!("{report}");
        report.is_clean()
    };
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
