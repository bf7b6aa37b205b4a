//! Brings commands to their shards and their outcomes back in order.

use duly_core::{
    Code, NamespaceName,
    error_code::Retry,
    shard::{ShardId, shard_of},
};
use duly_store::{
    Command, Operation, Outcome, Refusal,
    namespaces::{IDLE_AFTER, Put},
};
use futures::future::join_all;

use super::{App, ImplicitNamespaces, Problem, notice};
use crate::{near::nearest, telemetry::operations};

/// Namespaces that are looked at for one with a similar name.
const SIMILAR_MAX: usize = 200;

impl App {
    /// Carries out one command, without making its namespace.
    pub(crate) async fn apply_one(&self, command: Command) -> Result<Outcome, Problem> {
        let shard = self.shard_of(&command);
        let kind = operations::kind(&command.operation);
        let outcomes = self.store().apply(shard, vec![command]).await?;
        let outcome = outcomes.into_iter().next().ok_or_else(no_outcome)?;
        operations::record(kind, &outcome);
        Ok(outcome)
    }

    /// Carries out commands of one namespace, each shard's in one call; one result for each, in
    /// their order. A shard that fails refuses only its own, unless all fail.
    pub(crate) async fn apply_many(
        &self,
        namespace: &NamespaceName,
        commands: Vec<Command>,
    ) -> Result<Vec<Result<Outcome, Problem>>, Problem> {
        let may_create = commands.iter().any(|command| self.creates(command));
        let mut may_be_removed = false;
        if may_create {
            match self.store().get_namespace(namespace.clone()).await? {
                Some(found) => {
                    let age = self.now().saturating_since(found.created_at);
                    may_be_removed = age >= IDLE_AFTER && found.created_at == found.updated_at;
                }
                // Made before anything is carried out: a part that is repeated would lose its place
                // among the operations on its id.
                None => self.create_implicitly(namespace.clone()).await?,
            }
        }
        let count = commands.len();
        let mut groups: Vec<(Vec<usize>, Vec<Command>)> = Vec::new();
        groups.resize_with(usize::from(self.store().shards().max(1)), Default::default);
        for (place, command) in commands.into_iter().enumerate() {
            let group = &mut groups[usize::from(self.shard_of(&command).0)];
            group.0.push(place);
            group.1.push(command);
        }
        let calls = (0_u16..).zip(groups).filter(|(_, group)| !group.0.is_empty());
        let answers = join_all(calls.map(|(shard, (places, commands))| async move {
            let kinds: Vec<_> = commands.iter().map(|c| operations::kind(&c.operation)).collect();
            let answer = match may_be_removed {
                true => self.apply_or_make(namespace, ShardId(shard), commands).await,
                false => self.store().apply(ShardId(shard), commands).await,
            };
            if let Ok(outcomes) = &answer {
                for (kind, outcome) in kinds.into_iter().zip(outcomes) {
                    operations::record(kind, outcome);
                }
            }
            (places, answer)
        }))
        .await;
        if let Some((_, Err(error))) = answers.first()
            && answers.iter().all(|(_, answer)| answer.is_err())
        {
            return Err(error.clone().into());
        }
        let mut results: Vec<Option<Result<Outcome, Problem>>> = Vec::new();
        results.resize_with(count, || None);
        for (places, answer) in answers {
            match answer {
                Ok(outcomes) => {
                    for (place, outcome) in places.into_iter().zip(outcomes) {
                        results[place] = Some(Ok(outcome));
                    }
                }
                Err(error) => {
                    for place in places {
                        results[place] = Some(Err(error.clone().into()));
                    }
                }
            }
        }
        // A fault is logged where it is made, so only where there is one.
        Ok(results.into_iter().map(|result| result.unwrap_or_else(|| Err(no_outcome()))).collect())
    }

    /// Carries out commands of one shard. If their namespace was removed before the first of them, as an idle
    /// one may be at any moment, it is made once more.
    async fn apply_or_make(
        &self,
        namespace: &NamespaceName,
        shard: ShardId,
        commands: Vec<Command>,
    ) -> Result<Vec<Outcome>, duly_store::Error> {
        let again = commands.clone();
        let outcomes = self.store().apply(shard, commands).await?;
        let is_gone =
            |outcome: &Outcome| matches!(outcome, Outcome::Refused(Refusal::UnknownNamespace(_)));
        // Where one was carried out, a part that is repeated would lose its place.
        if outcomes.iter().all(is_gone) && self.create_implicitly(namespace.clone()).await.is_ok() {
            return self.store().apply(shard, again).await;
        }
        Ok(outcomes)
    }

    /// Says whether a command makes its namespace where there is none.
    pub(super) fn creates(&self, command: &Command) -> bool {
        self.implicit_namespaces() == ImplicitNamespaces::Create
            && matches!(command.operation, Operation::Schedule { .. } | Operation::Import { .. })
    }

    pub(super) async fn create_implicitly(&self, name: NamespaceName) -> Result<(), Problem> {
        self.admit_implicit().map_err(|wait| {
            let per_second = self.limits().implicit_namespaces_per_second;
            let detail = format!(
                "there is no namespace {:?}, and at most {per_second} a second come into being by \
                 themselves (limits.implicit_namespaces_per_second): make it by PUT /v1/namespaces/{name}, \
                 or ask again later",
                name.as_str()
            );
            Problem::new(Code::ResourceExhausted, detail).with_retry(Retry::After(wait))
        })?;
        let put = Put::IfAbsent(Box::default());
        let (namespace, is_new) = self.store().put_namespace(name, put).await?;
        if is_new {
            let name = &namespace.name;
            let similar = self.similar_namespace(name).await;
            tracing::info!(namespace = %name, similar, "namespace made at its first schedule");
            let similar =
                similar.map(|similar| format!("; there is {similar:?} too")).unwrap_or_default();
            notice::say(format!(
                "there was no namespace {:?}: this call made it{similar}",
                name.as_str()
            ));
        }
        Ok(())
    }

    /// Returns the name of another namespace for which this one may be a typing error, of those that begin
    /// with the same letter.
    async fn similar_namespace(&self, name: &NamespaceName) -> Option<String> {
        let first = name.as_str().get(..1)?;
        let after = NamespaceName::new(first).ok();
        // A hint is not worth an error.
        let others = self.store().list_namespaces(after, SIMILAR_MAX).await.ok()?;
        let others = others.iter().map(|other| other.name.as_str());
        let others = others.filter(|other| *other != name.as_str() && other.starts_with(first));
        nearest(name.as_str(), others).map(str::to_owned)
    }

    /// The shard of a timer.
    pub(crate) fn shard_of_timer(&self, namespace: &NamespaceName, id: &str) -> ShardId {
        shard_of(namespace.as_str(), id, self.store().shards())
    }

    /// The shard of a command; the first for a letter named by its delivery id, whose callers ask
    /// every shard themselves.
    fn shard_of(&self, command: &Command) -> ShardId {
        command.shard(self.store().shards()).unwrap_or(ShardId(0))
    }
}

fn no_outcome() -> Problem {
    Problem::fault("an operation has no outcome")
}
