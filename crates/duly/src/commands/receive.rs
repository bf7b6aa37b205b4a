//! `duly receive`: a webhook receiver for development, which prints each delivery.
//!
//! 1. It responds to every method and path alike.
//! 2. With a secret (or two, during a rotation) it checks the Standard Webhooks signature. If the
//!    signature is wrong, it prints the fault and responds with 401, as a real receiver should.
//! 3. Without a secret it prints at the start, and for each signature, that signatures are not checked.

mod delivery;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode},
};
use duly_core::{namespace::SigningSecret, payload::PAYLOAD_BYTES_HARD};
use tokio::{net::TcpListener, sync::mpsc};

use self::delivery::{Delivery, Signature};
use crate::{
    Outcome,
    args::{secret, values},
    failure::Failure,
    output::Printer,
};

/// Most deliveries that were received and not yet printed; then receiving waits for the printer.
const UNPRINTED_MAX: usize = 64;
/// Variables with secrets, separated by commas; the first one that is set is used.
const VARIABLES: [&str; 2] = ["DULY_WEBHOOK_SECRETS", "DULY_WEBHOOK_SECRET"];

/// Receive webhooks and print each delivery, with its lateness (for development)
///
/// With --output json every delivery is one JSON document on a line of its own, after a first one with
/// the address.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address to listen on; port 0 selects a free port
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:4000",
        value_parser = values::listen_address
    )]
    listen: SocketAddr,
    /// Check signatures with the secrets of this file, whsec_…, one per line: two during a rotation,
    /// either of which is accepted; `-` for stdin. Default is the variable DULY_WEBHOOK_SECRETS, else
    /// DULY_WEBHOOK_SECRET
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Status of the response
    #[arg(long, value_name = "CODE", default_value_t = 200, value_parser = values::within::<200, 599>)]
    status: u16,
}

struct Receiver {
    secrets: Vec<SigningSecret>,
    status: StatusCode,
    deliveries: mpsc::Sender<Delivery>,
}

/// Runs the command.
pub(crate) async fn run(args: Args, printer: Printer) -> Outcome {
    let secrets = match &args.secret_file {
        Some(file) => secret::from_file(file)?,
        None => secret::from_env(&VARIABLES)?,
    };
    let listen = args.listen;
    let cannot = |error: std::io::Error| {
        Failure::new(format_args!(
            "cannot listen on {listen}: {error}; name another address with --listen"
        ))
    };
    let listener = TcpListener::bind(listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let (deliveries, mut received) = mpsc::channel(UNPRINTED_MAX);
    let is_checking = !secrets.is_empty();
    let receiver = Arc::new(Receiver {
        secrets,
        status: StatusCode::from_u16(args.status).map_err(Failure::new)?,
        deliveries,
    });
    let body_bytes_max = usize::try_from(PAYLOAD_BYTES_HARD).unwrap_or(usize::MAX);
    let app = Router::new()
        .fallback(receive)
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .with_state(receiver);
    let document = serde_json::json!({
        "receiving_on": format!("http://{address}/"),
        "checks_signatures": is_checking,
    });
    printer.document(&document.to_string(), || {
        let unchecked = match is_checking {
            true => String::new(),
            false => {
                format!("\nsignatures are not checked: no --secret-file, and no {}", VARIABLES[0])
            }
        };
        Ok(format!("receiving on http://{address}/  (Ctrl-C ends it){unchecked}"))
    })?;
    let server = axum::serve(listener, app).into_future();
    tokio::pin!(server);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            ended = &mut server => return ended.map_err(cannot),
            _ = &mut interrupted => return Ok(()),
            Some(delivery) = received.recv() => {
                printer.document(&delivery.json(), || Ok(delivery.line(printer.screen)))?;
            }
        }
    }
}

async fn receive(
    State(receiver): State<Arc<Receiver>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let signature = Signature::check(&receiver.secrets, &headers, &body);
    let status = match signature {
        Signature::Wrong(_) => StatusCode::UNAUTHORIZED,
        _ => receiver.status,
    };
    let delivery = Delivery::new(&headers, &body, signature, status.as_u16());
    match receiver.deliveries.send(delivery).await {
        Ok(()) => status,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
