//! Names of objects in statements.

/// A relation's name in a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Database, if given: it must be the session's database
    /// ([`crate::database_name::check_database`]).
    pub database: Option<String>,
    /// Schema, if given.
    pub schema: Option<String>,
    /// Name.
    pub name: String,
    /// Position in the query text.
    pub position: Option<u32>,
    /// ONLY: without partitions.
    pub only: bool,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.name)
    }
}
