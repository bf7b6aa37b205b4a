//! `duly-torture`: loads a real server, kills and stops it repeatedly, and exits with 1 if a
//! promise was broken.

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
    } else if let Some(file) = &options.sum {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let total = torture::RunTotals::of(&text);
        print!("{total}");
        total.is_clean()
    } else {
        let report = torture::run(options).await;
        let line = match &report {
            Ok(report) => report.line(),
            Err(_) => torture::RunLine::failed_early(options.seed),
        };
        if let Some(file) = &options.log {
            line.append(file).with_context(|| format!("cannot append to {}", file.display()))?;
        }
        let report = report?;
        print!("{report}");
        println!("{line}");
        report.is_clean()
    };
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
