//! Extensions: every database has the built-in ones, and no others exist.

/// A built-in extension, as described in PostgreSQL's catalogs.
#[derive(Debug)]
pub struct Extension {
    /// OID, above the OIDs of PostgreSQL's own objects.
    pub oid: u32,
    /// Name.
    pub name: &'static str,
    /// The version that Niwaki's functions correspond to.
    pub version: &'static str,
    /// True if every user with write access to a database may create it.
    pub trusted: bool,
    /// `pg_extension.extrelocatable`
    pub relocatable: bool,
    /// The schema that PostgreSQL requires.
    pub schema: Option<&'static str>,
    /// Description.
    pub comment: &'static str,
}
