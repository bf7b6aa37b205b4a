//! The caller's credentials and connection: tokens, the user agent, TLS.

use std::sync::Arc;

use duly_client::{Batching, Client, Code, Error, ListRequest, RetryAdvice, Schedule};
use rcgen::{CertificateParams, CertifiedKey, KeyPair};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tonic::transport::{Identity, Server, ServerTlsConfig};

use crate::{
    script::Script,
    server::{HOUR, NAMESPACE, soon},
};

#[tokio::test]
async fn calls_send_token_and_user_agent() {
    let script = Arc::new(Script::default());
    let url = format!("http://{}", script.serve().await);
    let client = Client::builder(url).token("t0ken").user_agent("shop/7").build().unwrap();
    soon(client.schedule(NAMESPACE, Schedule::after(HOUR))).await.unwrap();
    let (authorization, agent) = script.caller.lock().clone();
    assert_eq!(authorization.as_deref(), Some("Bearer t0ken"));
    assert!(
        agent.unwrap().starts_with(&format!("shop/7 duly-client/{}", env!("CARGO_PKG_VERSION")))
    );
}

#[tokio::test]
async fn proxy_with_basic_auth_and_a_path_prefix_works() {
    let script = Arc::new(Script::default());
    let address = script.serve_below("/on/duly", Server::builder()).await;
    let builder = || Client::builder(format!("http://{address}/on/duly/")).basic("me", "sécret:");
    let client = builder().build().unwrap();
    soon(client.schedule(NAMESPACE, Schedule::after(HOUR))).await.unwrap();
    let authorization = script.caller.lock().0.clone();
    assert_eq!(authorization.as_deref(), Some("Basic bWU6c8OpY3JldDo="));
    assert!(!format!("{:?} {client:?}", builder()).contains("cret"), "nothing secret is shown");
    let beside = Client::new(format!("http://{address}")).unwrap();
    let error = soon(beside.schedule(NAMESPACE, Schedule::after(HOUR))).await.unwrap_err();
    assert_eq!((error.code(), error.retry()), (Code::MethodNotAllowed, RetryAdvice::Never));
    for (name, password) in [("a:b", ""), ("a", "\n")] {
        let refused = Client::builder("http://127.0.0.1:1").basic(name, password).build();
        assert!(refused.unwrap_err().to_string().starts_with("basic must be"), "{name}");
    }
}

#[tokio::test]
async fn peer_without_http_2_is_not_retried() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        // Kept open, so that the client sees the response and not the end of the connection.
        let mut held = Vec::new();
        loop {
            let (mut caller, _) = listener.accept().await.unwrap();
            let mut preface = [0; 24];
            caller.read_exact(&mut preface).await.unwrap();
            let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            caller.write_all(answer).await.unwrap();
            held.push(caller);
        }
    });
    let client = Client::new(url).unwrap();
    let error = soon(client.get(NAMESPACE, "x")).await.unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    assert!(error.to_string().contains("HTTP/2"), "{error}");
    assert_eq!((error.retry(), error.is_not_done()), (RetryAdvice::Never, false));
}

#[tokio::test]
async fn calls_without_a_token_send_no_authorization() {
    let script = Arc::new(Script::default());
    let client = script.client(Batching::default()).await;
    soon(client.schedule(NAMESPACE, Schedule::after(HOUR))).await.unwrap();
    assert_eq!(script.caller.lock().0, None);
}

#[tokio::test]
async fn tls_accepts_only_trusted_servers() {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let CertifiedKey { cert, signing_key } = CertifiedKey { cert: certificate, signing_key: key };
    let identity = Identity::from_pem(cert.pem(), signing_key.serialize_pem());
    let config = ServerTlsConfig::new().identity(identity);
    let script = Arc::new(Script::default());
    let server = Server::builder().tls_config(config).unwrap();
    let url = format!("https://localhost:{}", script.serve_by(server).await.port());
    let client = Client::builder(&url).ca_certificate(cert.pem()).build().unwrap();
    soon(client.schedule(NAMESPACE, Schedule::after(HOUR))).await.unwrap();
    assert_eq!(script.sizes(), [1]);

    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let client = Client::builder(&url).ca_certificate(stranger.cert.pem());
    let client = client.retries(duly_client::Retries::none()).build().unwrap();
    let error = soon(client.schedule(NAMESPACE, Schedule::after(HOUR))).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert_eq!(script.sizes(), [1]);

    // A chain beyond the bound.
    let pem = cert.pem().repeat(10);
    let identity = Identity::from_pem(pem, signing_key.serialize_pem());
    let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
    let url = format!("https://localhost:{}", script.serve_by(server).await.port());
    let client = Client::builder(&url).ca_certificate(cert.pem());
    let client = client.retries(duly_client::Retries::none()).build().unwrap();
    let error = soon(client.schedule(NAMESPACE, Schedule::after(HOUR))).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert_eq!(script.sizes(), [1]);
}

#[tokio::test]
async fn permanently_refused_consumer_ends_with_the_error() {
    let script = Arc::new(Script::default());
    let client = script.client(Batching::default()).await;
    let consumer = client.consume(NAMESPACE, async |_| crate::server::DONE).unwrap();
    let error = soon(consumer.ended()).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    assert_eq!(error.retry(), RetryAdvice::Never);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_list_ends_with_an_error() {
    let client = Arc::new(Script::default()).client(Batching::default()).await;
    let mut list = client.list(NAMESPACE, ListRequest::default());
    for id in ["a", "b"] {
        assert_eq!(list.next().await.unwrap().unwrap().id, id);
    }
    let error = list.next().await.unwrap().unwrap_err();
    assert_eq!(error, Error::Incomplete { shards: vec![1, 4] });
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(list.next().await, None);
}
