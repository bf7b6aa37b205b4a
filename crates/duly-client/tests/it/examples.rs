//! The examples against a real server: each must end by itself.

#[allow(dead_code, reason = "its main function is that of a program of its own")]
#[path = "../../examples/missing_event.rs"]
mod missing_event;
#[allow(dead_code, reason = "its main function is that of a program of its own")]
#[path = "../../examples/order_timeout.rs"]
mod order_timeout;
#[allow(dead_code, reason = "its main function is that of a program of its own")]
#[path = "../../examples/reminder.rs"]
mod reminder;

use crate::server::{Server, soon};

#[tokio::test(flavor = "multi_thread")]
async fn the_order_time_out_ends_by_itself() {
    let server = Server::start().await;
    soon(order_timeout::run(&server.url())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reminder_ends_by_itself() {
    let server = Server::start().await;
    soon(reminder::run(&server.url())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_missing_event_ends_by_itself() {
    let server = Server::start().await;
    soon(missing_event::run(&server.url())).await.unwrap();
}
