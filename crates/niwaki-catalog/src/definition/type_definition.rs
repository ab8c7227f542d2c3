//! User-defined types: their stored definitions, and the types of a catalog state.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_types::{
    Attribute, ColumnType, CompositeType, EnumLabel, EnumType, TypeName, TypeOid, UserTypes,
};
use serde::{Deserialize, Serialize};

use crate::definition::constraint::Check;
use crate::definition::schema::{PG_CATALOG, PUBLIC_SCHEMA, SearchPath};
use crate::rows::objects::{Object, ObjectKind, damaged};
use crate::rows::oid::Oid;
use crate::state::catalog_state::CatalogState;

/// Schemas that the default search path finds.
const USUAL_PATH: [Oid; 2] = [PG_CATALOG, PUBLIC_SCHEMA];

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
    fn composite_type(attributes: &[StoredAttribute]) -> CompositeType {
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

/// Types of a catalog state.
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
    /// Returns the user's type with this number.
    pub fn user_type(&self, oid: Oid) -> Option<&Arc<TypeDefinition>> {
        self.types.by_oid.get(&oid)
    }

    /// Returns the domain of this oid.
    pub fn domain(&self, oid: TypeOid) -> Option<&DomainDefinition> {
        if !oid.is_domain() {
            return None;
        }
        self.user_type(Oid(oid.user_number()?))?.domain()
    }

    /// Returns the definitions of a domain and of the domains below it, from itself downwards.
    pub fn domain_chain(&self, oid: TypeOid) -> Vec<&DomainDefinition> {
        let mut chain: Vec<&DomainDefinition> = Vec::new();
        let mut next = Some(oid);
        while let Some(domain) = next.and_then(|oid| self.domain(oid)) {
            // A damaged catalog may have a cycle.
            if chain.iter().any(|known| std::ptr::eq(*known, domain)) {
                break;
            }
            chain.push(domain);
            next = domain.over.map(|over| TypeOid::of_domain(over.0));
        }
        chain
    }

    /// Returns names and types of the fields of a composite type: a user's, or a relation's row
    /// type.
    pub fn fields_of(&self, oid: TypeOid) -> Option<Vec<(String, ColumnType)>> {
        if !oid.is_composite() {
            return None;
        }
        let number = Oid(oid.user_number()?);
        if let Some(definition) = self.user_type(number) {
            let attributes = definition.attributes()?.iter();
            return Some(attributes.map(|a| (a.name.clone(), a.column_type())).collect());
        }
        let columns = self.relation(number)?.visible_columns();
        Some(columns.map(|(_, column)| (column.name.clone(), column.column_type())).collect())
    }

    /// Returns how many levels of composite types are nested in values of this type.
    pub fn depth_of(&self, oid: TypeOid) -> usize {
        self.depth_beside(oid, &mut HashMap::default())
    }

    /// Does the same with the depths that are known already: a type may be an attribute of many
    /// others.
    fn depth_beside(&self, oid: TypeOid, known: &mut HashMap<TypeOid, usize>) -> usize {
        let inner = oid.element().unwrap_or(oid);
        if let Some(depth) = known.get(&inner) {
            return *depth;
        }
        let number = inner.is_composite().then(|| inner.user_number()).flatten();
        let definition = number.and_then(|number| self.user_type(Oid(number)));
        let Some(attributes) = definition.and_then(|definition| definition.attributes()) else {
            return 0;
        };
        // Ends: a type is built from older types only.
        let attributes = attributes.iter().map(|a| TypeOid(a.type_oid));
        let depths = attributes.map(|attribute| self.depth_beside(attribute, known));
        let depth = depths.max().unwrap_or(0).saturating_add(1);
        known.insert(inner, depth);
        depth
    }

    /// Decides whether some value of the base type may violate the domain.
    pub fn is_constrained(&self, domain: TypeOid) -> bool {
        let chain = self.domain_chain(domain);
        chain.iter().any(|domain| domain.not_null || !domain.checks.is_empty())
    }

    /// Decides whether a domain equals another one or is built on it.
    pub fn is_made_of(&self, domain: Oid, of: Oid) -> bool {
        let chain = self.domain_chain(TypeOid::of_domain(domain.0));
        domain == of || chain.iter().any(|domain| domain.over == Some(of))
    }

    /// Iterates over all user types, in no order.
    pub fn user_types(&self) -> impl Iterator<Item = &Arc<TypeDefinition>> {
        self.types.by_oid.values()
    }

    /// Returns the description of user types for values. It stays the same object while no type
    /// changes.
    pub fn types_of_values(&self) -> &Arc<UserTypes> {
        &self.types.for_values
    }

    /// Returns the user's type of this name in one schema.
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

    /// Returns the description of user types for values, with the names that messages show. A name
    /// has its schema where the search path does not find the type.
    pub fn types_shown(&self, path: &SearchPath) -> Arc<UserTypes> {
        let usual = |schema: &Oid| USUAL_PATH.contains(schema);
        if path.schemas.contains(&PUBLIC_SCHEMA) && path.schemas.iter().all(usual) {
            return Arc::clone(&self.types.for_values);
        }
        Arc::new(self.types.for_values.along(path.schemas.iter().map(|schema| schema.0)))
    }

    /// Rebuilds the description of user types for values, after types changed.
    pub(crate) fn types_changed(&mut self) {
        let mut types = UserTypes::default();
        for definition in self.user_types() {
            let oid = definition.type_oid();
            if let Some(schema) = self.schema(definition.schema) {
                let [schema_name, name] =
                    [&schema.name, &definition.name].map(|name| Arc::from(name.as_str()));
                types.put_name(oid, TypeName { schema: schema.oid.0, schema_name, name });
            }
            match &definition.kind {
                TypeKind::Composite(attributes) => {
                    let composite = TypeDefinition::composite_type(attributes);
                    types.put_composite(oid, Arc::new(composite));
                }
                TypeKind::Enum(_) => types.put(oid, Arc::new(definition.enum_type())),
                TypeKind::Domain(_) => types.put_domain(oid, definition.column_type()),
            }
        }
        self.types.for_values = Arc::new(types.along(USUAL_PATH.iter().map(|schema| schema.0)));
    }
}
