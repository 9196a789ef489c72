//! The gate before each change through the page.
//!
//! ```text
//!   GET, HEAD ───────────────────────────────────────────────────────────────────────────────► view
//!   all else ─► operators? ─► JSON, from this page? ─► whose proof? ─► open? ─► name typed? ─► change
//!                 403              403                  401, 403        403        403
//! ```
//!
//! Nothing of a request's body is read before the gate.

use super::super::commands;
use super::super::connections::Caller;
use super::super::refusal::Refusal;
use super::open::{Open, openness};
use super::visitor::Visitor;
use crate::page_access::{Answer, Denied, PageAccess, Proof};
use api::events::Who;
use api::operator::Operator;
use api::problem::ProblemKind;
use api::types::Problem;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use std::sync::Arc;
use web::Sender;

/// The header with the name that an operator has typed.
pub(super) const TYPED: HeaderName = HeaderName::from_static("hearth-typed-name");
/// How an operator proves who they are (RFC 6750).
const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"hearth\"");
/// The same, to a wrong token.
const WRONG: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"hearth\", error=\"invalid_token\"");
/// The header by which browsers say how the page that asks and this one are related.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The most bytes of a path that are told.
const PATH_BYTES_MAX: usize = 128;

/// Lets a request pass that changes nothing, or that an operator makes and may make.
pub(super) async fn gate(
    State(access): State<Arc<PageAccess>>,
    Extension(visitor): Extension<Visitor>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.method() == Method::GET || request.method() == Method::HEAD {
        return next.run(request).await;
    }
    let what = what(request.method(), request.uri());
    let name = match admitted(&access, &visitor, request.headers()).await {
        Ok(name) => name,
        Err(denied) => return deny(&access, &denied, &what, &visitor).await,
    };
    let caller = Caller(Who::Operator {
        operator: name,
        address: visitor.address.to_string(),
    });
    if let Err(denied) = allowed(&request) {
        access.count(&denied);
        let problem = problem(&denied, &what);
        commands::tell_of_refusal(&caller, &what, &problem);
        return Refusal::from(problem).into_response();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// The operator whose token or certificate a page shows, and whether there are operators at all.
#[utoipa::path(get, path = "/v1/operator", responses(
    (status = 200, description = "On the page's address alone: who asks, if that is an operator", body = Operator),
    (status = 401, description = "It is nobody's token", body = Problem),
))]
pub(in super::super) async fn show_operator(
    State(access): State<Arc<PageAccess>>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
) -> Response {
    let proof = proof(&visitor, &headers);
    let shows_token = proof.authorization.is_some();
    let name = match access.operator(proof).await {
        Ok(name) => Some(name),
        Err(denied) if shows_token => {
            return deny(&access, &denied, "GET /v1/operator", &visitor).await;
        }
        Err(_) => None,
    };
    let has_operators = access.has_operators();
    Json(Operator {
        has_operators,
        name,
    })
    .into_response()
}

/// Whose request this is, if it is meant and an operator's.
async fn admitted(
    access: &PageAccess,
    visitor: &Visitor,
    headers: &HeaderMap,
) -> Result<String, Denied> {
    if !access.has_operators() {
        return Err(Denied::NoOperators);
    }
    let sender = Sender {
        host: text(headers, &HOST).unwrap_or_default(),
        origin: text(headers, &ORIGIN),
        site: text(headers, &SITE),
        content_type: text(headers, &CONTENT_TYPE),
        is_tls: visitor.tls.is_some(),
    };
    sender.check().map_err(|_| Denied::Foreign)?;
    access.operator(proof(visitor, headers)).await
}

/// Whether an operator may make this change through the page.
fn allowed(request: &Request) -> Result<(), Denied> {
    let path = request.extensions().get::<MatchedPath>();
    let open = path.and_then(|path| openness(request.method().as_str(), path.as_str()));
    match open {
        None => Err(Denied::Closed),
        Some(Open::Plainly) => Ok(()),
        Some(Open::Typed) => {
            let name = request.uri().path().split('/').nth(3);
            let typed = text(request.headers(), &TYPED);
            if typed.is_some() && typed == name {
                Ok(())
            } else {
                Err(Denied::Untyped)
            }
        }
    }
}

fn proof(visitor: &Visitor, headers: &HeaderMap) -> Proof {
    // One that is no text is a wrong one.
    let authorization = headers.get(AUTHORIZATION);
    let authorization = authorization.map(|value| value.to_str().unwrap_or_default().to_owned());
    Proof {
        authorization,
        certificate: visitor.certificate.clone(),
    }
}

/// A header's text. One that is no text, or is there twice, is empty: it equals nothing that is right.
fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    let only = values.next().is_none();
    Some(first.to_str().ok().filter(|_| only).unwrap_or_default())
}

fn what(method: &Method, uri: &Uri) -> String {
    let path = uri.path();
    let end = path.floor_char_boundary(PATH_BYTES_MAX);
    format!("{method} {}", &path[..end])
}

async fn deny(access: &PageAccess, denied: &Denied, what: &str, visitor: &Visitor) -> Response {
    let answer = access.deny(denied, what, visitor.address).await;
    if answer == Answer::Later {
        let detail = "too many wrong tokens and certificates were shown to this page a moment ago";
        let problem = Problem::new(ProblemKind::TooMany, detail);
        let refused = Refusal::from(problem.with_remedy("wait a second, and look at the token"));
        return ([(RETRY_AFTER, "1")], refused).into_response();
    }
    let refused = Refusal::from(problem(denied, what));
    match denied {
        Denied::WrongToken => ([(WWW_AUTHENTICATE, WRONG)], refused).into_response(),
        Denied::NoProof => ([(WWW_AUTHENTICATE, BEARER)], refused).into_response(),
        _ => refused.into_response(),
    }
}

fn problem(denied: &Denied, what: &str) -> Problem {
    let problem = |kind, detail: &str, remedy: &str| Problem::new(kind, detail).with_remedy(remedy);
    let (no, unknown) = (ProblemKind::Forbidden, ProblemKind::Unauthorized);
    match denied {
        Denied::NoOperators => problem(
            no,
            "nothing can be changed through this page: it has no operators",
            "set operators = \"/etc/hearth/operators\" in [web], restart the daemon, and: hearth operator add NAME",
        ),
        Denied::Unusable(error) => problem(
            no,
            &format!(
                "nothing can be changed through this page: {}",
                units::errors::chain(error)
            ),
            &error.remedy(),
        ),
        Denied::NoProof => problem(
            unknown,
            "only operators change something, and this request shows no token",
            "send Authorization: Bearer TOKEN; hearth operator add NAME makes one",
        ),
        Denied::WrongToken => problem(
            unknown,
            "this is no operator's token",
            "paste the whole line that hearth operator add printed; hearth operator list says who has one",
        ),
        Denied::UnknownCertificate => problem(
            no,
            "the certificate that was shown is no operator's",
            "hearth operator add cert:NAME, with a name in the certificate",
        ),
        Denied::Foreign => problem(
            no,
            "this request may come from another page",
            "send Content-Type: application/json, and no Origin but this page's",
        ),
        Denied::Closed => problem(
            no,
            &format!("{what} is not open to the page"),
            "use the hearth command on the host itself",
        ),
        Denied::Untyped => problem(
            no,
            &format!("{what} loses what is cached, and wants the name of it"),
            "type the name, which is sent as the header Hearth-Typed-Name",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn headers(of: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in of {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_header_that_is_there_twice_is_none() {
        let once = headers(&[(ORIGIN, "https://a")]);
        assert_eq!(text(&once, &ORIGIN), Some("https://a"));
        assert_eq!(text(&once, &HOST), None);
        let twice = headers(&[(ORIGIN, "https://a"), (ORIGIN, "https://b")]);
        assert_eq!(text(&twice, &ORIGIN), Some(""));
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        for denied in [
            Denied::NoOperators,
            Denied::NoProof,
            Denied::WrongToken,
            Denied::UnknownCertificate,
            Denied::Foreign,
            Denied::Closed,
            Denied::Untyped,
        ] {
            let problem = problem(&denied, "POST /x");
            assert!(problem.remedy.is_some(), "{denied:?}");
            let is_401 = matches!(denied, Denied::NoProof | Denied::WrongToken);
            assert_eq!(problem.status, if is_401 { 401 } else { 403 }, "{denied:?}");
        }
    }

    #[test]
    fn what_no_route_knows_is_closed() {
        let request = Request::post("/v1/disks").body(Body::empty()).unwrap();
        assert!(matches!(allowed(&request), Err(Denied::Closed)));
    }

    #[test]
    fn a_long_path_is_told_in_part() {
        let path: Uri = format!("/{}", "x".repeat(500)).parse().unwrap();
        assert_eq!(what(&Method::POST, &path).len(), PATH_BYTES_MAX + 5);
    }
}
