//! Commit latency per tenth of a second, so that the effect of background work is visible.

use std::{fmt::Write as _, fs, path::Path, time::Duration};

use super::background::{Background, Kind};
use crate::{
    error::{Error, Result},
    latency::Latencies,
};

/// Length of an interval.
const INTERVAL: Duration = Duration::from_millis(100);

/// Intervals from the start of the run on.
#[derive(Debug)]
pub(super) struct Series(Vec<Interval>);

#[derive(Debug, Clone)]
struct Interval {
    /// Latencies of calls whose send time is in the interval.
    latencies: Latencies,
    /// Items whose results came in the interval.
    answered: u64,
}

/// One interval as figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Start of the interval, in seconds.
    pub(super) seconds: f64,
    /// Items per second whose results came in the interval.
    pub(super) per_second: f64,
    /// p99 latency of calls whose send time is in the interval, if there is one.
    pub(super) p99_ms: Option<f64>,
    /// Highest latency of calls whose send time is in the interval, if there is one.
    pub(super) max_ms: Option<f64>,
}

impl Series {
    /// Creates a series with intervals up to `end`.
    pub(super) fn until(end: Duration) -> Self {
        let mut series = Self(Vec::new());
        series.at(end.saturating_sub(Duration::from_nanos(1)));
        series
    }

    /// Records a call: its send time, the time of its result, and its latency.
    pub(super) fn record(
        &mut self,
        scheduled: Duration,
        done: Duration,
        took: Duration,
        items: u64,
    ) {
        self.at(scheduled).latencies.record(took);
        self.at(done).answered += items;
    }

    fn at(&mut self, time: Duration) -> &mut Interval {
        let place = usize::try_from(time.as_millis() / INTERVAL.as_millis()).expect("hours fit");
        if place >= self.0.len() {
            let empty = Interval { latencies: Latencies::new(), answered: 0 };
            self.0.resize(place + 1, empty);
        }
        &mut self.0[place]
    }

    /// Returns every interval.
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    pub(super) fn points(&self) -> impl Iterator<Item = Point> {
        let seconds = INTERVAL.as_secs_f64();
        self.0.iter().enumerate().map(move |(place, interval)| Point {
            seconds: place as f64 * seconds,
            per_second: interval.answered as f64 / seconds,
            p99_ms: interval.quantile_ms(0.99),
            max_ms: interval.quantile_ms(1.0),
        })
    }
}

impl Interval {
    fn quantile_ms(&self, share: f64) -> Option<f64> {
        (self.latencies.count() > 0).then(|| self.latencies.quantile_ms(share))
    }
}

/// Writes both series as one table; cells of the shorter one are empty.
pub(super) fn write_csv(
    path: &Path,
    ran: &Series,
    floor: &Series,
    background: &Background,
) -> Result<()> {
    fs::write(path, csv(ran, floor, background)).map_err(Error::io("write", path))
}

fn csv(ran: &Series, floor: &Series, background: &Background) -> String {
    let mut text =
        "seconds,per_second,p99_ms,max_ms,floor_p99_ms,floor_max_ms,checkpoint,run,spare\n"
            .to_owned();
    let (mut ran, mut floor) = (ran.points(), floor.points());
    loop {
        let (own, floor) = (ran.next(), floor.next());
        let Some(seconds) = own.or(floor).map(|point| point.seconds) else {
            return text;
        };
        let own = own.map_or(",,".to_owned(), |own| {
            format!("{:.0},{},{}", own.per_second, shown(own.p99_ms), shown(own.max_ms))
        });
        let floor = floor.map_or(",".to_owned(), |floor| {
            format!("{},{}", shown(floor.p99_ms), shown(floor.max_ms))
        });
        let work = Kind::ALL
            .map(|kind| u8::from(background.went_on(kind, seconds, INTERVAL.as_secs_f64())))
            .map(|went_on| went_on.to_string())
            .join(",");
        writeln!(text, "{seconds:.1},{own},{floor},{work}").expect("a string takes all");
    }
}

fn shown(ms: Option<f64>) -> String {
    ms.map_or_else(String::new, |ms| format!("{ms:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_visible_in_its_intervals() {
        let ms = Duration::from_millis;
        let mut series = Series::until(ms(300));
        series.record(ms(10), ms(12), ms(2), 5);
        series.record(ms(110), ms(350), ms(240), 7);
        let points: Vec<_> = series.points().collect();
        assert_eq!(points.len(), 4);
        assert!((points[1].max_ms.unwrap() - 240.0).abs() < 1.0);
        assert_eq!(points[2].max_ms, None);
        assert!((points[3].per_second - 70.0).abs() < 0.1 && points[1].per_second.abs() < 0.1);
        let text = csv(&series, &Series::until(ms(100)), &Background::default());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines[1].starts_with("0.0,50,2.00") && lines[1].ends_with(",,,0,0,0"), "{text}");
        assert!(lines[4].ends_with(",,0,0,0"), "{text}");
    }
}
