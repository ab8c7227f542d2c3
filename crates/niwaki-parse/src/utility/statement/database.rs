//! CREATE, ALTER and DROP DATABASE.

use super::SetCommand;

/// A statement on a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseStatement {
    /// CREATE DATABASE
    Create {
        /// Name.
        name: String,
        /// TEMPLATE
        template: Option<String>,
        /// The other options.
        options: DatabaseOptions,
    },
    /// DROP DATABASE
    Drop {
        /// Name.
        name: String,
        /// IF EXISTS
        if_exists: bool,
        /// FORCE: connected sessions are terminated.
        force: bool,
    },
    /// ALTER DATABASE WITH
    Alter {
        /// Name.
        name: String,
        /// The changed options.
        options: DatabaseOptions,
    },
    /// ALTER DATABASE SET and RESET
    Set {
        /// Name.
        name: String,
        /// The SET or RESET command.
        command: SetCommand,
    },
    /// ALTER DATABASE RENAME TO
    Rename {
        /// Name.
        name: String,
        /// New name.
        to: String,
    },
    /// ALTER DATABASE SET TABLESPACE
    Tablespace {
        /// Name.
        name: String,
        /// The tablespace.
        tablespace: String,
    },
    /// ALTER DATABASE OWNER TO
    Owner {
        /// Name.
        name: String,
        /// The role.
        role: String,
    },
}

impl DatabaseStatement {
    /// Returns the command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Create { .. } => "CREATE DATABASE",
            Self::Drop { .. } => "DROP DATABASE",
            Self::Alter { .. }
            | Self::Set { .. }
            | Self::Rename { .. }
            | Self::Tablespace { .. }
            | Self::Owner { .. } => "ALTER DATABASE",
        }
    }
}

/// Options of a database in a statement; `None` for options that are not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// OWNER
    pub owner: Option<String>,
    /// `ALLOW_CONNECTIONS`
    pub allow_connections: Option<bool>,
    /// CONNECTION LIMIT; `Some(None)`: no limit.
    pub connection_limit: Option<Option<u32>>,
    /// `IS_TEMPLATE`
    pub is_template: Option<bool>,
}
