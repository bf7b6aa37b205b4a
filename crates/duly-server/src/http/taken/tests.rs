use std::{convert::Infallible, future::pending};

use futures::{
    FutureExt, StreamExt,
    future::{Either, select},
    stream,
};
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);

fn watched(taken: &Taken, body: impl Into<Body>) -> Body {
    taken.watch(Response::new(body.into()), taken.begin()).into_body()
}

#[tokio::test(start_paused = true)]
async fn p10_unpolled_responses_time_out() {
    let taken = Taken::new(PATIENCE);
    let began = Instant::now();
    assert!(timeout(HOUR, taken.given_up()).await.is_err(), "there is nothing to take");
    let answer = watched(&taken, "text");
    taken.given_up().await;
    assert_eq!(began.elapsed(), HOUR + PATIENCE);
    drop(answer);
    assert!(timeout(HOUR, taken.given_up()).await.is_err(), "nothing is left to take");
}

#[tokio::test(start_paused = true)]
async fn p10_unwritten_parts_of_ended_responses_time_out() {
    let taken = Taken::new(PATIENCE);
    let mut answer = watched(&taken, "text");
    let part = answer.frame().await.unwrap().unwrap();
    drop(answer);
    let began = Instant::now();
    taken.given_up().await;
    assert_eq!(began.elapsed(), PATIENCE);
    drop(part);
}

#[tokio::test(start_paused = true)]
async fn p10_written_bytes_extend_the_deadline() {
    // A part is 64 KiB, which earns four seconds.
    for (seconds, parts_taken) in [(4, 64), (5, 25)] {
        let taken = Taken::new(PATIENCE);
        let mut answer = watched(&taken, vec![7; 64 * PART_BYTES_MAX]);
        let mut parts = 0;
        while let Some(part) = answer.frame().await {
            let pace = std::pin::pin!(sleep(Duration::from_secs(seconds)));
            let given_up = std::pin::pin!(taken.given_up());
            if let Either::Left(_) = select(given_up, pace).await {
                break;
            }
            drop(part);
            parts += 1;
        }
        assert_eq!(parts, parts_taken, "{seconds} s a part");
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_responses_have_no_deadline() {
    let taken = Taken::new(PATIENCE);
    let first = stream::iter([Ok::<_, Infallible>("first")]);
    let body = Body::from_stream(first.chain(stream::once(pending())));
    let mut answer = watched(&taken, body);
    drop(answer.frame().await.unwrap().unwrap());
    assert!(answer.frame().now_or_never().is_none());
    assert!(timeout(HOUR, taken.given_up()).await.is_err());
}

#[tokio::test]
async fn an_answer_is_the_same_in_parts() {
    let taken = Taken::new(PATIENCE);
    let bytes: Vec<u8> = (0..3 * PART_BYTES_MAX + 1).map(|i| (i % 251) as u8).collect();
    let mut answer = watched(&taken, bytes.clone());
    let mut seen = Vec::new();
    while !answer.is_end_stream() {
        assert_eq!(answer.size_hint().exact(), Some((bytes.len() - seen.len()) as u64));
        let part = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(part.len() <= PART_BYTES_MAX);
        seen.extend_from_slice(&part);
    }
    assert!(answer.frame().await.is_none());
    assert_eq!(seen, bytes);
}

#[tokio::test(start_paused = true)]
async fn p10_a_connection_rests_from_its_last_call_on() {
    let taken = Taken::new(HOUR);
    let began = Instant::now();
    taken.rested(PATIENCE, began).await;
    assert_eq!(began.elapsed(), PATIENCE, "nothing ever came");
    let rested = |from| timeout(2 * PATIENCE, taken.rested(PATIENCE, from));
    let call = taken.begin();
    assert!(rested(began).await.is_err(), "a call waits");
    let mut answer = taken.watch(Response::new("text".into()), call).into_body();
    assert!(rested(began).await.is_err(), "an answer is not asked for");
    let part = answer.frame().await.unwrap().unwrap();
    drop(answer);
    assert!(rested(began).await.is_err(), "a part is not let go");
    drop(part);
    let began = Instant::now();
    sleep(PATIENCE / 2).await;
    taken.rested(PATIENCE, began).await;
    assert_eq!(began.elapsed(), PATIENCE);
    let again = Instant::now();
    taken.rested(PATIENCE, again).await;
    assert_eq!(again.elapsed(), PATIENCE, "as long once more");
}

#[tokio::test(start_paused = true)]
async fn quiet_streams_count_as_calls() {
    let taken = Taken::new(PATIENCE);
    let mut answer =
        watched(&taken, Body::from_stream(stream::once(pending::<Result<Bytes, Infallible>>())));
    assert!(answer.frame().now_or_never().is_none());
    assert!(timeout(HOUR, taken.rested(PATIENCE, Instant::now())).await.is_err());
}
