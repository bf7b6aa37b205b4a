//! The checks for a kind of receiver without HTTP: one in memory.

use duly_core::timer::AttemptOutcome;
use parking_lot::Mutex;

use super::*;
use crate::cloud_event;

struct Memory {
    behaviour: Mutex<Behaviour>,
    arrivals: Mutex<Vec<Arrival>>,
}

/// The place of a receiver in memory.
struct Place;

impl Sink<Place> for Memory {
    fn deliver(&self, envelope: Envelope<Place>) -> BoxFuture<'_, Delivery> {
        Box::pin(async move {
            if envelope.deadline <= Instant::now() {
                return Delivery::failed(AttemptOutcome::NotConnected, "too late");
            }
            let spec = &envelope.spec;
            let attributes = cloud_event::attributes(&envelope, &spec.headers);
            let attributes =
                attributes.into_iter().map(|(name, value)| self.attribute(name, &value));
            let user = spec.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            let own = [
                ("duly-attempt".to_owned(), envelope.attempt.to_string()),
                ("duly-due-at".to_owned(), envelope.due_at.to_string()),
                ("traceparent".to_owned(), envelope.trace_parent().unwrap_or_default().to_owned()),
            ];
            let headers = user.chain(attributes).chain(own).collect();
            let body = spec.payload.as_ref().map_or_else(Vec::new, |it| it.bytes.to_vec());
            self.arrivals.lock().push(Arrival { body, headers });
            let behaviour = *self.behaviour.lock();
            match behaviour {
                Behaviour::Confirm => Delivery::Confirmed,
                Behaviour::Refuse => Delivery::failed(AttemptOutcome::Failed, "no"),
                Behaviour::Hang => {
                    tokio::time::sleep_until(envelope.deadline.into()).await;
                    Delivery::failed(AttemptOutcome::TimedOut, "silence")
                }
            }
        })
    }
}

impl Receiver for Memory {
    type Destination = Place;
    fn sink(&self) -> &dyn Sink<Place> {
        self
    }
    fn destination(&self) -> Place {
        Place
    }
    fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock() = behaviour;
    }
    fn arrivals(&self) -> BoxFuture<'_, Vec<Arrival>> {
        Box::pin(async { std::mem::take(&mut *self.arrivals.lock()) })
    }
    fn attribute(&self, name: &str, value: &str) -> (String, String) {
        (format!("ce_{name}"), value.to_owned())
    }
    fn added(&self, _: &str) -> Vec<(String, String)> {
        Vec::new()
    }
}

#[tokio::test]
async fn a_kind_without_http_conforms() {
    let (behaviour, arrivals) = (Mutex::new(Behaviour::Confirm), Mutex::default());
    all(&Memory { behaviour, arrivals }).await;
}
