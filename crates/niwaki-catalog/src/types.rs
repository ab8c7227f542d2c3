//! Types that users define: what the catalog stores of one, and all of them as a state has them.

use std::sync::Arc;

use hashbrown::HashMap;
use niwaki_types::{EnumLabel, EnumType, TypeOid, UserTypes, quote_identifier};
use serde::{Deserialize, Serialize};

use crate::definition::Oid;
use crate::objects::{Object, ObjectKind, damaged};
use crate::state::{CatalogState, PUBLIC_SCHEMA, SearchPath};

/// A label of an enum with its position ([`EnumLabel::position`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLabel {
    /// Its text.
    pub name: String,
    /// Its position.
    #[serde(rename = "at")]
    pub position: u64,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TypeKind {
    /// Labels in the order of their positions.
    Enum(Vec<StoredLabel>),
}

/// Everything the catalog stores about one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeDefinition {
    /// Number of the type. The oid of an enum has its kind beside it ([`TypeDefinition::type_oid`]).
    pub oid: Oid,
    /// Number of its schema.
    pub schema: Oid,
    /// Name, unique among the types and relations of the schema.
    pub name: String,
    /// What it is.
    pub kind: TypeKind,
}

impl TypeDefinition {
    /// The type's oid, as columns and clients have it.
    pub fn type_oid(&self) -> TypeOid {
        match self.kind {
            TypeKind::Enum(_) => TypeOid::of_enum(self.oid.0),
        }
    }

    /// The enum with labels as values need it; `shown` is the type's name in messages.
    pub fn enum_type(&self, shown: String) -> EnumType {
        let TypeKind::Enum(labels) = &self.kind;
        let label = |label: &StoredLabel| EnumLabel {
            name: Arc::from(label.name.as_str()),
            position: label.position,
        };
        EnumType { shown, labels: labels.iter().map(label).collect() }
    }

    /// Takes over the labels of an enum.
    pub fn set_labels(&mut self, from: &EnumType) {
        let stored = |label: &EnumLabel| StoredLabel {
            name: label.name.to_string(),
            position: label.position,
        };
        self.kind = TypeKind::Enum(from.labels.iter().map(stored).collect());
    }

    pub(crate) fn object(&self) -> crate::Result<Object> {
        Ok(Object {
            oid: self.oid,
            schema: self.schema,
            name: self.name.clone(),
            kind: ObjectKind::Type,
            definition: serde_json::to_string(self)
                .map_err(|e| damaged(self.oid.0, &e.to_string()))?,
        })
    }

    /// The definition that a stored object holds.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] when it is none.
    pub(crate) fn of_object(object: &Object) -> crate::Result<Self> {
        let wrong = |detail: &str| damaged(object.oid.0, detail);
        let definition: Self =
            serde_json::from_str(&object.definition).map_err(|e| wrong(&e.to_string()))?;
        let same = definition.oid == object.oid
            && definition.schema == object.schema
            && definition.name == object.name;
        if !same {
            return Err(wrong("row and definition differ"));
        }
        let TypeKind::Enum(labels) = &definition.kind;
        if !labels.is_sorted_by(|a, b| a.position < b.position) {
            return Err(wrong("the labels of an enum are not in the order of their positions"));
        }
        Ok(definition)
    }
}

/// The types of a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Types {
    by_oid: HashMap<Oid, Arc<TypeDefinition>>,
    for_values: Arc<UserTypes>,
}

impl Types {
    pub(crate) fn put(&mut self, definition: Arc<TypeDefinition>) {
        self.by_oid.insert(definition.oid, definition);
    }

    pub(crate) fn remove(&mut self, oid: Oid) {
        self.by_oid.remove(&oid);
    }
}

impl CatalogState {
    /// The user's type with this number.
    pub fn user_type(&self, oid: Oid) -> Option<&Arc<TypeDefinition>> {
        self.types.by_oid.get(&oid)
    }

    /// All types of users, in no order.
    pub fn user_types(&self) -> impl Iterator<Item = &Arc<TypeDefinition>> {
        self.types.by_oid.values()
    }

    /// What values of users' types need. The same one as long as no type changes.
    pub fn types_of_values(&self) -> &Arc<UserTypes> {
        &self.types.for_values
    }

    /// The user's type of this name in one schema.
    pub fn lookup_type(&self, schema: Oid, name: &str) -> Option<&Arc<TypeDefinition>> {
        self.user_types().find(|found| found.schema == schema && found.name == name)
    }

    /// Finds a user's type by name, in the named schema or along the search path.
    pub fn resolve_type(
        &self,
        path: &SearchPath,
        schema: Option<&str>,
        name: &str,
    ) -> Option<&Arc<TypeDefinition>> {
        if self.types.by_oid.is_empty() {
            return None;
        }
        match schema {
            Some(schema) => self.lookup_type(self.schema_by_name(schema)?.oid, name),
            None => path.schemas.iter().find_map(|schema| self.lookup_type(*schema, name)),
        }
    }

    /// Makes anew what values need, after types changed.
    pub(crate) fn types_changed(&mut self) {
        let mut types = UserTypes::default();
        for definition in self.user_types() {
            let mut shown = String::new();
            // Most search paths have it.
            if definition.schema != PUBLIC_SCHEMA
                && let Some(schema) = self.schema(definition.schema)
            {
                shown.push_str(&quote_identifier(&schema.name));
                shown.push('.');
            }
            shown.push_str(&quote_identifier(&definition.name));
            types.put(definition.type_oid(), Arc::new(definition.enum_type(shown)));
        }
        self.types.for_values = Arc::new(types);
    }
}
