//! Closes an order that is not paid in time: a time-out with cancel.
//!
//! Run a server with `cargo run --release -- serve`, then
//! `cargo run -p duly-client --example order_timeout`. It ends by itself after some seconds.
//! `DULY_SERVER` names another server.

use std::{collections::HashSet, error::Error, process::ExitCode, time::Duration};

use duly_client::{Client, Code, Failure, Firing, Schedule};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

const NAMESPACE: &str = "example-orders";
/// Time to pay; half an hour in a shop.
const TO_PAY: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    number: String,
    cents: u64,
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

/// Places three orders, pays one, and waits until the others are closed.
pub(crate) async fn run(server: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::new(server)?;

    // The consumer that closes orders. In a shop it is a program of its own, and several instances share
    // the work.
    let (closed, mut closings) = mpsc::channel(10);
    let consumer = client.consume(NAMESPACE, move |firing: Firing| {
        let closed = closed.clone();
        async move {
            // A payload that cannot be read is kept as a dead letter, so that an operator can look at
            // it.
            let order: Order = firing.json().map_err(Failure::dead)?;
            // The order is closed here if it was not paid, in one transaction. A firing is delivered at
            // least once; `firing.delivery_id` is the same each time.
            println!("{}: not paid in time, closed", firing.id);
            closed.send(order.number).await?;
            Ok::<(), Failure>(())
        }
    })?;

    // Orders are placed. A request that is sent twice creates one timer, because of its id.
    let first = std::time::UNIX_EPOCH.elapsed()?.as_millis();
    let numbers: Vec<String> = (first..first + 3).map(|number| number.to_string()).collect();
    for number in &numbers {
        let order = Order { number: number.clone(), cents: 4_200 };
        let close = Schedule::after(TO_PAY).with_id(format!("order:{number}")).with_json(&order)?;
        client.schedule(NAMESPACE, close).await?;
        println!("order:{number}: placed");
    }

    // One is paid.
    let paid = format!("order:{}", numbers[0]);
    client.cancel(NAMESPACE, &paid).await?;
    println!("{paid}: paid in time");

    // The others are closed.
    let mut open: HashSet<&String> = numbers[1..].iter().collect();
    while !open.is_empty() {
        let number = closings.recv().await.ok_or("the consumer ended")?;
        open.remove(&number);
    }
    consumer.stop().await?;

    // One of them is paid after all. The response is definite: it was closed.
    let late = format!("order:{}", numbers[1]);
    match client.cancel(NAMESPACE, &late).await {
        Err(error) if error.code() == Code::Finished => println!("{late}: paid too late, refunded"),
        other => return Err(format!("{late}: {other:?}").into()),
    }
    Ok(())
}
