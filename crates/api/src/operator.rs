//! What the page tells of who asks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who asks the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operator {
    /// Whether the page has operators: without, nothing is changed through it.
    pub has_operators: bool,
    /// The operator's name; none if nobody proves to be one.
    pub name: Option<String>,
}
