use std::convert::Infallible;

use futures::stream;
use http_body_util::BodyExt;

use super::*;

const MIB: usize = 1024 * 1024;

fn message(bytes: usize) -> Vec<u8> {
    let mut message = vec![0];
    message.extend_from_slice(&u32::try_from(bytes).unwrap().to_be_bytes());
    message.resize(HEAD_BYTES + bytes, 7);
    message
}

fn up_to(bytes_max: usize) -> MessageBounds {
    MessageBounds { bytes_max, remedy: "send less" }
}

/// Returns a stream of these parts with a pause between them.
fn streaming(budget: &Budget, parts: Vec<Vec<u8>>, apart: Duration) -> Incoming {
    let request_timeout = Duration::from_millis(30_500);
    let parts = stream::unfold(parts.into_iter(), move |mut parts| async move {
        if !apart.is_zero() {
            sleep(apart).await;
        }
        let part = parts.next()?;
        Some((Ok::<_, Infallible>(part), parts))
    });
    let inbound = Inbound {
        inner: Body::from_stream(parts),
        messages: MessageCounter::new(budget.empty_reservation(), up_to(MIB)),
        stopping: None,
        request_timeout,
        deadline: Some(Box::pin(sleep(request_timeout))),
    };
    Incoming(Arc::new(Mutex::new(inbound)))
}

/// Returns the number of frames, and the status that ends them.
async fn read(mut inbound: Incoming) -> (usize, Option<Status>) {
    let mut frames = 0;
    while let Some(frame) = inbound.frame().await {
        match frame {
            Ok(_) => frames += 1,
            Err(error) => return (frames, Some(*error.downcast::<Status>().unwrap())),
        }
    }
    (frames, None)
}

#[test]
fn p10_a_message_counts_from_its_first_byte_to_the_next_message() {
    let budget = Budget::new(MIB);
    let mut messages = MessageCounter::new(budget.empty_reservation(), up_to(MIB));
    let text = [message(10_000), message(0), message(10)].concat();
    for part in text[..10_004].chunks(999) {
        messages.count(part).unwrap();
    }
    let rest = budget.reserve_unchecked(MIB - 9_999);
    assert!(budget.reserve(1).is_err());
    drop(rest);
    for part in text[10_004..].chunks(999) {
        messages.count(part).unwrap();
    }
    let other = budget.reserve(MIB * 3 / 4 - 10).expect("the first one is given back");
    let refused = messages.count(&message(700_000)).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    drop((messages, other));
    assert!(budget.reserve(MIB * 3 / 4).is_ok());
}

#[tokio::test]
async fn p10_a_stream_between_two_messages_costs_nothing() {
    let budget = Budget::new(MIB);
    let rest = budget.reserve_unchecked(MIB - 4_000);
    let mut inbound = streaming(&budget, vec![message(4_000)], Duration::ZERO);
    inbound.frame().await.unwrap().unwrap();
    assert!(budget.reserve(1).is_err(), "it is being dealt with");
    assert!(inbound.frame().await.is_none());
    assert!(budget.reserve(4_000).is_ok(), "more was asked for");
    drop((rest, inbound));
}

#[tokio::test]
async fn p10_a_large_buffer_counts_until_the_library_lets_go_of_it() {
    let budget = Budget::new(MIB);
    let mut incoming = streaming(&budget, vec![message(700_000)], Duration::ZERO);
    assert!(!incoming.holds_empty_buffer(0));
    incoming.frame().await.unwrap().unwrap();
    assert!(!incoming.holds_empty_buffer(0), "the message is in it");
    assert!(incoming.frame().await.is_none());
    assert!(incoming.holds_empty_buffer(1));
    assert!(budget.reserve(MIB / 2).is_err());
    incoming.note_buffer_release();
    assert!(!incoming.holds_empty_buffer(1));
    assert!(budget.reserve(MIB / 2).is_ok());
}

#[tokio::test(start_paused = true)]
async fn p10_incomplete_messages_have_the_time_limit_of_a_body() {
    let budget = Budget::new(MIB);
    let drips = |message: &[u8]| message.chunks(1).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let second = Duration::from_secs(1);
    // The first message has its time from the beginning, a later one from its first byte.
    let dripping = drips(&message(100));
    let (frames, ended) = read(streaming(&budget, dripping.clone(), second)).await;
    let ended = ended.expect("it is not waited for");
    assert_eq!((ended.code(), frames), (tonic::Code::DeadlineExceeded, 30));
    assert!(ended.message().contains("30 s (server.request_timeout)"), "{ended:?}");
    let later: Vec<_> = drips(&message(10)).into_iter().chain(dripping.clone()).collect();
    let (frames, ended) = read(streaming(&budget, later, second)).await;
    assert!(ended.is_some());
    assert_eq!(frames, 15 + 31);
    // One part holds the end of the previous message, too.
    let mut both = message(10);
    both.push(0);
    let later: Vec<_> = std::iter::once(both).chain(dripping[1..].iter().cloned()).collect();
    let (frames, ended) = read(streaming(&budget, later, second)).await;
    assert!(ended.is_some());
    assert_eq!(frames, 31);
    // Between complete messages a stream may rest without a limit.
    let whole = vec![message(10); 3];
    let (frames, ended) = read(streaming(&budget, whole, Duration::from_secs(29))).await;
    assert_eq!((frames, ended.map(|it| it.code())), (3, None));
    let rare = [message(10), message(10)].concat();
    let mut inbound = streaming(&budget, vec![rare, message(10)], Duration::from_secs(29));
    inbound.frame().await.unwrap().unwrap();
    sleep(Duration::from_secs(3_600)).await;
    inbound.frame().await.unwrap().unwrap();
    // Arrived bytes count as in time, even if they are read late.
    let halves = message(10);
    let halves = vec![halves[..7].to_vec(), halves[7..].to_vec()];
    let mut inbound = streaming(&budget, halves, Duration::ZERO);
    inbound.frame().await.unwrap().unwrap();
    sleep(Duration::from_secs(3_600)).await;
    inbound.frame().await.unwrap().expect("it came long ago");
}

#[test]
fn p10_oversized_messages_are_refused_by_their_head() {
    let mut messages = MessageCounter::new(Budget::new(1 << 20).empty_reservation(), up_to(1_000));
    messages.count(&message(1_000)).unwrap();
    let head = message(1_001);
    messages.count(&head[..4]).unwrap();
    let refused = messages.count(&head[4..5]).unwrap_err();
    assert_eq!(refused.code(), Code::RequestTooLarge);
    assert!(refused.into_body().detail.ends_with("this one has 1001: send less"));
}
