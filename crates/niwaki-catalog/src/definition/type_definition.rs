//! Stored definitions of types (`docs/internals/format.md`, catalog).

use std::sync::Arc;

use niwaki_types::{Attribute, ColumnType, CompositeType, EnumLabel, EnumType, TypeOid};
use serde::{Deserialize, Serialize};

use crate::definition::constraint::Check;
use crate::rows::objects::{Object, ObjectKind, damaged};
use crate::rows::oid::Oid;

/// A label of an enum with its position ([`EnumLabel::position`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLabel {
    /// Text of the label.
    pub name: String,
    /// Position of the label.
    #[serde(rename = "at")]
    pub position: u64,
}

/// Definition of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainDefinition {
    /// The base type of the values: oid of a type that is no domain.
    #[serde(rename = "t")]
    pub type_oid: u32,
    /// The base type's modifier, -1 when none.
    #[serde(rename = "m")]
    pub typmod: i32,
    /// The domain below this one, if any. Its constraints apply here too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Oid>,
    /// The domain's collation, if it differs from that type's.
    #[serde(rename = "coll", default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<Oid>,
    /// NOT NULL.
    #[serde(rename = "nn", default, skip_serializing_if = "std::ops::Not::not")]
    pub not_null: bool,
    /// SQL text of the DEFAULT expression.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// CHECK constraints over VALUE, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

impl DomainDefinition {
    /// Returns the base type of the values.
    pub fn base(&self) -> ColumnType {
        ColumnType::with_typmod(TypeOid(self.type_oid), self.typmod)
    }

    /// Returns the type directly below: the domain below over [`DomainDefinition::base`], or the
    /// base type.
    pub fn below(&self) -> ColumnType {
        let domain = self.over.map(|over| TypeOid::of_domain(over.0));
        ColumnType { domain, ..self.base() }
    }
}

/// An attribute of a composite type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAttribute {
    /// Name of the attribute, unique in the type.
    pub name: String,
    /// Oid of the attribute's type, which is no domain.
    #[serde(rename = "t")]
    pub type_oid: u32,
    /// The modifier of that type, -1 when none.
    #[serde(rename = "m")]
    pub typmod: i32,
    /// The attribute's collation, if it differs from its type's.
    #[serde(rename = "coll", default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<Oid>,
}

impl StoredAttribute {
    /// Returns the attribute's type.
    pub fn column_type(&self) -> ColumnType {
        ColumnType::with_typmod(TypeOid(self.type_oid), self.typmod)
    }
}

/// Kind of a type, with its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TypeKind {
    /// Enum: labels in the order of their positions.
    Enum(Vec<StoredLabel>),
    /// Domain: values of another type, with constraints.
    Domain(Box<DomainDefinition>),
    /// Composite type: attributes in order.
    Composite(Vec<StoredAttribute>),
}

/// Everything the catalog stores about one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeDefinition {
    /// Number of the type. Its oid also encodes the kind ([`TypeDefinition::type_oid`]).
    pub oid: Oid,
    /// Number of its schema.
    pub schema: Oid,
    /// Name, unique among the types and relations of the schema.
    pub name: String,
    /// Kind of the type, with its contents.
    pub kind: TypeKind,
    /// COMMENT ON TYPE, COMMENT ON DOMAIN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl TypeDefinition {
    /// Returns the type's oid, as columns and clients have it.
    pub fn type_oid(&self) -> TypeOid {
        match self.kind {
            TypeKind::Enum(_) => TypeOid::of_enum(self.oid.0),
            TypeKind::Domain(_) => TypeOid::of_domain(self.oid.0),
            TypeKind::Composite(_) => TypeOid::of_composite(self.oid.0),
        }
    }

    /// Returns the column type of the type's values.
    pub fn column_type(&self) -> ColumnType {
        match &self.kind {
            TypeKind::Enum(_) | TypeKind::Composite(_) => ColumnType::new(self.type_oid()),
            TypeKind::Domain(domain) => {
                ColumnType { domain: Some(self.type_oid()), ..domain.base() }
            }
        }
    }

    /// Returns the domain, if the type is one.
    pub fn domain(&self) -> Option<&DomainDefinition> {
        match &self.kind {
            TypeKind::Domain(domain) => Some(domain),
            TypeKind::Enum(_) | TypeKind::Composite(_) => None,
        }
    }

    /// Returns the attributes, if the type is composite.
    pub fn attributes(&self) -> Option<&[StoredAttribute]> {
        match &self.kind {
            TypeKind::Composite(attributes) => Some(attributes),
            TypeKind::Enum(_) | TypeKind::Domain(_) => None,
        }
    }

    /// Returns the composite type in the form that values need.
    pub(crate) fn composite_type(attributes: &[StoredAttribute]) -> CompositeType {
        let attribute = |attribute: &StoredAttribute| Attribute {
            name: Arc::from(attribute.name.as_str()),
            column: attribute.column_type(),
        };
        CompositeType { attributes: attributes.iter().map(attribute).collect() }
    }

    /// Returns the labels in order; none for a type that is no enum.
    pub fn labels(&self) -> &[StoredLabel] {
        match &self.kind {
            TypeKind::Enum(labels) => labels,
            TypeKind::Domain(_) | TypeKind::Composite(_) => &[],
        }
    }

    /// Returns the enum with its labels in the form that values need.
    pub fn enum_type(&self) -> EnumType {
        let label = |label: &StoredLabel| EnumLabel {
            name: Arc::from(label.name.as_str()),
            position: label.position,
        };
        EnumType { labels: self.labels().iter().map(label).collect() }
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

    /// Reads the definition in a stored object.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] when the object holds no type.
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
        if !definition.labels().is_sorted_by(|a, b| a.position < b.position) {
            return Err(wrong("the labels of an enum are not in the order of their positions"));
        }
        if let Some(domain) = definition.domain() {
            if TypeOid(domain.type_oid).is_domain() {
                return Err(wrong("a domain is made of a domain in the end"));
            }
            if !domain.checks.is_sorted_by(|a, b| a.name < b.name) {
                return Err(wrong("the checks of a domain are not in the order of their names"));
            }
        }
        if let Some(attributes) = definition.attributes() {
            // A type is built from older types only, so that there is no cycle.
            let refused = |attribute: &StoredAttribute| {
                let oid = TypeOid(attribute.type_oid);
                let inner = oid.element().unwrap_or(oid);
                let newer = inner.user_number().is_some_and(|number| number >= object.oid.0);
                oid.is_domain() || inner.is_composite() && newer
            };
            if attributes.iter().any(refused) {
                return Err(wrong("an attribute is of a domain or of a type that is not older"));
            }
        }
        Ok(definition)
    }
}
