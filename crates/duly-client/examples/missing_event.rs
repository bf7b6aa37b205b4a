//! A watchdog: raises an alarm when an expected event did not happen.
//!
//! Run a server with `cargo run --release -- serve`, then
//! `cargo run -p duly-client --example missing_event`. It ends by itself after some seconds.
//! `DULY_SERVER` names another server.

use std::{error::Error, process::ExitCode, time::Duration};

use duly_client::{Client, Code, Failure, Firing, Schedule};
use tokio::{sync::mpsc, time::interval};

const NAMESPACE: &str = "example-watchdog";
/// Longest silence of a device before its alarm is raised.
const SILENCE_MAX: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    let server = std::env::var("DULY_SERVER").unwrap_or("http://127.0.0.1:3859".to_owned());
    match run(&server).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs two devices that send heartbeats. One falls silent; the other one signs off.
pub(crate) async fn run(server: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::new(server)?;
    let run = std::time::UNIX_EPOCH.elapsed()?.as_millis();
    let (silent, polite) = (format!("device:{run}:a"), format!("device:{run}:b"));

    let (raised, mut alarms) = mpsc::channel(10);
    let consumer = client.consume(NAMESPACE, move |firing: Firing| {
        let raised = raised.clone();
        async move {
            println!(
                "{}: silent for {SILENCE_MAX:?}; the last it said was {}",
                firing.id,
                firing.text()?
            );
            raised.send(firing.id).await?;
            Ok::<(), Failure>(())
        }
    })?;

    // Each heartbeat puts the alarm off: it replaces the timer with the device's id.
    let mut beat = interval(Duration::from_millis(200));
    for number in 1..=5 {
        beat.tick().await;
        for device in [&silent, &polite] {
            let alarm =
                Schedule::after(SILENCE_MAX).with_id(device).with_text(format!("sign {number}"));
            match client.debounce(NAMESPACE, alarm).await {
                // The device was silent for too long: its alarm is being raised right now.
                Err(error) if error.code() == Code::InFlight => println!("{device}: too late"),
                other => drop(other?),
            }
        }
        println!("sign {number} of both");
    }

    // A device that signs off may be silent, unless it was silent for too long before.
    match client.cancel(NAMESPACE, &polite).await {
        Ok(_) => println!("{polite}: goodbye"),
        Err(error) if matches!(error.code(), Code::InFlight | Code::Finished) => {
            println!("{error}")
        }
        Err(error) => return Err(error.into()),
    }

    while alarms.recv().await.ok_or("the consumer ended")? != silent {}
    consumer.stop().await?;
    Ok(())
}
