//! Subject `namespaces`: many namespaces with a few timers each, all due within one second and sent
//! to one receiver. It measures the time until all are received, and the fairness between
//! namespaces.
//!
//! The receiver is a webhook receiver: a lease call names its namespace, so with leases the
//! consumer would determine the order.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use anyhow::Result;
use tokio::{task::JoinSet, time::Instant};

use super::{Run, at, scattered, webhooks::Times};
use crate::{
    clock::{now_ms, seconds_since},
    fairness::Fairness,
    offer::Batches,
    transport::{Operation, Settings},
};

/// Range of the due times.
const SPAN_MS: u64 = 1_000;
/// Callers that create and fill the namespaces. A call is about one namespace, and this number of
/// calls can share a commit.
pub(crate) const CALLERS: usize = 64;

impl Run {
    pub(super) async fn namespaces(&mut self) -> Result<()> {
        let (namespaces, each) = self.options.namespaces();
        let (namespaces, each) = (u64::from(namespaces), u64::from(each));
        let times_us: Times = (0..self.timers).map(|_| AtomicU64::new(0)).collect();
        let receiver = self.receive(Some(Arc::clone(&times_us)))?;
        let url = receiver.url();

        self.say("making the namespaces");
        let began = Instant::now();
        let names = self.make_all(namespaces, Some(url)).await?;
        // Filling takes as many calls as creating.
        let made_ms = u64::try_from(began.elapsed().as_millis())?;
        let first_ms = now_ms() + Self::lead_ms(self.timers) + 3 * made_ms;
        self.say("scheduling");
        self.fill_all(&names, each, first_ms).await?;
        if self.stop.is_wanted() {
            return Ok(());
        }
        self.ensure_still_ahead(first_ms)?;

        self.say("firing");
        self.measured.begin(at(first_ms));
        self.await_deliveries(first_ms + SPAN_MS).await;
        if self.stop.is_wanted() {
            return Ok(());
        }
        self.report_out(&times_us, usize::try_from(each)?, first_ms);
        self.ensure_confirmed(names).await
    }

    /// Creates every namespace, with a webhook destination if there is a URL; returns their names.
    pub(super) async fn make_all(
        &self,
        namespaces: u64,
        url: Option<String>,
    ) -> Result<Arc<[String]>> {
        let settings = Arc::new(Settings { url, lease: None });
        let target = Arc::clone(&self.target);
        self.each_of(usize::try_from(namespaces)?, move |line, place| {
            let (target, settings) = (Arc::clone(&target), Arc::clone(&settings));
            async move { target.make(line, &place.to_string(), &settings).await.map(drop) }
        })
        .await?;
        let main = &self.target.namespace;
        Ok((0..namespaces).map(|place| format!("{main}-{place}")).collect())
    }

    /// Schedules the timers of every namespace, with one call each.
    pub(super) async fn fill_all(
        &self,
        names: &Arc<[String]>,
        each: u64,
        first_ms: u64,
    ) -> Result<()> {
        let batches = self.batches(Arc::new(|_| Vec::new()));
        let (own, prepared) = (Arc::clone(names), Arc::clone(&self.prepared));
        prepared.begin(Instant::now());
        self.each_of(names.len(), move |line, place| {
            let (batches, names) = (Arc::clone(&batches), Arc::clone(&own));
            let prepared = Arc::clone(&prepared);
            async move {
                let numbers = place as u64 * each..(place as u64 + 1) * each;
                let due_ms = |number| first_ms + scattered(number) % SPAN_MS;
                let schedule = |number| Operation::Schedule { number, due_ms: due_ms(number) };
                let operations: Vec<_> = numbers.map(schedule).collect();
                let sent = Batches::call(&batches, line, &names[place], &operations).await?;
                let took = sent.ended - sent.began;
                prepared.record(u64::try_from(took.as_micros())?, sent.answered);
                Ok(())
            }
        })
        .await
    }

    /// Runs `does` for each of `count` namespaces, over all connections, until the run is to stop.
    pub(super) async fn each_of<F, D>(&self, count: usize, does: F) -> Result<()>
    where
        F: Fn(usize, usize) -> D + Clone + Send + 'static,
        D: Future<Output = Result<()>> + Send + 'static,
    {
        let next = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for line in 0..CALLERS {
            let (next, stop, does) = (Arc::clone(&next), self.stop.clone(), does.clone());
            callers.spawn(async move {
                while !stop.is_wanted() {
                    let place = next.fetch_add(1, Relaxed);
                    if place >= count {
                        break;
                    }
                    does(line, place).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(caller) = callers.join_next().await {
            caller??;
        }
        Ok(())
    }

    fn report_out(&mut self, times_us: &[AtomicU64], each: usize, first_ms: u64) {
        let came: Vec<u64> = times_us.iter().map(|at_us| at_us.load(Relaxed)).collect();
        if came.contains(&0) {
            // Some firings are lost, which the report says. The fairness of the others would mean
            // nothing.
            return;
        }
        let last_us = came.iter().copied().max().unwrap_or(0);
        let out = seconds_since(first_ms, last_us);
        self.table.add("all out, from the beginning of the second", "s", out);
        let ideal = |number: usize| (first_ms + scattered(number as u64) % SPAN_MS) * 1_000;
        let ideal: Vec<u64> = (0..came.len()).map(ideal).collect();
        let ideal = Fairness::of(&ideal, each, first_ms);
        Fairness::of(&came, each, first_ms).add_into(&ideal, &mut self.table);
    }
}
