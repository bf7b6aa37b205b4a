use std::{convert::Infallible, future::pending};

use futures::{
    FutureExt, StreamExt,
    future::{Either, select},
    stream,
};
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);

fn watched(progress: &WriteProgress, body: impl Into<Body>) -> Body {
    progress.watch(Response::new(body.into()), progress.begin_call(None)).into_body()
}

#[tokio::test(start_paused = true)]
async fn p10_unpolled_responses_time_out() {
    let progress = WriteProgress::new(TIMEOUT);
    let began = Instant::now();
    assert!(
        timeout(HOUR, progress.wait_for_write_timeout()).await.is_err(),
        "there is nothing to take"
    );
    let response = watched(&progress, "text");
    progress.wait_for_write_timeout().await;
    assert_eq!(began.elapsed(), HOUR + TIMEOUT);
    drop(response);
    assert!(
        timeout(HOUR, progress.wait_for_write_timeout()).await.is_err(),
        "nothing is left to take"
    );
}

#[tokio::test(start_paused = true)]
async fn p10_unwritten_parts_of_ended_responses_time_out() {
    let progress = WriteProgress::new(TIMEOUT);
    let mut response = watched(&progress, "text");
    let part = response.frame().await.unwrap().unwrap();
    drop(response);
    let began = Instant::now();
    progress.wait_for_write_timeout().await;
    assert_eq!(began.elapsed(), TIMEOUT);
    drop(part);
}

#[tokio::test(start_paused = true)]
async fn p10_written_bytes_extend_the_deadline() {
    // A part is 64 KiB, which earns four seconds.
    for (seconds, parts_read) in [(4, 64), (5, 25)] {
        let progress = WriteProgress::new(TIMEOUT);
        let mut response = watched(&progress, vec![7; 64 * PART_BYTES_MAX]);
        let mut parts = 0;
        while let Some(part) = response.frame().await {
            let pace = std::pin::pin!(sleep(Duration::from_secs(seconds)));
            let write_timeout = std::pin::pin!(progress.wait_for_write_timeout());
            if let Either::Left(_) = select(write_timeout, pace).await {
                break;
            }
            drop(part);
            parts += 1;
        }
        assert_eq!(parts, parts_read, "{seconds} s a part");
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_responses_have_no_deadline() {
    let progress = WriteProgress::new(TIMEOUT);
    let first = stream::iter([Ok::<_, Infallible>("first")]);
    let body = Body::from_stream(first.chain(stream::once(pending())));
    let mut response = watched(&progress, body);
    drop(response.frame().await.unwrap().unwrap());
    assert!(response.frame().now_or_never().is_none());
    assert!(timeout(HOUR, progress.wait_for_write_timeout()).await.is_err());
}

#[tokio::test]
async fn an_answer_is_the_same_in_parts() {
    let progress = WriteProgress::new(TIMEOUT);
    let bytes: Vec<u8> = (0..3 * PART_BYTES_MAX + 1).map(|i| (i % 251) as u8).collect();
    let mut response = watched(&progress, bytes.clone());
    let mut seen = Vec::new();
    while !response.is_end_stream() {
        assert_eq!(response.size_hint().exact(), Some((bytes.len() - seen.len()) as u64));
        let part = response.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(part.len() <= PART_BYTES_MAX);
        seen.extend_from_slice(&part);
    }
    assert!(response.frame().await.is_none());
    assert_eq!(seen, bytes);
}

#[tokio::test(start_paused = true)]
async fn p10_a_connection_is_idle_from_its_last_call_on() {
    let progress = WriteProgress::new(HOUR);
    let began = Instant::now();
    progress.wait_for_idle_timeout(TIMEOUT, began).await;
    assert_eq!(began.elapsed(), TIMEOUT, "nothing ever came");
    let idle_timeout = |from| timeout(2 * TIMEOUT, progress.wait_for_idle_timeout(TIMEOUT, from));
    let call = progress.begin_call(None);
    assert!(idle_timeout(began).await.is_err(), "a call waits");
    let mut response = progress.watch(Response::new("text".into()), call).into_body();
    assert!(idle_timeout(began).await.is_err(), "an answer is not asked for");
    let part = response.frame().await.unwrap().unwrap();
    drop(response);
    assert!(idle_timeout(began).await.is_err(), "a part is not let go");
    drop(part);
    let began = Instant::now();
    sleep(TIMEOUT / 2).await;
    progress.wait_for_idle_timeout(TIMEOUT, began).await;
    assert_eq!(began.elapsed(), TIMEOUT);
    let again = Instant::now();
    progress.wait_for_idle_timeout(TIMEOUT, again).await;
    assert_eq!(again.elapsed(), TIMEOUT, "as long once more");
}

#[tokio::test(start_paused = true)]
async fn quiet_streams_count_as_calls() {
    let progress = WriteProgress::new(TIMEOUT);
    let mut response =
        watched(&progress, Body::from_stream(stream::once(pending::<Result<Bytes, Infallible>>())));
    assert!(response.frame().now_or_never().is_none());
    assert!(timeout(HOUR, progress.wait_for_idle_timeout(TIMEOUT, Instant::now())).await.is_err());
}
