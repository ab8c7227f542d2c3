//! Options of sequences.

use super::Name;

/// Options of a sequence; `None` for options that are not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// AS type (oid)
    pub type_oid: Option<u32>,
    /// INCREMENT BY
    pub increment: Option<i64>,
    /// MINVALUE; `Some(None)`: NO MINVALUE
    pub minimum: Option<Option<i64>>,
    /// MAXVALUE; `Some(None)`: NO MAXVALUE
    pub maximum: Option<Option<i64>>,
    /// START WITH
    pub start: Option<i64>,
    /// RESTART; `Some(None)`: at the start value
    pub restart: Option<Option<i64>>,
    /// CACHE
    pub cache: Option<i64>,
    /// CYCLE
    pub cycle: Option<bool>,
    /// OWNED BY table.column; `Some(None)`: NONE
    pub owned_by: Option<Option<(Name, String)>>,
    /// SEQUENCE NAME of an identity column.
    pub sequence_name: Option<Name>,
}
