//! `duly-measure`: measures a real server beside the baseline of the machine.

use std::process::ExitCode;

use clap::Parser;
use duly_testkit::measure;

#[tokio::main]
async fn main() -> ExitCode {
    let options = measure::Options::parse();
    match measure::run(&options).await {
        Ok(table) if options.json => println!("{}", table.to_json()),
        Ok(table) => print!("{table}"),
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
