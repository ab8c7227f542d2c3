//! Types that users define: what the catalog stores of one, and all of them as a state has them.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_types::{
    Attribute, ColumnType, CompositeType, EnumLabel, EnumType, TypeName, TypeOid, UserTypes,
};
use serde::{Deserialize, Serialize};

use crate::definition::{Check, Oid};
use crate::objects::{Object, ObjectKind, damaged};
use crate::state::{CatalogState, PG_CATALOG, PUBLIC_SCHEMA, SearchPath};

/// What a search path finds that nobody has set.
const USUAL_PATH: [Oid; 2] = [PG_CATALOG, PUBLIC_SCHEMA];

/// A label of an enum with its position ([`EnumLabel::position`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLabel {
    /// Its text.
    pub name: String,
    /// Its position.
    #[serde(rename = "at")]
    pub position: u64,
}

/// What a domain is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainDefinition {
    /// What its values are in the end: oid of a type that is no domain.
    #[serde(rename = "t")]
    pub type_oid: u32,
    /// The modifier of that type, -1 when none.
    #[serde(rename = "m")]
    pub typmod: i32,
    /// The domain that it was made of, if it was made of one, whose constraints are its own too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Oid>,
    /// Its collation, where it is another one than that of what it is made of.
    #[serde(rename = "coll", default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<Oid>,
    /// NOT NULL
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
    /// What its values are in the end.
    pub fn base(&self) -> ColumnType {
        ColumnType::with_typmod(TypeOid(self.type_oid), self.typmod)
    }

    /// What it was made of: [`DomainDefinition::base`], as values of the domain below if there is one.
    pub fn below(&self) -> ColumnType {
        let domain = self.over.map(|over| TypeOid::of_domain(over.0));
        ColumnType { domain, ..self.base() }
    }
}

/// An attribute of a composite type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAttribute {
    /// Its name, unique in the type.
    pub name: String,
    /// Oid of its type, which is no domain.
    #[serde(rename = "t")]
    pub type_oid: u32,
    /// The modifier of that type, -1 when none.
    #[serde(rename = "m")]
    pub typmod: i32,
    /// Its collation, where it is another one than its type's.
    #[serde(rename = "coll", default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<Oid>,
}

impl StoredAttribute {
    /// Its type.
    pub fn column_type(&self) -> ColumnType {
        ColumnType::with_typmod(TypeOid(self.type_oid), self.typmod)
    }
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TypeKind {
    /// Labels in the order of their positions.
    Enum(Vec<StoredLabel>),
    /// Values of another type, with constraints.
    Domain(Box<DomainDefinition>),
    /// Attributes in their order.
    Composite(Vec<StoredAttribute>),
}

/// Everything the catalog stores about one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeDefinition {
    /// Number of the type. Its oid has the kind beside it ([`TypeDefinition::type_oid`]).
    pub oid: Oid,
    /// Number of its schema.
    pub schema: Oid,
    /// Name, unique among the types and relations of the schema.
    pub name: String,
    /// What it is.
    pub kind: TypeKind,
    /// COMMENT ON TYPE, COMMENT ON DOMAIN
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl TypeDefinition {
    /// The type's oid, as columns and clients have it.
    pub fn type_oid(&self) -> TypeOid {
        match self.kind {
            TypeKind::Enum(_) => TypeOid::of_enum(self.oid.0),
            TypeKind::Domain(_) => TypeOid::of_domain(self.oid.0),
            TypeKind::Composite(_) => TypeOid::of_composite(self.oid.0),
        }
    }

    /// What columns of the type are.
    pub fn column_type(&self) -> ColumnType {
        match &self.kind {
            TypeKind::Enum(_) | TypeKind::Composite(_) => ColumnType::new(self.type_oid()),
            TypeKind::Domain(domain) => {
                ColumnType { domain: Some(self.type_oid()), ..domain.base() }
            }
        }
    }

    /// The domain, if it is one.
    pub fn domain(&self) -> Option<&DomainDefinition> {
        match &self.kind {
            TypeKind::Domain(domain) => Some(domain),
            TypeKind::Enum(_) | TypeKind::Composite(_) => None,
        }
    }

    /// The attributes, if it is a composite type.
    pub fn attributes(&self) -> Option<&[StoredAttribute]> {
        match &self.kind {
            TypeKind::Composite(attributes) => Some(attributes),
            TypeKind::Enum(_) | TypeKind::Domain(_) => None,
        }
    }

    /// The composite type as values need it.
    fn composite_type(attributes: &[StoredAttribute]) -> CompositeType {
        let attribute = |attribute: &StoredAttribute| Attribute {
            name: Arc::from(attribute.name.as_str()),
            column: attribute.column_type(),
        };
        CompositeType { attributes: attributes.iter().map(attribute).collect() }
    }

    /// Its labels in their order; a type that is no enum has none.
    pub fn labels(&self) -> &[StoredLabel] {
        match &self.kind {
            TypeKind::Enum(labels) => labels,
            TypeKind::Domain(_) | TypeKind::Composite(_) => &[],
        }
    }

    /// The enum with labels as values need it.
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
            // Types are made of types that were there before them, so that there is no circle.
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

    /// The domain of this oid.
    pub fn domain(&self, oid: TypeOid) -> Option<&DomainDefinition> {
        if !oid.is_domain() {
            return None;
        }
        self.user_type(Oid(oid.user_number()?))?.domain()
    }

    /// The definitions of a domain and of those that it is made of, from itself inwards.
    pub fn domain_chain(&self, oid: TypeOid) -> Vec<&DomainDefinition> {
        let mut chain: Vec<&DomainDefinition> = Vec::new();
        let mut next = Some(oid);
        while let Some(domain) = next.and_then(|oid| self.domain(oid)) {
            // A damaged catalog may have a circle.
            if chain.iter().any(|known| std::ptr::eq(*known, domain)) {
                break;
            }
            chain.push(domain);
            next = domain.over.map(|over| TypeOid::of_domain(over.0));
        }
        chain
    }

    /// Names and types of the fields of a composite type, be it a user's or that of a relation's rows.
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

    /// How many composite types stand in one another in values of this type.
    pub fn depth_of(&self, oid: TypeOid) -> usize {
        self.depth_beside(oid, &mut HashMap::default())
    }

    /// The same, with the depths that are known already: a type may be an attribute of many others.
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
        // Ends: a type is made of types that were there before it.
        let attributes = attributes.iter().map(|a| TypeOid(a.type_oid));
        let depths = attributes.map(|attribute| self.depth_beside(attribute, known));
        let depth = depths.max().unwrap_or(0).saturating_add(1);
        known.insert(inner, depth);
        depth
    }

    /// Whether some value of the base type may be none of the domain.
    pub fn is_constrained(&self, domain: TypeOid) -> bool {
        let chain = self.domain_chain(domain);
        chain.iter().any(|domain| domain.not_null || !domain.checks.is_empty())
    }

    /// Whether a domain is another one or made of it.
    pub fn is_made_of(&self, domain: Oid, of: Oid) -> bool {
        let chain = self.domain_chain(TypeOid::of_domain(domain.0));
        domain == of || chain.iter().any(|domain| domain.over == Some(of))
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

    /// What values of users' types need, with the names that messages show: with their schemas, where the search path does not
    /// find them.
    pub fn types_shown(&self, path: &SearchPath) -> Arc<UserTypes> {
        let usual = |schema: &Oid| USUAL_PATH.contains(schema);
        if path.schemas.contains(&PUBLIC_SCHEMA) && path.schemas.iter().all(usual) {
            return Arc::clone(&self.types.for_values);
        }
        Arc::new(self.types.for_values.along(path.schemas.iter().map(|schema| schema.0)))
    }

    /// Makes anew what values need, after types changed.
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
