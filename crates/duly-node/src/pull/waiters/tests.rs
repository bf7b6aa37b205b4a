use super::*;

type Line = Waiters<&'static str, &'static str>;

fn ns(name: &str) -> NamespaceName {
    NamespaceName::new(name).unwrap()
}

fn line() -> Line {
    Waiters::new(5)
}

fn push(line: &mut Line, name: &'static str, mode: WaitMode) -> (u64, Serve) {
    line.push(&ns("a"), name, mode, name).unwrap()
}

/// Answers the call at the head.
fn answer(line: &mut Line) -> Option<&'static str> {
    let head = line.head(&ns("a"))?;
    let answer = line.take(&ns("a"), head.id);
    assert_eq!(answer, Some(head.request));
    answer
}

#[test]
fn calls_are_answered_in_order_of_arrival() {
    let mut line = line();
    assert_eq!(push(&mut line, "1", WaitMode::Waits).1, Serve::Start);
    assert_eq!(push(&mut line, "2", WaitMode::OneTry).1, Serve::Not);
    assert_eq!(push(&mut line, "3", WaitMode::Waits).1, Serve::Not);
    assert_eq!(line.len(), 3);
    let answered = [answer(&mut line), answer(&mut line), answer(&mut line), answer(&mut line)];
    assert_eq!(answered, [Some("1"), Some("2"), Some("3"), None]);
    assert_eq!(line.len(), 0);
    // Serving has ended, so the next call starts it again.
    assert_eq!(push(&mut line, "4", WaitMode::Waits).1, Serve::Start);
}

#[test]
fn a_single_try_returns_empty_and_others_stay() {
    let mut line = line();
    let _id = push(&mut line, "waits", WaitMode::Waits);
    let _id = push(&mut line, "tries", WaitMode::OneTry);
    let head = line.head(&ns("a")).unwrap();
    assert_eq!(head.request, "waits");
    // Arrived after the claim began: it was not tried yet.
    let _id = push(&mut line, "late", WaitMode::OneTry);
    let (answers, next) = line.empty(&ns("a"), head.arrived_before);
    assert_eq!((answers, next), (vec!["tries"], EmptyClaim::Again));
    let head = line.head(&ns("a")).unwrap();
    let (answers, next) = line.empty(&ns("a"), head.arrived_before);
    assert_eq!((answers, next), (vec!["late"], EmptyClaim::Ended));
    assert_eq!(line.len(), 1);
    // A firing that becomes ready later is for the call that still waits.
    assert_eq!(line.ready(&ns("a")), Serve::Start);
    assert_eq!(answer(&mut line), Some("waits"));
}

#[test]
fn a_signal_while_serving_is_not_lost() {
    let mut line = line();
    let _id = push(&mut line, "1", WaitMode::Waits);
    let head = line.head(&ns("a")).unwrap();
    assert_eq!(line.ready(&ns("a")), Serve::Not);
    assert_eq!(line.empty(&ns("a"), head.arrived_before).1, EmptyClaim::Again);
    let head = line.head(&ns("a")).unwrap();
    assert_eq!(line.empty(&ns("a"), head.arrived_before).1, EmptyClaim::Ended);
}

#[test]
fn namespaces_without_calls_are_not_served() {
    let mut line = line();
    assert_eq!(line.ready(&ns("a")), Serve::Not);
    let _id = push(&mut line, "1", WaitMode::Waits);
    assert_eq!(line.ready(&ns("b")), Serve::Not);
}

#[test]
fn a_caller_that_leaves_frees_its_place() {
    let mut line = line();
    let (first, _) = push(&mut line, "1", WaitMode::Waits);
    let (second, _) = push(&mut line, "2", WaitMode::Waits);
    assert_eq!(line.take(&ns("a"), first), Some("1"));
    assert_eq!(line.take(&ns("a"), first), None);
    assert_eq!(line.head(&ns("a")).unwrap().id, second);
    assert_eq!(line.take(&ns("b"), second), None);
    assert_eq!(line.len(), 1);
}

#[test]
fn p10_waiting_calls_are_bounded() {
    let mut line = line();
    for name in ["a", "b", "c", "d", "e"] {
        assert!(line.push(&ns(name), name, WaitMode::Waits, name).is_some());
    }
    assert!(line.push(&ns("a"), "f", WaitMode::Waits, "f").is_none());
    assert_eq!(line.take_namespace(&ns("a")), ["a"]);
    assert!(line.push(&ns("a"), "f", WaitMode::Waits, "f").is_some());
    let mut rest = line.take_all();
    rest.sort_unstable();
    assert_eq!(rest, ["b", "c", "d", "e", "f"]);
    assert_eq!(line.len(), 0);
}

#[test]
fn t23_every_fourth_lease_prefers_retries() {
    let mut line = line();
    let mut orders = Vec::new();
    for _ in 0..8 {
        let _id = push(&mut line, "x", WaitMode::OneTry);
        let head = line.head(&ns("a")).unwrap();
        orders.push(head.order == ClaimOrder::Retries);
        line.take(&ns("a"), head.id);
        assert!(line.head(&ns("a")).is_none());
    }
    let t = true;
    let f = false;
    assert_eq!(orders, [f, f, f, t, f, f, f, t]);
}

#[test]
fn namespaces_that_were_waited_for_are_named_once() {
    let mut line = line();
    let _id = push(&mut line, "gone", WaitMode::OneTry);
    let answered = answer(&mut line);
    assert_eq!(answered, Some("gone"));
    assert_eq!(line.take_waited(), BTreeSet::from([ns("a")]));
    assert_eq!(line.take_waited(), BTreeSet::new());
    let _id = push(&mut line, "waits", WaitMode::Waits);
    for _ in 0..2 {
        assert_eq!(line.take_waited(), BTreeSet::from([ns("a")]), "it waits");
    }
}
