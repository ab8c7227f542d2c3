//! The types of a state, and the collations of their values.

use std::sync::Arc;

use niwaki_env::hash::HashMap;
use niwaki_types::{ColumnType, TypeName, TypeOid, UserTypes};

use crate::definition::relation_definition::Column;
use crate::definition::schema::{PG_CATALOG, PUBLIC_SCHEMA, SearchPath};
use crate::definition::type_definition::{DomainDefinition, TypeDefinition, TypeKind};
use crate::postgres::collation::type_collation;
use crate::rows::oid::Oid;
use crate::state::catalog_state::CatalogState;

/// Schemas that the default search path finds.
const USUAL_PATH: [Oid; 2] = [PG_CATALOG, PUBLIC_SCHEMA];

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

/// Collations of types and columns.
impl CatalogState {
    /// Returns the default collation of a type's values, or of a domain's over the type.
    pub fn own_collation(&self, of: ColumnType) -> Option<Oid> {
        let Some(domain) = of.domain.and_then(|domain| self.domain(domain)) else {
            return type_collation(of.oid);
        };
        domain.collation.or_else(|| self.own_collation(domain.below()))
    }

    /// Returns the collation of a column.
    pub fn column_collation(&self, column: &Column) -> Option<Oid> {
        column.collation.or_else(|| self.own_collation(column.column_type()))
    }
}
