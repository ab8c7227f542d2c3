//! The stored definition of objects that have only a comment: schemas.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::rows::objects::{Object, damaged};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Remark {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

/// Returns the comment in a definition.
pub(crate) fn remark(object: &Object) -> Result<Option<String>> {
    let read: Remark = serde_json::from_str(&object.definition)
        .map_err(|error| damaged(object.oid.0, &error.to_string()))?;
    Ok(read.comment)
}

/// Builds a definition with this comment.
pub(crate) fn definition_of(comment: Option<&str>) -> String {
    let remark = Remark { comment: comment.map(str::to_owned) };
    // Every text can be written as JSON.
    serde_json::to_string(&remark).unwrap_or_else(|_| "{}".to_owned())
}
