//! Stored definitions of functions (`docs/internals/format.md`, catalog).

use niwaki_types::TypeOid;
use serde::{Deserialize, Serialize};

use crate::definition::omitted::is_false;
use crate::rows::objects::{Object, ObjectKind, damaged};
use crate::rows::oid::Oid;

/// Language of a function's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FunctionLanguage {
    /// PL/pgSQL, as far as trigger functions need it.
    #[serde(rename = "plpgsql")]
    PlPgSql,
    /// SQL: statements. The last one gives the result.
    #[serde(rename = "sql")]
    Sql,
}

impl FunctionLanguage {
    /// Returns the language's name in statements.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlPgSql => "plpgsql",
            Self::Sql => "sql",
        }
    }
}

/// The stability of a function's results, which decides when evaluation ahead of time is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FunctionVolatility {
    /// IMMUTABLE: the same arguments always give the same result.
    #[serde(rename = "i")]
    Immutable,
    /// STABLE: the same arguments give the same result during one statement.
    #[serde(rename = "s")]
    Stable,
    /// VOLATILE: every call may give another result.
    #[default]
    #[serde(rename = "v")]
    Volatile,
}

impl FunctionVolatility {
    /// Returns PostgreSQL's letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Immutable => "i",
            Self::Stable => "s",
            Self::Volatile => "v",
        }
    }
}

/// Parallel safety that a function declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FunctionParallel {
    /// PARALLEL UNSAFE.
    #[default]
    #[serde(rename = "u")]
    Unsafe,
    /// PARALLEL RESTRICTED.
    #[serde(rename = "r")]
    Restricted,
    /// PARALLEL SAFE.
    #[serde(rename = "s")]
    Safe,
}

impl FunctionParallel {
    /// Returns PostgreSQL's letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Unsafe => "u",
            Self::Restricted => "r",
            Self::Safe => "s",
        }
    }
}

/// Properties that CREATE FUNCTION declares beside signature and body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionTraits {
    /// IMMUTABLE, STABLE or VOLATILE.
    #[serde(default, skip_serializing_if = "is_volatile")]
    pub volatility: FunctionVolatility,
    /// STRICT.
    #[serde(default, skip_serializing_if = "is_false")]
    pub strict: bool,
    /// LEAKPROOF.
    #[serde(default, skip_serializing_if = "is_false")]
    pub leakproof: bool,
    /// PARALLEL.
    #[serde(default, skip_serializing_if = "is_unsafe")]
    pub parallel: FunctionParallel,
    /// COST, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// ROWS, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<f64>,
}

/// Mode of a function's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ParameterMode {
    /// The call gives the value.
    #[default]
    #[serde(rename = "i")]
    In,
    /// The parameter is a column of the result.
    #[serde(rename = "o")]
    Out,
    /// Both of these.
    #[serde(rename = "b")]
    InOut,
    /// An array of all values that a call gives from this position on.
    #[serde(rename = "v")]
    Variadic,
    /// A column of RETURNS TABLE.
    #[serde(rename = "t")]
    Table,
}

impl ParameterMode {
    /// Returns PostgreSQL's letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::In => "i",
            Self::Out => "o",
            Self::InOut => "b",
            Self::Variadic => "v",
            Self::Table => "t",
        }
    }

    /// Decides whether a call gives the parameter's value.
    pub fn is_input(self) -> bool {
        matches!(self, Self::In | Self::InOut | Self::Variadic)
    }

    /// Decides whether the parameter is a column of the result.
    pub fn is_output(self) -> bool {
        matches!(self, Self::Out | Self::InOut | Self::Table)
    }
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionParameter {
    /// Name of the parameter; empty for none.
    #[serde(rename = "n", default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Mode of the parameter.
    #[serde(rename = "m", default, skip_serializing_if = "is_in")]
    pub mode: ParameterMode,
    /// Oid of the parameter's type.
    #[serde(rename = "t")]
    pub kind: u32,
    /// Expression for the value when a call gives none.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_in(mode: &ParameterMode) -> bool {
    *mode == ParameterMode::In
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_volatile(volatility: &FunctionVolatility) -> bool {
    *volatility == FunctionVolatility::Volatile
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_unsafe(parallel: &FunctionParallel) -> bool {
    *parallel == FunctionParallel::Unsafe
}

/// Everything the catalog stores about one function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionDefinition {
    /// Number of the function.
    pub oid: Oid,
    /// Number of its schema.
    pub schema: Oid,
    /// Name of the function. Functions of one schema with the same name differ in their arguments.
    pub name: String,
    /// Language of the body.
    #[serde(rename = "lang")]
    pub language: FunctionLanguage,
    /// Oids of the types of the arguments.
    #[serde(rename = "args", default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<u32>,
    /// All parameters, when at least one has more than an argument type.
    #[serde(rename = "pars", default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<FunctionParameter>,
    /// Oid of the result's type.
    pub returns: u32,
    /// SETOF, TABLE: the function returns any number of rows.
    #[serde(rename = "set", default, skip_serializing_if = "is_false")]
    pub returns_set: bool,
    /// The body as written. Names in it are resolved when it runs.
    pub body: String,
    /// The other declared properties.
    #[serde(flatten)]
    pub traits: FunctionTraits,
    /// COMMENT ON FUNCTION.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Default cost of a call of a function that is not written in C, in PostgreSQL's units.
const USUAL_COST: f64 = 100.0;

/// Default number of rows of a function that returns a set.
const USUAL_ROWS: f64 = 1000.0;

/// Oid of type `trigger`, as in PostgreSQL.
pub const TRIGGER_TYPE: TypeOid = TypeOid(2279);

impl FunctionDefinition {
    /// Decides whether triggers can call the function.
    pub fn is_for_triggers(&self) -> bool {
        self.returns == TRIGGER_TYPE.0
    }

    /// Returns PostgreSQL's estimate of a call's cost.
    pub fn cost(&self) -> f64 {
        self.traits.cost.unwrap_or(USUAL_COST)
    }

    /// Returns PostgreSQL's estimate of the number of rows.
    pub fn rows(&self) -> f64 {
        let usual = if self.returns_set { USUAL_ROWS } else { 0.0 };
        self.traits.rows.unwrap_or(usual)
    }

    /// Decides whether the declared number of rows differs from the default.
    pub fn has_unusual_rows(&self) -> bool {
        self.traits.rows.is_some_and(|rows| (rows - USUAL_ROWS).abs() > f64::EPSILON)
    }

    /// Returns the parameters whose values calls give, in order.
    pub fn inputs(&self) -> Vec<FunctionParameter> {
        if self.parameters.is_empty() {
            let unnamed = |kind: &u32| FunctionParameter {
                name: String::new(),
                mode: ParameterMode::In,
                kind: *kind,
                default: None,
            };
            return self.arguments.iter().map(unnamed).collect();
        }
        self.parameters.iter().filter(|parameter| parameter.mode.is_input()).cloned().collect()
    }

    /// Iterates over the parameters that are columns of the result, in order.
    pub fn outputs(&self) -> impl Iterator<Item = &FunctionParameter> {
        self.parameters.iter().filter(|parameter| parameter.mode.is_output())
    }

    /// Decides whether the last argument takes any number of values.
    pub fn is_variadic(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.mode == ParameterMode::Variadic)
    }

    /// Returns the numbers of the user types in the signature, in order.
    pub fn types(&self) -> Vec<Oid> {
        let all = self.arguments.iter().chain(self.parameters.iter().map(|p| &p.kind));
        let all = all.chain(std::iter::once(&self.returns));
        let mut types: Vec<Oid> =
            all.filter_map(|oid| TypeOid(*oid).user_number().map(Oid)).collect();
        types.sort_unstable();
        types.dedup();
        types
    }

    /// Decides whether the declared cost differs from the default.
    pub fn has_unusual_cost(&self) -> bool {
        self.traits.cost.is_some_and(|cost| (cost - USUAL_COST).abs() > f64::EPSILON)
    }

    /// Returns the key of the function's row. The list of arguments makes it unique in its schema.
    fn key(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(u32::to_string).collect();
        format!("{}({})", self.name, arguments.join(","))
    }

    pub(crate) fn object(&self) -> crate::Result<Object> {
        Ok(Object {
            oid: self.oid,
            schema: self.schema,
            name: self.key(),
            kind: ObjectKind::Function,
            definition: serde_json::to_string(self)
                .map_err(|e| damaged(self.oid.0, &e.to_string()))?,
        })
    }

    /// Reads the definition in a stored object.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] when the object holds no function.
    pub(crate) fn of_object(object: &Object) -> crate::Result<Self> {
        let definition: Self = serde_json::from_str(&object.definition)
            .map_err(|e| damaged(object.oid.0, &e.to_string()))?;
        let same = definition.oid == object.oid
            && definition.schema == object.schema
            && definition.key() == object.name;
        if same { Ok(definition) } else { Err(damaged(object.oid.0, "row and definition differ")) }
    }
}
