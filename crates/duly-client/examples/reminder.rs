//! Reminders: at a time, moved to a later time, debounced, and every week.
//!
//! Run a server with `cargo run --release -- serve`, then
//! `cargo run -p duly-client --example reminder`. It ends by itself after some seconds.
//! `DULY_SERVER` names another server.

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use duly_client::{Client, Failure, Firing, Reschedule, Schedule};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

const NAMESPACE: &str = "example-reminders";
/// A week, shortened so that the example ends soon.
const WEEK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Reminder {
    text: String,
    /// The number of this reminder in a chain, and the length of the chain.
    chain: Option<(u32, u32)>,
}

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

/// Sends four reminders.
pub(crate) async fn run(server: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::new(server)?;
    let user = format!("user:{}", std::time::UNIX_EPOCH.elapsed()?.as_millis());
    let one = |text: &str| Reminder { text: text.to_owned(), chain: None };

    let (sent, mut sendings) = mpsc::channel(10);
    let again = client.clone();
    let consumer = client.consume(NAMESPACE, move |firing: Firing| {
        let (again, sent) = (again.clone(), sent.clone());
        async move {
            let reminder: Reminder = firing.json().map_err(Failure::dead)?;
            // The next timer of a chain is created before this one is acknowledged, and its id contains
            // its number. So a lost acknowledgement neither breaks the chain nor doubles it.
            if let Some((number, count)) = reminder.chain
                && number < count
            {
                let next = Reminder { chain: Some((number + 1, count)), ..reminder.clone() };
                let chain =
                    firing.id.rsplit_once(':').map_or(firing.id.as_str(), |(chain, _)| chain);
                let id = format!("{chain}:{}", number + 1);
                let next = Schedule::after(WEEK).with_id(id).with_json(&next)?;
                again.schedule(NAMESPACE, next).await?;
            }
            println!("{}: {}", firing.id, reminder.text);
            sent.send(firing.id).await?;
            Ok::<(), Failure>(())
        }
    })?;

    // At a time, and then at a later one.
    let parcel = format!("{user}:parcel");
    let soon = SystemTime::now() + Duration::from_secs(3_600);
    let reminder = Schedule::at(soon).with_id(&parcel).with_json(&one("Has your parcel come?"))?;
    let timer = client.schedule(NAMESPACE, reminder.with_tag(&user)).await?;
    let mut later = Reschedule::after(Duration::from_secs(2));
    if let Some(revision) = timer.revision {
        // Does not apply if another caller has moved the timer meanwhile.
        later = later.with_if_revision(revision);
    }
    client.reschedule(NAMESPACE, &parcel, later).await?;

    // Some time after the last visit: each visit moves the reminder, and only the last one counts.
    for visit in 1..=3 {
        let text = format!("Your basket waits since visit {visit}");
        let basket = Schedule::after(Duration::from_secs(1)).with_id(format!("{user}:basket"));
        client.debounce(NAMESPACE, basket.with_json(&one(&text))?.with_tag(&user)).await?;
    }

    // Every week, two times.
    let weekly = Reminder { text: "A new week".to_owned(), chain: Some((1, 2)) };
    let first = Schedule::after(WEEK).with_id(format!("{user}:weekly:1")).with_json(&weekly)?;
    client.schedule(NAMESPACE, first.with_tag(&user)).await?;

    let mut left = vec![parcel, format!("{user}:basket")];
    left.extend((1..=2).map(|number| format!("{user}:weekly:{number}")));
    while !left.is_empty() {
        let id = sendings.recv().await.ok_or("the consumer ended")?;
        left.retain(|other| *other != id);
    }
    consumer.stop().await?;
    Ok(())
}
