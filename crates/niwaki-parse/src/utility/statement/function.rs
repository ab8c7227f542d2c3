//! Statements on functions: CREATE FUNCTION, ALTER FUNCTION, DROP FUNCTION.

use niwaki_catalog::{FunctionParallel, FunctionTraits, FunctionVolatility, ParameterMode};
use niwaki_types::ColumnType;
use pg_query::protobuf::TypeName;

use super::{Name, UserTypeName};
use crate::tree::Tree;

/// A type in a statement on functions: a built-in type, or a user's type by name.
pub type ArgumentType = (ColumnType, Option<UserTypeName>);

/// CREATE FUNCTION
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    /// Name.
    pub name: Name,
    /// OR REPLACE
    pub replace: bool,
    /// Name of the language.
    pub language: String,
    /// Its parameters.
    pub parameters: Vec<ParameterSpec>,
    /// The type of the result, if given.
    pub returns: Option<Tree<TypeName>>,
    /// True if the result type is `trigger`.
    pub for_triggers: bool,
    /// The body.
    pub body: String,
    /// The other properties.
    pub traits: FunctionTraits,
}

/// A parameter in CREATE FUNCTION.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// Its name; empty if unnamed.
    pub name: String,
    /// Its mode.
    pub mode: ParameterMode,
    /// The name of its type.
    pub kind: Tree<TypeName>,
    /// The text of its default.
    pub default: Option<String>,
}

/// A function's name in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// Its name.
    pub name: Name,
    /// The argument types, if given. Without them, the function's name must be unique.
    pub arguments: Option<Vec<ArgumentType>>,
    /// The argument types as written, for messages about a missing function.
    pub written: Vec<String>,
}

/// A statement on functions.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionStatement {
    /// CREATE FUNCTION
    Create(Box<CreateFunction>),
    /// DROP FUNCTION, DROP ROUTINE
    Drop {
        /// The functions.
        functions: Vec<FunctionName>,
        /// IF EXISTS
        if_exists: bool,
        /// CASCADE
        cascade: bool,
        /// The statement's command tag.
        tag: &'static str,
    },
    /// ALTER FUNCTION … RENAME TO
    Rename {
        /// The function.
        function: FunctionName,
        /// Its new name.
        to: String,
    },
    /// ALTER FUNCTION … OWNER TO
    Owner {
        /// The function.
        function: FunctionName,
        /// The new owner.
        role: String,
    },
    /// ALTER FUNCTION … SET SCHEMA
    SetSchema {
        /// The function.
        function: FunctionName,
        /// Its new schema.
        schema: String,
    },
    /// ALTER FUNCTION … IMMUTABLE, STRICT, COST and similar.
    Alter {
        /// The function.
        function: FunctionName,
        /// The changes.
        changes: TraitChanges,
    },
}

impl FunctionStatement {
    /// Returns the command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Create(_) => "CREATE FUNCTION",
            Self::Drop { tag, .. } => tag,
            _ => "ALTER FUNCTION",
        }
    }
}

/// Properties of a function in a statement, besides its signature and body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraitChanges {
    /// IMMUTABLE, STABLE, VOLATILE
    pub volatility: Option<FunctionVolatility>,
    /// STRICT, CALLED ON NULL INPUT
    pub strict: Option<bool>,
    /// LEAKPROOF
    pub leakproof: Option<bool>,
    /// PARALLEL
    pub parallel: Option<FunctionParallel>,
    /// COST
    pub cost: Option<f64>,
    /// ROWS
    pub rows: Option<f64>,
}

impl TraitChanges {
    /// Applies the changes.
    pub fn apply(&self, traits: &mut FunctionTraits) {
        traits.volatility = self.volatility.unwrap_or(traits.volatility);
        traits.strict = self.strict.unwrap_or(traits.strict);
        traits.leakproof = self.leakproof.unwrap_or(traits.leakproof);
        traits.parallel = self.parallel.unwrap_or(traits.parallel);
        traits.cost = self.cost.or(traits.cost);
        traits.rows = self.rows.or(traits.rows);
    }
}
