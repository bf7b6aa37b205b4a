//! Single schedule calls straight over HTTP/2. A general client would need as much CPU per call as
//! the server, and would halve the measured speed.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use duly_api::{Timer, v1};
use h2::{RecvStream, client::SendRequest};
use http::{HeaderValue, Request, Uri, header};
use prost::Message as _;
use tokio::{net::TcpStream, sync::Mutex, time::timeout};
use tonic::{Code, Status};

use super::{PATIENCE, WINDOW_BYTES};

/// Bytes before a gRPC message: a compression flag and the length.
const PREFIX_BYTES: usize = 5;

/// Connections, each for one share of the lines.
#[derive(Debug)]
pub(super) struct Singles {
    address: SocketAddr,
    uri: Uri,
    connections: Vec<Mutex<Option<SendRequest<Bytes>>>>,
}

impl Singles {
    /// Creates `connections` connections, each opened when it is first needed.
    pub(super) fn new(address: SocketAddr, connections: usize) -> Result<Self> {
        let uri = format!("http://{address}/duly.v1.Timers/Schedule").parse()?;
        let connections = (0..connections.max(1)).map(|_| Mutex::default()).collect();
        Ok(Self { address, uri, connections })
    }

    /// Schedules one timer.
    pub(super) async fn schedule(
        &self,
        line: usize,
        request: &v1::ScheduleRequest,
    ) -> Result<Result<Timer, Status>> {
        let connection = &self.connections[line % self.connections.len()];
        let called = timeout(PATIENCE, self.call(connection, request)).await;
        let answered = called.context("no answer in time").flatten();
        if answered.is_err() {
            // The next call opens a new connection.
            *connection.lock().await = None;
        }
        answered
    }

    async fn call(
        &self,
        connection: &Mutex<Option<SendRequest<Bytes>>>,
        message: &v1::ScheduleRequest,
    ) -> Result<Result<Timer, Status>> {
        let mut sender = self.sender(connection).await?.ready().await?;
        let mut request = Request::post(self.uri.clone()).body(())?;
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        let (response, mut sending) = sender.send_request(request, false)?;
        sending.send_data(framed(message)?, true)?;
        let (head, body) = response.await?.into_parts();
        if let Some(status) = Status::from_header_map(&head.headers) {
            return Ok(Err(status));
        }
        received(body).await
    }

    async fn sender(
        &self,
        connection: &Mutex<Option<SendRequest<Bytes>>>,
    ) -> Result<SendRequest<Bytes>> {
        let mut place = connection.lock().await;
        if let Some(sender) = &*place {
            return Ok(sender.clone());
        }
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        let (sender, connection) = builder.handshake(stream).await?;
        // Calls on the connection get its errors.
        tokio::spawn(connection);
        Ok(place.insert(sender).clone())
    }
}

fn framed(message: &v1::ScheduleRequest) -> Result<Bytes> {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length)?);
    message.encode(&mut frame)?;
    Ok(frame.freeze())
}

async fn received(mut body: RecvStream) -> Result<Result<Timer, Status>> {
    let mut message = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        message.extend_from_slice(&part);
    }
    let trailers = body.trailers().await?.context("an answer without its trailers")?;
    let status = Status::from_header_map(&trailers).context("an answer without its status")?;
    if status.code() != Code::Ok {
        return Ok(Err(status));
    }
    anyhow::ensure!(message.len() >= PREFIX_BYTES, "an answer without a message");
    message.advance(PREFIX_BYTES);
    Ok(Ok(Timer::decode(message)?))
}
