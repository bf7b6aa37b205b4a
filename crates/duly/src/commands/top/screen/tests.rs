use super::*;
use crate::commands::top::view::Activity;

fn activity(scheduled: f64) -> Activity {
    let (cancelled, fired, acknowledged, failed) = (0.0, 12.5, 12.0, 0.5);
    let (retried, dead, refused) = (0.0, 0.0, 12_345.0);
    Activity { scheduled, cancelled, fired, acknowledged, failed, retried, dead, refused }
}

fn row(name: &str, due: u64, breaker: Option<&'static str>, paused: bool) -> Row {
    Row {
        name: name.to_owned(),
        destination: "https://receiver.example/hooks".to_owned(),
        pending: 1_234_567,
        due,
        in_flight: 3,
        fired_per_second: 12.5,
        breaker,
        paused,
    }
}

fn view() -> View {
    View {
        interval_ms: 1_000,
        version: Some("0.1.0".to_owned()),
        ready: true,
        reasons: Vec::new(),
        restarted: false,
        per_second: activity(1_500.0),
        totals: activity(1e6),
        lateness: Some(Quantiles { count: 12, p50_ms: 0.5, p99_ms: 42.0, max_ms: Some(50.0) }),
        commit: None,
        pending: 1_234_567,
        due: 42,
        in_flight: 3,
        dead: 0,
        oldest_due_ms: 61_000,
        disk_free_bytes: Some(60 << 30),
        resident_bytes: Some(100 << 20),
        namespaces: vec![row("orders", 40, Some("open"), false), row("mail", 2, None, true)],
        more_namespaces: false,
    }
}

const FRAME: ScreenFrame<'static> =
    ScreenFrame { server: "http://127.0.0.1:3859", unreachable_reason: None, keys: Some("q quit") };

fn shown(view: Option<&View>, frame: &ScreenFrame<'_>, columns: usize, rows: usize) -> Vec<String> {
    lines(view, frame, Size { columns, rows }).into_iter().map(|line| line.1).collect()
}

#[test]
fn a_screen_of_80_by_24_has_everything() {
    let expected = "\
ready  http://127.0.0.1:3859  0.1.0

scheduled   1500/s  cancelled      0/s  fired       12.5/s  acked       12.0/s
failed       0.5/s  retried        0/s  dead           0/s  refused    12.3k/s
late p50   0.50 ms  late p99     42 ms  late max   <=50 ms
commit p50       -  commit p99       -  commit max       -
pending       1.2M  due             42  oldest       1m 1s  in flight        3
dead             0  disk free 60.0 GiB  memory   100.0 MiB

NAMESPACE        DESTINATION        PENDING      DUE  FLIGHT  FIRED/S STATE
orders           https://receiver…     1.2M       40       3     12.5 open
mail             https://receiver…     1.2M        2       3     12.5 paused
q quit";
    let shown = shown(Some(&view()), &FRAME, 80, 24);
    assert_eq!(shown.join("\n"), expected, "\n{}", shown.join("\n"));
}

fn ends_with_keys(shown: &[String]) -> bool {
    shown.last().is_some_and(|line| line == "q quit")
}

#[test]
fn lines_fit_every_size_and_keep_the_keys() {
    let mut view = view();
    view.ready = false;
    view.reasons = vec!["the disk is full ".repeat(20); 9];
    view.namespaces = vec![row(&"größe".repeat(40), 1, None, false); 100];
    for gone in [None, Some("the server is gone: ".repeat(9))] {
        let frame = ScreenFrame { unreachable_reason: gone.as_deref(), ..FRAME };
        for columns in [0, 1, 5, 6, 19, 20, 21, 39, 40, 41, 71, 72, 73, 80, 200] {
            for rows in [0, 1, 2, 3, 10, 24, 1_000] {
                for view in [None, Some(&view)] {
                    let shown = shown(view, &frame, columns, rows);
                    assert!(shown.len() <= rows, "{columns}x{rows}");
                    let longest = shown.iter().map(|line| line.chars().count()).max();
                    assert!(longest.unwrap_or(0) <= columns, "{columns}x{rows}: {shown:?}");
                    assert!(rows == 0 || columns < 6 || ends_with_keys(&shown));
                }
            }
        }
    }
}

#[test]
fn a_tiny_screen_begins_with_the_state_and_ends_with_the_keys() {
    let shown = shown(Some(&view()), &FRAME, 40, 10);
    assert_eq!(shown.len(), 10);
    assert_eq!(shown[0], "ready  http://127.0.0.1:3859  0.1.0");
    assert_eq!(shown[2], "scheduled   1500/s  cancelled      0/s");
    assert_eq!(shown[9], "q quit");
}

#[test]
fn unreachable_server_keeps_its_old_figures() {
    let frame = ScreenFrame { unreachable_reason: Some("no Duly server answers"), ..FRAME };
    let shown = shown(Some(&view()), &frame, 200, 30);
    assert!(shown[0].starts_with("no response  http://127.0.0.1:3859"), "{shown:?}");
    assert!(shown[1].contains("polling again"), "{shown:?}");
    assert!(shown.iter().any(|line| line.starts_with("orders")), "{shown:?}");
}

#[test]
fn foreign_text_is_escaped() {
    let mut view = view();
    view.ready = false;
    view.reasons = vec!["\u{1b}[2J".to_owned()];
    view.version = Some("\u{9b}1".to_owned());
    view.namespaces = vec![row("\u{202e}x", 1, None, false)];
    let all = shown(Some(&view), &FRAME, 120, 30).concat();
    assert!(!all.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{all:?}");
}
