//! Carries commands out, and creates their namespace where that is allowed.

use std::collections::BTreeSet;

use duly_core::{
    Code, NamespaceName, access::Action, error_code::Retry, similar_name::most_similar,
};
use duly_node::TimerSpan;
use duly_store::{
    Answer, Command, Error, Operation, Outcome, Refusal, Sharded,
    namespaces::{IDLE_AFTER, Put},
};

use futures::{StreamExt, stream};

use super::{
    Admitted, CheckedCommand, ImplicitNamespaces,
    reading::{ATTEMPTS_MAX, grow_for_timer},
};
use crate::{
    memory::budget::{Reservation, SMALL_BYTES_MAX, TINY_BYTES_MAX, over_budget},
    problem::{Problem, refusal_texts::OperationKind},
    telemetry,
    tenants::{Admission, NamespaceAdmission, adds_nothing, makes_timer},
};

/// Timers that are looked up at the same time.
const LOOKED_UP_AT_ONCE: usize = 8;
/// Namespaces that are searched for one with a similar name.
const SIMILAR_MAX: usize = 200;

impl Admitted {
    /// Returns the store with all shards as one.
    pub(super) fn sharded(&self) -> Sharded<'_> {
        Sharded::new(&*self.store)
    }

    /// Carries out an operation, without creating its namespace.
    pub(crate) async fn apply_checked(&self, command: CheckedCommand) -> Result<Outcome, Problem> {
        self.apply_one(command.into_command()).await
    }

    /// Carries out one command, without creating its namespace.
    pub(super) async fn apply_one(&self, mut command: Command) -> Result<Outcome, Problem> {
        self.note(|notes| notes.items += 1);
        if self.auth.tenants().of_namespace(command.namespace.as_str()).is_some() {
            let outcomes = self.apply(&command.namespace.clone(), vec![command]).await?;
            return outcomes.into_iter().next().ok_or_else(|| Problem::fault("no outcome"));
        }
        let kind = OperationKind::of(&command.operation);
        let namespace = command.namespace.clone();
        let span = self.traced(&mut command);
        let outcome = self.sharded().apply_one(command).await?;
        self.note(|notes| notes.has_changed |= outcome.has_changed());
        span.end(telemetry::outcome(&outcome), None);
        telemetry::record_operation(kind, &namespace, &outcome);
        Ok(outcome)
    }

    /// Carries out one operation whose request uses `reservation`.
    ///
    /// The reservation grows by the timer that the response shows, and by as much for its text. Without
    /// capacity for both, nothing changes.
    pub(crate) async fn apply_within(
        &self,
        command: CheckedCommand,
        reservation: &mut Reservation,
    ) -> Result<Outcome, Problem> {
        let own = reservation.bytes();
        let all = reservation.grow_up_to(own + SMALL_BYTES_MAX, own + TINY_BYTES_MAX / 2)?;
        let bytes_max = ((all - own) / 2) as u64;
        let answer = Answer::Within(bytes_max);
        let mut command = Command { answer, ..command.into_command() };
        for _ in 0..ATTEMPTS_MAX {
            match self.apply_one(command.clone()).await? {
                Outcome::Failed(Error::TooLarge { bytes }) => {
                    grow_for_timer(reservation, own as u64 + bytes)?;
                    command.answer = Answer::Within(bytes);
                }
                Outcome::Refused(Refusal::UnknownNamespace(name)) if self.creates(&command) => {
                    self.create_implicitly(name).await?;
                }
                outcome => return Ok(outcome),
            }
        }
        Err(over_budget())
    }

    /// Carries out commands of one namespace. Returns one outcome for each, in their order. A shard that
    /// fails refuses only its own commands, unless all shards fail.
    pub(super) async fn apply_many(
        &self,
        namespace: &NamespaceName,
        commands: Vec<Command>,
    ) -> Result<Vec<Outcome>, Problem> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.note(|notes| notes.items += commands.len() as u64);
        if !commands.iter().any(|command| self.creates(command)) {
            return Ok(self.apply(namespace, commands).await?);
        }
        match self.store.get_namespace(namespace.clone()).await? {
            Some(found) => {
                let age = self.now().saturating_since(found.created_at);
                if age >= IDLE_AFTER && found.created_at == found.updated_at {
                    return Ok(self.apply_or_create(namespace, commands).await?);
                }
            }
            // The namespace is created before anything is carried out: a repeated command would lose its
            // order among the operations on its id.
            None => self.create_implicitly(namespace.clone()).await?,
        }
        Ok(self.apply(namespace, commands).await?)
    }

    /// Gives the timer of a schedule the trace context of the call, or that of its own span, which begins.
    fn traced(&self, command: &mut Command) -> TimerSpan {
        let Operation::Schedule { schedule, .. } = &mut command.operation else {
            return TimerSpan::default();
        };
        schedule.spec.trace_parent = self.trace_parent().map(str::to_owned);
        self.node.traces().schedule(&command.namespace, schedule)
    }

    /// Carries out those commands of a namespace that the limits of its tenant allow.
    async fn apply(
        &self,
        namespace: &NamespaceName,
        mut commands: Vec<Command>,
    ) -> duly_store::Result<Vec<Outcome>> {
        let kinds: Vec<_> = commands.iter().map(|it| OperationKind::of(&it.operation)).collect();
        let spans: Vec<_> = commands.iter_mut().map(|it| self.traced(it)).collect();
        let tenants = self.auth.tenants();
        let tenant = tenants.of_namespace(namespace.as_str());
        let outcomes = match tenant.and_then(|it| it.admit(&commands, self.clock.boot())) {
            None => self.sharded().apply(commands).await?,
            Some(mut admission) => {
                self.let_repeats_in(&mut admission, &commands).await;
                let permitted = admission.admitted(commands);
                if permitted.is_empty() {
                    admission.outcomes(Vec::new())
                } else {
                    match self.sharded().apply(permitted).await {
                        Ok(outcomes) => admission.outcomes(outcomes),
                        Err(error) => {
                            admission.failed(&error);
                            return Err(error);
                        }
                    }
                }
            }
        };
        self.note(|notes| notes.has_changed |= outcomes.iter().any(Outcome::has_changed));
        for ((kind, span), outcome) in kinds.into_iter().zip(spans).zip(&outcomes) {
            telemetry::record_operation(kind, namespace, outcome);
            span.end(telemetry::outcome(outcome), None);
        }
        Ok(outcomes)
    }

    /// Lets those commands of a full tenant in that add nothing, such as a repetition of an earlier call.
    async fn let_repeats_in(&self, admission: &mut Admission, commands: &[Command]) {
        let known = admission.refused(commands).into_iter().map(|position| async move {
            let command = &commands[position];
            let id = command.operation.id()?.clone();
            let known = self.read_timer(command.namespace.clone(), id).await.ok()?;
            adds_nothing(command, &known.value).then_some(position)
        });
        let known: Vec<_> = stream::iter(known).buffered(LOOKED_UP_AT_ONCE).collect().await;
        for position in known.into_iter().flatten() {
            admission.let_in(position);
        }
    }

    /// Carries out commands, and creates the namespace again if it was removed before the first of them.
    ///
    /// An idle namespace may be removed at any moment. The commands of a shard that carried one out are
    /// not repeated: they would lose their order.
    async fn apply_or_create(
        &self,
        namespace: &NamespaceName,
        commands: Vec<Command>,
    ) -> duly_store::Result<Vec<Outcome>> {
        let again = commands.clone();
        let shards = commands.iter().map(|command| command.shard(self.store.shards()));
        let shards: Vec<_> = shards.collect();
        let mut outcomes = self.apply(namespace, commands).await?;
        let is_gone = |outcome: &Outcome| {
            let undone = |refusal: &Refusal| {
                matches!(refusal, Refusal::UnknownNamespace(_) | Refusal::TenantLimit { .. })
            };
            matches!(outcome, Outcome::Refused(refusal) if undone(refusal))
        };
        let done: BTreeSet<_> = shards
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| !is_gone(outcome))
            .map(|(shard, _)| *shard)
            .collect();
        let (positions, again): (Vec<_>, Vec<_>) = again
            .into_iter()
            .enumerate()
            .filter(|(position, _)| !done.contains(&shards[*position]))
            .unzip();
        if !positions.is_empty() && self.create_implicitly(namespace.clone()).await.is_ok() {
            for (position, outcome) in
                positions.into_iter().zip(self.apply(namespace, again).await?)
            {
                outcomes[position] = outcome;
            }
        }
        Ok(outcomes)
    }

    /// Returns `true` if a command creates its namespace where there is none.
    pub(super) fn creates(&self, command: &Command) -> bool {
        self.implicit_namespaces == ImplicitNamespaces::Create && makes_timer(command)
    }

    pub(super) async fn create_implicitly(&self, name: NamespaceName) -> Result<(), Problem> {
        let tenants = self.auth.tenants();
        let tenant = tenants.of_namespace(name.as_str());
        if !tenant.is_some_and(|tenant| tenant.tenant().implicit_namespaces) {
            self.check(Action::Namespace).map_err(|problem| {
                problem.because(&format!(
                    "there is no namespace {:?}, and to create it",
                    name.as_str()
                ))
            })?;
        }
        let within = tenant.map(|tenant| tenant.admit_namespace()).transpose()?;
        self.admit_implicit().map_err(|wait| {
            let per_second = self.limits.implicit_namespaces_per_second;
            let detail = format!(
                "there is no namespace {:?}, and at most {per_second} a second are created \
                 implicitly (limits.implicit_namespaces_per_second): create it with \
                 PUT /v1/namespaces/{name}, or try again later",
                name.as_str()
            );
            Problem::new(Code::ResourceExhausted, detail).with_retry(Retry::After(wait))
        })?;
        let put = Put::IfAbsent(Box::new(self.defaults.clone()));
        let (namespace, is_new) = self.store.put_namespace(name, put).await?;
        if is_new {
            self.note(|notes| notes.has_changed = true);
            within.into_iter().for_each(NamespaceAdmission::keep);
            let name = &namespace.name;
            let similar = self.similar_namespace(name).await;
            let key = self.caller().key().map(|key| key.id.to_string());
            tracing::info!(namespace = %name, key, similar, "namespace created implicitly");
            let similar =
                similar.map(|similar| format!("; there is {similar:?} too")).unwrap_or_default();
            self.set_notice(format!(
                "there was no namespace {:?}: this call created it{similar}",
                name.as_str()
            ));
        }
        Ok(())
    }

    /// Returns the name of another namespace for which this one may be a typing error, of those that
    /// begin with the same letter.
    async fn similar_namespace(&self, name: &NamespaceName) -> Option<String> {
        let first = name.as_str().get(..1)?;
        let after = NamespaceName::new(first).ok();
        // A hint is not worth an error.
        let others = self.store.list_namespaces(after, SIMILAR_MAX).await.ok()?;
        let others = others.iter().map(|other| other.name.as_str());
        let caller = self.caller();
        let others = others.filter(|other| {
            *other != name.as_str() && other.starts_with(first) && caller.covers(other)
        });
        most_similar(name.as_str(), others).map(str::to_owned)
    }
}
