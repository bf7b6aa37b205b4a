//! The stream of a consumer: credits, verdicts, and claims that are released.

use duly_api::v1::{self, consume_response::Kind, timers_client::TimersClient};
use futures::{Stream, StreamExt, stream};
use tokio::sync::mpsc;
use tonic::{Code, Streaming, transport::Endpoint};
use tonic_types::StatusExt;

use super::server::{NAMESPACE, Server, ack, after, lasting, settled, soon};

/// A consumer.
struct Consumer {
    send: mpsc::Sender<v1::ConsumeRequest>,
    receive: Streaming<v1::ConsumeResponse>,
}

fn receiving<T>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> {
    stream::unfold(receiver, |mut receiver| async {
        let item = receiver.recv().await?;
        Some((item, receiver))
    })
}

fn opening(credits: u32) -> v1::ConsumeRequest {
    let open = v1::ConsumeOpen { namespace: NAMESPACE.into(), lease: None };
    v1::ConsumeRequest { open: Some(open), credits, settlements: Vec::new() }
}

impl Consumer {
    async fn open(server: &Server, first: v1::ConsumeRequest) -> Self {
        let (send, requests) = mpsc::channel(10);
        send.send(first).await.unwrap();
        let receive = server.timers().consume(receiving(requests)).await.unwrap().into_inner();
        Self { send, receive }
    }

    async fn send(&self, credits: u32, settlements: Vec<v1::Settlement>) {
        self.send.send(v1::ConsumeRequest { open: None, credits, settlements }).await.unwrap();
    }

    async fn receive(&mut self) -> Kind {
        soon(self.receive.next()).await.unwrap().unwrap().kind.unwrap()
    }

    /// Returns the next `count` firings, from as many responses as needed.
    async fn firings(&mut self, count: usize) -> Vec<v1::Firing> {
        let mut all = Vec::new();
        while all.len() < count {
            match self.receive().await {
                Kind::Firings(mut some) => all.append(&mut some.firings),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(all.len(), count);
        all
    }

    async fn settled(&mut self) -> Vec<v1::SettleOutcome> {
        let Kind::Settled(settled) = self.receive().await else { panic!("no results") };
        assert_eq!(settled.leased, None, "a stream leases by credits");
        let outcome = |result: v1::SettleResult| match result {
            v1::SettleResult { outcome: Some(number), error: None } => number.try_into().unwrap(),
            other => panic!("{other:?}"),
        };
        settled.results.into_iter().map(outcome).collect()
    }
}

fn acks(firings: &[v1::Firing]) -> Vec<v1::Settlement> {
    firings.iter().map(|firing| ack(&firing.token)).collect()
}

#[tokio::test]
async fn no_more_firings_come_than_there_are_credits() {
    let server = Server::start().await;
    server.due(5, b"x").await;
    let mut consumer = Consumer::open(&server, opening(2)).await;
    let two = consumer.firings(2).await;
    // Further firings would come before the results.
    consumer.send(0, acks(&two)).await;
    assert_eq!(consumer.settled().await, [v1::SettleOutcome::Ok; 2]);
    consumer.send(0, acks(&two)).await;
    assert_eq!(consumer.settled().await, [v1::SettleOutcome::AlreadySettled; 2]);
    consumer.send(10, Vec::new()).await;
    let mut rest = consumer.firings(3).await;
    rest.extend(two);
    rest.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<_> = rest.iter().map(|firing| firing.id.as_str()).collect();
    assert_eq!(ids, ["00000", "00001", "00002", "00003", "00004"]);
    assert_eq!(rest[0].payload_base64.as_deref(), Some(&b"x"[..]));
}

#[tokio::test]
async fn a_firing_comes_when_it_is_due() {
    let server = Server::start().await;
    server.schedule(v1::Schedule { id: Some("first".into()), ..after(0) }).await;
    let mut consumer = Consumer::open(&server, opening(10)).await;
    assert_eq!(consumer.firings(1).await[0].id, "first");
    server.schedule(v1::Schedule { id: Some("later".into()), ..after(50) }).await;
    let firing = consumer.firings(1).await.remove(0);
    assert_eq!(firing.id, "later");
    let retry = Some(v1::RetryVerdict { after: Some(lasting(1)), reason: Some("busy".into()) });
    let settlement = v1::Settlement { token: firing.token, retry, ..v1::Settlement::default() };
    consumer.send(0, vec![settlement]).await;
    let mut again = None;
    for _ in 0..2 {
        match consumer.receive().await {
            Kind::Settled(_) => {}
            Kind::Firings(firings) => again = firings.firings.into_iter().next(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(again.map(|firing| (firing.id, firing.attempt)), Some(("later".into(), 2)));
}

#[tokio::test]
async fn p4_a_stream_snoozes_a_firing_and_takes_a_stop() {
    let server = Server::start().await;
    let retry = v1::Retry { max_attempts: Some(1), ..v1::Retry::default() };
    let timer = v1::Schedule { id: Some("t".into()), retry: Some(retry), ..after(0) };
    server.schedule(timer).await;
    let mut consumer = Consumer::open(&server, opening(10)).await;
    let mut firing = consumer.firings(1).await.remove(0);
    for attempt in 2..=3 {
        let snooze = Some(v1::SnoozeVerdict { after: Some(lasting(300)) });
        let put_off = v1::Settlement { token: firing.token, snooze, ..v1::Settlement::default() };
        consumer.send(0, vec![put_off]).await;
        assert_eq!(consumer.settled().await, [v1::SettleOutcome::Ok]);
        firing = consumer.firings(1).await.remove(0);
        assert_eq!(firing.attempt, attempt, "the only attempt of the policy is left");
    }
    let stop = v1::Cancel { id: "t".into(), no_further_attempt: Some(true), ..Default::default() };
    let cancel = v1::CancelRequest { namespace: NAMESPACE.into(), cancel: Some(stop) };
    let stopped = server.timers().cancel(cancel).await.unwrap().into_inner();
    assert!(stopped.no_further_attempt, "{stopped:?}");
    let retry = Some(v1::RetryVerdict::default());
    let failed = v1::Settlement { token: firing.token, retry, ..v1::Settlement::default() };
    consumer.send(0, vec![failed]).await;
    assert_eq!(consumer.settled().await, [v1::SettleOutcome::Cancelled]);
}

#[tokio::test]
async fn p4_firings_of_disconnected_consumers_return_and_count() {
    let server = Server::start().await;
    server.due(3, b"").await;
    let mut consumer = Consumer::open(&server, opening(3)).await;
    let firings = consumer.firings(3).await;
    consumer.send(0, acks(&firings[..1])).await;
    assert_eq!(consumer.settled().await, [v1::SettleOutcome::Ok]);
    drop(consumer);
    let mut back = Vec::new();
    while back.len() < 2 {
        back.append(&mut soon(server.lease(10)).await);
    }
    assert_eq!(back.len(), 2, "what was settled stays settled");
    assert!(back.iter().all(|firing| firing.attempt == 2), "{back:?}");
    let request = v1::GetRequest { namespace: NAMESPACE.into(), id: back[0].id.clone() };
    let timer = server.timers().get(request).await.unwrap().into_inner();
    assert!(timer.maybe_delivered);
    assert_eq!(timer.history[0].outcome(), v1::AttemptOutcome::LeaseLost);
}

#[tokio::test]
async fn a_consumer_that_says_it_is_done_is_done() {
    let server = Server::start().await;
    server.due(1, b"").await;
    let mut consumer = Consumer::open(&server, opening(1)).await;
    consumer.firings(1).await;
    let Consumer { send, mut receive } = consumer;
    drop(send);
    assert!(soon(receive.next()).await.is_none());
    assert_eq!(soon(server.lease(1)).await[0].attempt, 2);
}

#[tokio::test]
async fn p10_slow_consumers_hold_few_claims_and_release_them() {
    const COUNT: usize = 10_000;
    let server = Server::start().await;
    server.due(COUNT, &[b'x'; 1_000]).await;
    let mut slow = Consumer::open(&server, opening(10_000)).await;
    let Kind::Firings(heard) = slow.receive().await else { panic!("no firings") };
    // The consumer stops reading. Two responses wait for it, and a few are in the windows of the
    // connection: other consumers can lease the rest.
    let mut leased = Vec::new();
    while leased.len() < COUNT - 7 * 1_000 {
        leased.append(&mut soon(server.lease(10_000)).await);
    }
    assert!(leased.iter().all(|firing| firing.attempt == 1));
    drop(slow);
    while leased.len() < COUNT {
        leased.append(&mut soon(server.lease(10_000)).await);
    }
    // Received firings count as attempts, waiting ones do not.
    let counted = leased.iter().filter(|firing| firing.attempt == 2).count();
    assert!((heard.firings.len()..COUNT / 2).contains(&counted), "{counted}");
    let mut ids: Vec<_> = leased.iter().map(|firing| &firing.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), COUNT);
}

#[tokio::test]
async fn p10_claims_of_stalled_consumers_are_released() {
    const COUNT: usize = 5_000;
    let server = Server::with(&[("DULY_SERVER__REQUEST_TIMEOUT", "3s")]).await;
    server.due(COUNT, &[b'x'; 1_000]).await;
    // The consumer stays connected and never reads. Its windows are small, so that its claims fill them.
    let endpoint = Endpoint::from_shared(format!("http://{}", server.running.addr())).unwrap();
    let channel = endpoint.initial_stream_window_size(65_535).connect_lazy();
    let requests = stream::iter([opening(10_000)]).chain(stream::pending());
    let _slow = TimersClient::new(channel).consume(requests).await.unwrap();
    let stats = || async {
        let request = v1::StatsRequest { namespace: NAMESPACE.into() };
        server.namespaces().stats(request).await.unwrap().into_inner()
    };
    while stats().await.in_flight < 200 {
        tokio::task::yield_now().await;
    }
    let mut leased = Vec::new();
    while leased.len() < COUNT {
        leased.append(&mut soon(server.lease(10_000)).await);
    }
    assert!(leased.iter().all(|firing| firing.attempt == 1));
}

#[tokio::test]
async fn a_stop_lets_a_consumer_settle_and_ends_its_stream() {
    let server = Server::start().await;
    server.due(2, b"").await;
    let mut consumer = Consumer::open(&server, opening(1)).await;
    let firings = consumer.firings(1).await;
    let address = server.running.addr();
    let stopping = tokio::spawn(server.running.stop());
    assert_eq!(consumer.receive().await, Kind::Stopping(v1::Stopping {}));
    consumer.send(1, acks(&firings)).await;
    assert_eq!(consumer.settled().await, [v1::SettleOutcome::Ok]);
    assert!(soon(consumer.receive.next()).await.is_none(), "and no firing for the credit");
    soon(stopping).await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn invalid_requests_end_the_stream_with_their_reason() {
    let server = Server::start().await;
    server.due(1, b"").await;
    let unopened = v1::ConsumeRequest { credits: 1, ..v1::ConsumeRequest::default() };
    let long = v1::ConsumeOpen { namespace: NAMESPACE.into(), lease: Some(lasting(999)) };
    let long = v1::ConsumeRequest { open: Some(long), ..unopened.clone() };
    for (first, field) in [(unopened, "open"), (long, "open.lease"), (opening(10_001), "credits")] {
        let mut consumer = Consumer::open(&server, first).await;
        let refused = soon(consumer.receive.next()).await.unwrap().unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        let violations = refused.get_error_details().bad_request().unwrap().clone();
        assert_eq!(violations.field_violations[0].field, field);
    }
    let mut consumer = Consumer::open(&server, opening(0)).await;
    consumer.send.send(opening(0)).await.unwrap();
    let refused = soon(consumer.receive.next()).await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let nowhere = v1::ConsumeOpen { namespace: "nowhere".into(), lease: None };
    let nowhere = v1::ConsumeRequest { open: Some(nowhere), credits: 1, settlements: Vec::new() };
    let mut consumer = Consumer::open(&server, nowhere).await;
    let refused = soon(consumer.receive.next()).await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn an_item_that_is_wrong_refuses_only_itself() {
    let server = Server::start().await;
    server.due(1, b"").await;
    let mut consumer = Consumer::open(&server, opening(1)).await;
    let firings = consumer.firings(1).await;
    let none = v1::Settlement { token: firings[0].token.clone(), ..v1::Settlement::default() };
    consumer.send(0, vec![none, ack("no token"), ack(&firings[0].token)]).await;
    let Kind::Settled(v1::SettleResponse { results, .. }) = consumer.receive().await else {
        panic!("no results")
    };
    assert_eq!(results.len(), 3);
    assert_eq!(results[0].outcome, None);
    assert!(matches!(&results[0].error, Some(problem)
        if problem.field.as_deref() == Some("settlements[0]")));
    assert_eq!(results[1], settled(v1::SettleOutcome::InvalidToken));
    assert_eq!(results[2], settled(v1::SettleOutcome::Ok));
}
