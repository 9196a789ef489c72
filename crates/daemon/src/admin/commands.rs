//! What operators do over the admin socket and through the page, as events with who did it.
//!
//! Every path that changes something has a row here, a test compares. A command is told of when it was carried out, to
//! its end even if the client goes away meanwhile; what was refused has changed nothing, and is told of if it came through the page.

use super::connections::Caller;
use super::refusal::Refusal;
use super::{BODY_BYTES_MAX, to_the_end};
use crate::traces;
use api::events::Who;
use api::problem::ProblemKind;
use api::types::Problem;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use events::EventKind;
use serde::Deserialize;
use telemetry::{Span, Tracer};

/// The most bytes of a request that are told.
const TOLD_BYTES_MAX: usize = 512;

/// What a command is about: the name in its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Disk,
    Vm,
    Cache,
    /// The disk that the body names.
    DiskInBody,
    Nothing,
}

/// What is told of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// What was done, in words.
    Done(&'static str),
    /// The same, and the body behind it: what holds from now on.
    Set(&'static str),
    /// Nothing, since it is no operator's doing.
    Nothing,
}

struct Row {
    method: &'static str,
    path: &'static str,
    /// What `hearth` calls it.
    verb: &'static str,
    names: Names,
    told: Told,
}

const fn row(
    method: &'static str,
    path: &'static str,
    verb: &'static str,
    names: Names,
    told: Told,
) -> Row {
    Row {
        method,
        path,
        verb,
        names,
        told,
    }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("POST", "/v1/disks", "disk attach", Names::DiskInBody, Told::Done("attached the disk")),
    row("DELETE", "/v1/disks/{name}", "disk detach", Names::Disk, Told::Done("detached the disk")),
    row("PATCH", "/v1/disks/{name}", "disk set", Names::Disk, Told::Set("changed the disk's settings")),
    row("DELETE", "/v1/disks/{name}/settings", "disk set --reset", Names::Disk, Told::Set("took back the disk's settings")),
    row("POST", "/v1/disks/{name}/attach", "disk attach --without-store", Names::Disk, Told::Done("attached the disk that waited")),
    row("POST", "/v1/disks/{name}/barrier", "disk barrier", Names::Disk, Told::Done("made the disk's origin consistent")),
    row("POST", "/v1/disks/{name}/drop", "disk drop", Names::Disk, Told::Done("dropped what is cached of the disk")),
    row("POST", "/v1/disks/{name}/flush", "disk flush", Names::Disk, Told::Done("had the disk flushed")),
    row("POST", "/v1/disks/{name}/resize", "disk resize", Names::Disk, Told::Done("gave the disk all of its origin")),
    row("PATCH", "/v1/vms/{name}", "vm set", Names::Vm, Told::Set("changed the VM's settings")),
    row("DELETE", "/v1/vms/{name}/settings", "vm set --reset", Names::Vm, Told::Set("took back the VM's settings")),
    row("PATCH", "/v1/caches/{name}/policy", "cache set", Names::Cache, Told::Set("changed the cache's policy")),
    row("DELETE", "/v1/caches/{name}/settings", "cache set --reset", Names::Cache, Told::Set("took back the cache's policy")),
    row("POST", "/v1/caches/{name}/scrub", "cache scrub", Names::Cache, Told::Set("has the cache scrubbed")),
    row("DELETE", "/v1/caches/{name}/scrub", "cache scrub --stop", Names::Cache, Told::Done("ended the scrub of the cache")),
    row("POST", "/v1/reload", "reload", Names::Nothing, Told::Done("had the configuration read again")),
    row("POST", "/v1/recording", "trace record", Names::Nothing, Told::Done("began to record what guests ask")),
    row("DELETE", "/v1/recording", "trace record --stop", Names::Nothing, Told::Done("ended the recording")),
    row("POST", "/v1/roaming/{name}/prepare", "migrate prepare", Names::Disk, Told::Done("prepared a move of the disk")),
    row("POST", "/v1/roaming/{name}/abort", "migrate abort", Names::Disk, Told::Done("aborted the move of the disk")),
    row("POST", "/v1/roaming/{name}/set", "migrate set", Names::Disk, Told::Set("changed how the disk's cache comes here")),
    row("POST", "/v1/roaming/{name}/take", "migrate take", Names::Disk, Told::Done("took the disk from an owner that is gone")),
    row("POST", "/v1/cluster/moves/{vm}", "move start", Names::Vm, Told::Set("began a move of the VM")),
    row("POST", "/v1/cluster/moves/{vm}/approve", "move approve", Names::Vm, Told::Done("approved the move of the VM")),
    row("POST", "/v1/cluster/moves/{vm}/cancel", "move cancel", Names::Vm, Told::Done("cancelled the move of the VM")),
    row("POST", "/v1/cluster/moves/{vm}/clear", "move clear", Names::Vm, Told::Done("cleared the failed move of the VM")),
    // A group's run says it again and again.
    row("POST", "/v1/cluster/moves/{vm}/pace", "group run", Names::Vm, Told::Nothing),
    row("POST", "/v1/cluster/settings", "cluster set", Names::Nothing, Told::Set("changed the cluster's settings")),
    // A monitor says it every few seconds.
    row("POST", "/v1/resources/readings", "monitor", Names::Nothing, Told::Nothing),
    row("POST", "/v1/drives/health", "cache health", Names::Nothing, Told::Nothing),
];

/// A command, as far as it is told.
struct Command {
    row: &'static Row,
    uri: Uri,
    caller: Option<Caller>,
    body: Bytes,
}

/// Has a command carried out, and tells of it: a line in the log, and a span.
pub(super) async fn tell(State(tracer): State<Tracer>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let row = path.and_then(|path| row_of(request.method(), path.as_str()));
    let Some(row) = row.filter(|row| row.told != Told::Nothing) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let body = match to_bytes(body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => {
            let problem = Problem::new(ProblemKind::Invalid, error.to_string());
            return Refusal::from(problem).into_response();
        }
    };
    let command = Command {
        row,
        uri: parts.uri.clone(),
        caller: parts.extensions.get().cloned(),
        body: body.clone(),
    };
    let mut span = traces::verb(&tracer, (row.verb, &parts.method, row.path), &parts.headers);
    command.describe(&mut span);
    let done = to_the_end(async move {
        let doing = next.run(Request::from_parts(parts, Body::from(body)));
        let response = span.parent().within(doing).await;
        traces::answered(&mut span, response.status(), response.extensions().get());
        span.end();
        if response.status().is_success() {
            command.log();
            return Ok(response);
        }
        Ok(command.log_refused(response).await)
    });
    done.await.unwrap_or_else(IntoResponse::into_response)
}

/// Tells of a request through the page that was refused, and why.
pub(super) fn tell_of_refusal(caller: &Caller, what: &str, problem: &Problem) {
    let Fields {
        operator,
        asked_from,
        ..
    } = Fields::by(Some(caller));
    let event = EventKind::CommandRefused.word();
    let (reason, remedy) = (&problem.detail, &problem.remedy);
    let what = told(what);
    tracing::warn!(
        event,
        operator,
        asked_from,
        reason,
        remedy,
        "{what} was refused"
    );
}

/// What `hearth` calls every change that somebody asks for, with its flag if one makes another change of it.
pub fn verbs() -> impl Iterator<Item = &'static str> {
    let told = ROWS.iter().filter(|row| row.told != Told::Nothing);
    told.map(|row| row.verb)
}

/// Method and path of every change.
#[cfg(test)]
pub(super) fn changes() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter().map(|row| (row.method, row.path))
}

/// Who asks, as the fields of a log line.
#[derive(Default)]
struct Fields<'a> {
    uid: Option<u32>,
    pid: Option<u32>,
    operator: Option<&'a str>,
    asked_from: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn by(caller: Option<&'a Caller>) -> Self {
        match caller {
            None => Self::default(),
            Some(Caller(Who::User { uid, pid })) => Self {
                uid: Some(*uid),
                pid: *pid,
                ..Self::default()
            },
            Some(Caller(Who::Operator { operator, address })) => Self {
                operator: Some(operator),
                asked_from: Some(address),
                ..Self::default()
            },
            Some(Caller(Who::Stranger { address })) => Self {
                asked_from: Some(address),
                ..Self::default()
            },
        }
    }
}

fn row_of(method: &Method, path: &str) -> Option<&'static Row> {
    let mut rows = ROWS.iter();
    rows.find(|row| row.method == method.as_str() && row.path == path)
}

impl Command {
    /// Says in a span what the command is about, and who asks.
    fn describe(&self, span: &mut Span) {
        span.set("url.path", self.uri.path());
        let key = match self.row.names {
            Names::Disk | Names::DiskInBody => "hearth.disk",
            Names::Vm => "hearth.vm",
            Names::Cache => "hearth.cache",
            Names::Nothing => "",
        };
        if let Some(name) = self.name() {
            span.set(key, name.as_str());
        }
        match &self.caller {
            Some(Caller(Who::User { uid, pid })) => {
                span.set("user.id", uid.to_string().as_str());
                if let Some(pid) = pid {
                    span.set("hearth.caller.pid", *pid);
                }
            }
            Some(Caller(Who::Operator { operator, address })) => {
                span.set("user.name", operator.as_str());
                span.set("client.address", address.as_str());
            }
            Some(Caller(Who::Stranger { address })) => span.set("client.address", address.as_str()),
            None => {}
        }
    }

    fn log(&self) {
        let Fields {
            uid,
            pid,
            operator,
            asked_from,
        } = Fields::by(self.caller.as_ref());
        let name = self.name();
        let name_if = |names: &[Names]| names.contains(&self.row.names).then_some(name.as_deref());
        let disk = name_if(&[Names::Disk, Names::DiskInBody]).flatten();
        let vm = name_if(&[Names::Vm]).flatten();
        let cache = name_if(&[Names::Cache]).flatten();
        let kind = match self.row.told {
            Told::Set(_) => EventKind::SettingChanged,
            Told::Done(_) | Told::Nothing => EventKind::Command,
        };
        let event = kind.word();
        tracing::info!(
            event,
            uid,
            pid,
            operator,
            asked_from,
            disk,
            vm,
            cache,
            "{}",
            self.sentence()
        );
    }

    /// Tells of a change that an operator wanted to make through the page, and why it was refused. Hands the answer back.
    async fn log_refused(&self, response: Response) -> Response {
        let Some(caller @ Caller(Who::Operator { .. })) = &self.caller else {
            return response;
        };
        let (head, body) = response.into_parts();
        // A problem is below a kilobyte.
        let body = to_bytes(body, BODY_BYTES_MAX).await.unwrap_or_default();
        let problem: Option<Problem> = serde_json::from_slice(&body).ok();
        let problem =
            problem.unwrap_or_else(|| Problem::new(ProblemKind::Failed, head.status.as_str()));
        let what = format!("{} {}", self.row.method, self.uri.path());
        tell_of_refusal(caller, &what, &problem);
        Response::from_parts(head, Body::from(body))
    }

    /// What was done, with what the request says beside it.
    fn sentence(&self) -> String {
        let (did, body) = match self.row.told {
            Told::Done(did) => (did, String::new()),
            Told::Set(did) => (did, told(&String::from_utf8_lossy(&self.body))),
            Told::Nothing => return String::new(),
        };
        let query = told(self.uri.query().unwrap_or_default());
        let mut sentence = format!("an operator {did}");
        for more in [query, body] {
            if !more.is_empty() {
                sentence.push_str(": ");
                sentence.push_str(&more);
            }
        }
        sentence
    }

    fn name(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        if self.row.names == Names::DiskInBody {
            let named: Named = serde_json::from_slice(&self.body).ok()?;
            return Some(named.name);
        }
        let place = self
            .row
            .path
            .split('/')
            .position(|part| part.starts_with('{'))?;
        self.uri.path().split('/').nth(place).map(str::to_owned)
    }
}

/// What a request says, without line ends and not too long.
fn told(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.floor_char_boundary(TOLD_BYTES_MAX);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_path_that_changes_something_has_a_row() {
        let document: serde_json::Value = serde_json::from_str(&super::super::document()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let changes = paths.iter().flat_map(|(path, verbs)| {
            let verbs = verbs.as_object().unwrap().keys();
            let verbs = verbs.filter(|verb| *verb != "get");
            verbs.map(move |verb| (verb.to_uppercase(), path.clone()))
        });
        let changes: BTreeSet<_> = changes.collect();
        let rows = ROWS.iter();
        let rows: BTreeSet<_> = rows
            .map(|row| (row.method.to_owned(), row.path.to_owned()))
            .collect();
        assert_eq!(changes, rows);
    }

    #[test]
    fn a_command_names_what_it_is_about_and_says_what_was_asked() {
        let command = |method: &Method, path: &str, uri: &str, body: &'static str| Command {
            row: row_of(method, path).unwrap(),
            uri: uri.parse().unwrap(),
            caller: Some(Caller(Who::User { uid: 7, pid: None })),
            body: Bytes::from_static(body.as_bytes()),
        };
        let detached = command(
            &Method::DELETE,
            "/v1/disks/{name}",
            "/v1/disks/web?dirty=drop",
            "",
        );
        assert_eq!(detached.name().as_deref(), Some("web"));
        assert_eq!(
            detached.sentence(),
            "an operator detached the disk: dirty=drop"
        );
        let attached = command(
            &Method::POST,
            "/v1/disks",
            "/v1/disks",
            r#"{"name":"web","origin":"nbd://u:secret@h/d"}"#,
        );
        assert_eq!(attached.name().as_deref(), Some("web"));
        assert_eq!(attached.sentence(), "an operator attached the disk");
        let set = command(
            &Method::PATCH,
            "/v1/vms/{name}",
            "/v1/vms/v",
            "{\"max\":\n \"1GiB\"}",
        );
        assert_eq!(
            set.sentence(),
            "an operator changed the VM's settings: {\"max\": \"1GiB\"}"
        );
    }
}
