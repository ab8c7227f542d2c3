//! Relations as stored objects.

use crate::definition::relation_definition::RelationDefinition;
use crate::error::Result;
use crate::rows::objects::{Object, ObjectKind, damaged};

/// Builds the stored object of a relation.
pub(crate) fn relation_object(definition: &RelationDefinition) -> Result<Object> {
    Ok(Object {
        oid: definition.oid,
        schema: definition.schema,
        name: definition.name.clone(),
        kind: ObjectKind::Relation,
        definition: serde_json::to_string(definition)
            .map_err(|e| damaged(definition.oid.0, &e.to_string()))?,
    })
}

/// Returns the relation that a stored object describes.
pub(crate) fn relation_of(object: &Object) -> Result<RelationDefinition> {
    let definition: RelationDefinition = serde_json::from_str(&object.definition)
        .map_err(|e| damaged(object.oid.0, &e.to_string()))?;
    let same = definition.oid == object.oid
        && definition.schema == object.schema
        && definition.name == object.name;
    if !same {
        return Err(damaged(object.oid.0, "row and definition differ"));
    }
    Ok(definition)
}
