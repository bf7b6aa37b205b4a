//! A proxy that can hold back one direction of its connections, and cut them.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// The directions that the proxy forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Both,
    /// Responses are held back.
    NoAnswers,
    /// Requests are held back.
    NoCalls,
}

#[derive(Debug, Clone, Copy)]
struct Mode {
    flow: Flow,
    /// Generation of the connections; earlier ones are cut.
    age: u64,
}

/// A proxy in front of a server.
pub(super) struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
}

impl Proxy {
    pub(super) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, watched) = watch::channel(Mode { flow: Flow::Both, age: 0 });
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut mode = watched.clone();
                let age = mode.borrow().age;
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(server).await else { return };
                    let (client_in, client_out) = client.into_split();
                    let (server_in, server_out) = server.into_split();
                    tokio::select! {
                        () = carry(client_in, server_out, mode.clone(), Flow::NoCalls) => {}
                        () = carry(server_in, client_out, mode.clone(), Flow::NoAnswers) => {}
                        _ = mode.wait_for(|mode| mode.age > age) => {}
                    }
                });
            }
        });
        Self { address, mode }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Holds back responses from now on.
    pub(super) fn hold_answers(&self) {
        self.mode.send_modify(|mode| mode.flow = Flow::NoAnswers);
    }

    /// Holds back requests from now on.
    pub(super) fn hold_calls(&self) {
        self.mode.send_modify(|mode| mode.flow = Flow::NoCalls);
    }

    /// Cuts all connections, with the bytes that were held back. New ones are forwarded.
    pub(super) fn cut(&self) {
        self.mode.send_modify(|mode| *mode = Mode { flow: Flow::Both, age: mode.age + 1 });
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    held: Flow,
) {
    let age = mode.borrow().age;
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let flows = |mode: &Mode| mode.flow != held || mode.age > age;
        let Ok(now) = mode.wait_for(flows).await.map(|mode| *mode) else { return };
        if now.age > age || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
