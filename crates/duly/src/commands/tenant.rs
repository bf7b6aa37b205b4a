//! `duly tenant`: sets of namespaces with limits that their own keys cannot raise.

use clap::{Subcommand, ValueEnum};
use duly_api::{
    access::{ListTenantsResponse, PutTenantRequest, Tenant, TenantLimits},
    number,
};
use duly_core::access::{TenantLimit, TenantName};
use reqwest::Method;
use serde_json::{json, value::RawValue};

use crate::{
    Outcome,
    args::Confirm,
    failure::Failure,
    http::{Call, Hint},
    output::{Table, Tone, table, when},
    session::Session,
};

/// Create, change, show and remove tenants: sets of namespaces with limits
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a tenant, or replace it as a whole
    ///
    /// The keys of a tenant are those that cover none but its namespaces. They cannot change it.
    Put {
        #[command(flatten)]
        named: TenantArg,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    Set(Box<SetArgs>),
    /// Show a tenant, its limits and what it uses
    Get(TenantArg),
    /// List tenants
    #[command(visible_alias = "ls")]
    List,
    /// Remove a tenant; its namespaces and keys stay, without its limits
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        named: TenantArg,
        #[command(flatten)]
        confirm: Confirm,
    },
}

/// The name of a tenant.
#[derive(clap::Args)]
struct TenantArg {
    /// Name of the tenant
    #[arg(value_name = "TENANT", value_parser = name)]
    name: TenantName,
}

/// Change a tenant; what is not named stays
///
/// The command reads the tenant, changes it and writes it back. So one of two changes at the same moment
/// may be lost.
#[derive(clap::Args)]
struct SetArgs {
    #[command(flatten)]
    named: TenantArg,
    /// Remove this limit, or the list of destinations; repeat it for more
    #[arg(long, value_name = "SETTING")]
    reset: Vec<Reset>,
    #[command(flatten)]
    settings: Settings,
}

/// The settings of a tenant.
#[derive(Default, PartialEq, clap::Args)]
struct Settings {
    /// Its namespaces, in place of those that it has: names, or beginnings of names with `*`; no other tenant may
    /// have one of them
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    namespace: Vec<String>,
    /// Most namespaces
    #[arg(long, value_name = "N", value_parser = limit::<{ TenantLimit::MaxNamespaces as usize }>)]
    max_namespaces: Option<u64>,
    /// Most pending timers in all its namespaces
    #[arg(long, value_name = "N", value_parser = limit::<{ TenantLimit::MaxPending as usize }>)]
    max_pending: Option<u64>,
    /// Largest size of its pending timers, in bytes, as an estimate
    #[arg(long, value_name = "BYTES", value_parser = limit::<{ TenantLimit::MaxPendingBytes as usize }>)]
    max_pending_bytes: Option<u64>,
    /// Most dead letters; at the limit nothing more is scheduled
    #[arg(long, value_name = "N", value_parser = limit::<{ TenantLimit::MaxDead as usize }>)]
    max_dead: Option<u64>,
    /// Most schedules a second at each node
    #[arg(long, value_name = "N", value_parser = limit::<{ TenantLimit::SchedulePerSecond as usize }>)]
    schedule_per_second: Option<u64>,
    /// Most calls of its keys a second at each node
    #[arg(long, value_name = "N", value_parser = limit::<{ TenantLimit::CallPerSecond as usize }>)]
    call_per_second: Option<u64>,
    /// Most connections of its keys to each node
    #[arg(long, value_name = "N", value_parser = limit::<{ TenantLimit::MaxConnections as usize }>)]
    max_connections: Option<u64>,
    /// Most waiting lease calls and consumer streams of its keys at each node
    #[arg(long, value_name = "N", value_parser = limit::<{ TenantLimit::MaxWaitingCalls as usize }>)]
    max_waiting_calls: Option<u64>,
    /// Most memory of requests and unread responses of its keys at each node, in bytes
    #[arg(long, value_name = "BYTES", value_parser = limit::<{ TenantLimit::MaxRequestBytes as usize }>)]
    max_request_bytes: Option<u64>,
    /// Let a schedule create its namespace, without the action `namespace`
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    implicit_namespaces: Option<bool>,
    /// Hosts that its webhooks may go to, in place of those that it has: hooks.example.com, or *.example.com for
    /// all below
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    destination: Vec<String>,
}

/// Parses a limit of a tenant, by its place in [`TenantLimit::ALL`].
fn limit<const PLACE: usize>(text: &str) -> Result<u64, String> {
    let (least, most) = TenantLimit::ALL[PLACE].bounds();
    let range = number::integers(least, most);
    text.parse().map_err(|_| format!("it must be {range}"))
}

/// The settings that can be removed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Reset {
    /// All limits
    Limits,
    Destinations,
    MaxNamespaces,
    MaxPending,
    MaxPendingBytes,
    MaxDead,
    SchedulePerSecond,
    CallPerSecond,
    MaxConnections,
    MaxWaitingCalls,
    MaxRequestBytes,
}

impl Args {
    /// Returns `true` if the command changes nothing.
    pub(crate) const fn only_reads(&self) -> bool {
        matches!(self.action, Action::List | Action::Get(_))
    }
}

fn name(text: &str) -> Result<TenantName, String> {
    TenantName::new(text).map_err(|invalid| format!("it must be {}", invalid.allowed))
}

/// Hints after a refusal.
const HINTS: &[Hint] = &[("not_found", "`duly tenant list` shows the tenants")];

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    match args.action {
        Action::Put { named, settings } => {
            if settings.namespace.is_empty() {
                return Err(Failure::usage("name the namespaces of the tenant with --namespace"));
            }
            put(session, &named, &settings.over(PutTenantRequest::default())).await
        }
        Action::Set(args) => set(*args, session).await,
        Action::Get(named) => print(session, call(session, Method::GET, &named)).await,
        Action::List => list(session).await,
        Action::Delete { named, confirm } => {
            let name = &named.name;
            if confirm.is_needed() {
                Confirm::ask(&format!(
                    "Delete tenant {name} at {}? Its namespaces have no limits then.",
                    session.http.place()
                ))?;
            }
            call(session, Method::DELETE, &named).send().await?;
            let document = json!({ "deleted": name.as_str() }).to_string();
            session.printer.document(&document, || {
                Ok(format!("tenant {name} is deleted at {}\n", session.http.place()))
            })
        }
    }
}

fn call<'a>(session: &'a Session, method: Method, named: &TenantArg) -> Call<'a> {
    session.http.service(method, &["tenants", named.name.as_str()]).hints(HINTS)
}

async fn put(session: &Session, named: &TenantArg, request: &PutTenantRequest) -> Outcome {
    print(session, call(session, Method::PUT, named).body(request)).await
}

async fn set(args: SetArgs, session: &Session) -> Outcome {
    let SetArgs { named, reset, settings } = args;
    if settings == Settings::default() && reset.is_empty() {
        return Err(Failure::usage("nothing to change: name a setting, or --reset one"));
    }
    let present: Tenant = call(session, Method::GET, &named).send().await?.parse()?;
    let mut present = PutTenantRequest {
        namespaces: present.namespaces,
        limits: present.limits,
        implicit_namespaces: present.implicit_namespaces,
        destinations: present.destinations,
    };
    for setting in &reset {
        setting.apply(&mut present);
    }
    put(session, &named, &settings.over(present)).await
}

impl Settings {
    /// Returns the request with what was given in place of what it has.
    fn over(&self, present: PutTenantRequest) -> PutTenantRequest {
        let list =
            |given: &[String], present| if given.is_empty() { present } else { given.to_vec() };
        let limits = present.limits;
        let hosts = (!self.destination.is_empty()).then(|| self.destination.clone());
        PutTenantRequest {
            namespaces: list(&self.namespace, present.namespaces),
            limits: TenantLimits {
                max_namespaces: self.max_namespaces.or(limits.max_namespaces),
                max_pending: self.max_pending.or(limits.max_pending),
                max_pending_bytes: self.max_pending_bytes.or(limits.max_pending_bytes),
                max_dead: self.max_dead.or(limits.max_dead),
                schedule_per_second: self.schedule_per_second.or(limits.schedule_per_second),
                call_per_second: self.call_per_second.or(limits.call_per_second),
                max_connections: self.max_connections.or(limits.max_connections),
                max_waiting_calls: self.max_waiting_calls.or(limits.max_waiting_calls),
                max_request_bytes: self.max_request_bytes.or(limits.max_request_bytes),
            },
            implicit_namespaces: self.implicit_namespaces.unwrap_or(present.implicit_namespaces),
            destinations: hosts.or(present.destinations),
        }
    }
}

impl Reset {
    fn apply(self, request: &mut PutTenantRequest) {
        let limits = &mut request.limits;
        let limit = match self {
            Self::Limits => return *limits = TenantLimits::default(),
            Self::Destinations => return request.destinations = None,
            Self::MaxNamespaces => &mut limits.max_namespaces,
            Self::MaxPending => &mut limits.max_pending,
            Self::MaxPendingBytes => &mut limits.max_pending_bytes,
            Self::MaxDead => &mut limits.max_dead,
            Self::SchedulePerSecond => &mut limits.schedule_per_second,
            Self::CallPerSecond => &mut limits.call_per_second,
            Self::MaxConnections => &mut limits.max_connections,
            Self::MaxWaitingCalls => &mut limits.max_waiting_calls,
            Self::MaxRequestBytes => &mut limits.max_request_bytes,
        };
        *limit = None;
    }
}

async fn print(session: &Session, call: Call<'_>) -> Outcome {
    let screen = session.printer.screen;
    session.print(call, |tenant: Tenant| table::of_pairs(screen, pairs(&tenant))).await
}

/// Returns the fields of a tenant for people.
pub(super) fn pairs(tenant: &Tenant) -> Vec<(String, String)> {
    let mut pairs = vec![
        ("tenant".to_owned(), tenant.name.clone()),
        ("its namespaces".to_owned(), tenant.namespaces.join(", ")),
    ];
    if tenant.implicit_namespaces {
        pairs.push(("implicit namespaces".to_owned(), "created by schedules".to_owned()));
    }
    if let Some(hosts) = &tenant.destinations {
        let hosts = if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") };
        pairs.push(("destinations".to_owned(), hosts));
    }
    let limits = tenant.limits.read();
    let uses = TenantLimit::ALL.into_iter().filter_map(|limit| {
        let (used, max) = (used(tenant, limit), limits[limit]);
        let text = match (used, max) {
            (Some(used), Some(max)) => format!("{used} of {max}"),
            (Some(used), None) => format!("{used}, no limit"),
            (None, Some(max)) => max.to_string(),
            (None, None) => return None,
        };
        Some((limit.as_str().to_owned(), text))
    });
    pairs.extend(uses);
    if let Some(at) = &tenant.usage.counted_at {
        pairs.push(("counted".to_owned(), when::with_distance(at, when::now())));
    }
    pairs
}

/// Returns the use of a limit; `None` for a rate.
const fn used(tenant: &Tenant, limit: TenantLimit) -> Option<u64> {
    let usage = &tenant.usage;
    Some(match limit {
        TenantLimit::MaxNamespaces => usage.namespaces,
        TenantLimit::MaxPending => usage.pending,
        TenantLimit::MaxPendingBytes => usage.pending_bytes,
        TenantLimit::MaxDead => usage.dead,
        TenantLimit::MaxConnections => usage.connections,
        TenantLimit::MaxWaitingCalls => usage.waiting_calls,
        TenantLimit::MaxRequestBytes => usage.request_bytes,
        TenantLimit::SchedulePerSecond | TenantLimit::CallPerSecond => return None,
    })
}

async fn list(session: &Session) -> Outcome {
    let (mut tenants, mut texts, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let mut query = vec![("limit", "1000".to_owned())];
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let call = session.http.service(Method::GET, &["tenants"]).query(&query);
        let reply = call.send().await?;
        texts.extend(reply.items("tenants")?.into_iter().map(RawValue::to_owned));
        let page: ListTenantsResponse = reply.parse()?;
        tenants.extend(page.tenants);
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    if session.printer.is_json() {
        return session.printer.json_list("tenants", texts);
    }
    let numbers = ["namespaces", "pending", "dead", "connections", "waiting"];
    let mut table = Table::new(&[
        "name",
        "patterns",
        "namespaces",
        "pending",
        "dead",
        "connections",
        "waiting",
    ])
    .numbers(&numbers);
    for tenant in &tenants {
        let limits = tenant.limits.read();
        let (mut cells, mut tone) = (Vec::new(), Tone::Plain);
        for limit in [
            TenantLimit::MaxNamespaces,
            TenantLimit::MaxPending,
            TenantLimit::MaxDead,
            TenantLimit::MaxConnections,
            TenantLimit::MaxWaitingCalls,
        ] {
            let used = used(tenant, limit).unwrap_or_default();
            let max = limits[limit];
            if max.is_some_and(|max| used >= max) {
                tone = Tone::Warning;
            }
            cells.push(max.map_or(used.to_string(), |max| format!("{used}/{max}")));
        }
        let first = [tenant.name.clone(), tenant.namespaces.join(",")];
        table.row(tone, first.into_iter().chain(cells));
    }
    session.printer.table(&table)
}
