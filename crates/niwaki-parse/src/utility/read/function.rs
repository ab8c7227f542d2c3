//! Statements on functions: CREATE FUNCTION, ALTER FUNCTION, DROP FUNCTION.

use niwaki_catalog::{
    FunctionParallel, FunctionTraits, FunctionVolatility, ParameterMode, TRIGGER_TYPE,
};
use niwaki_types::ColumnType;
use pg_query::protobuf::{
    self, DefElem, DropBehavior, FunctionParameterMode, ObjectType, ObjectWithArgs, TypeName,
};
use pg_query::{Node, NodeEnum};

use super::nodes::{
    elements, expression_text, qualified, string_of, strings, switch_of, unexpected,
};
use super::table::named_type;
use crate::error::{Result, SqlError};
use crate::tree::Tree;
use crate::utility::command_name::object_words;
use crate::utility::statement::{
    ArgumentType, CreateFunction, FunctionName, FunctionStatement, ParameterSpec, TraitChanges,
    Utility,
};

pub(super) fn create_function(s: &protobuf::CreateFunctionStmt) -> Result<Utility> {
    if s.is_procedure {
        return Err(SqlError::unsupported("CREATE PROCEDURE"));
    }
    let mut changes = TraitChanges::default();
    let (mut language, mut body) = (None, None);
    for option in elements(&s.options) {
        match option.defname.as_str() {
            "language" => language = string_of(option),
            "as" => body = Some(body_of(option)?),
            _ if changes.take(option)? => {}
            other => return Err(SqlError::unsupported(format!("{other} of a function"))),
        }
    }
    let wrong = |message: &str| SqlError::new("42P13", message);
    let language = match (language, &s.sql_body) {
        (Some(language), _) => language,
        (None, Some(_)) => "sql".to_owned(),
        (None, None) => return Err(wrong("no language specified")),
    };
    if s.sql_body.is_some() {
        return Err(SqlError::unsupported("a function's body as RETURN or BEGIN ATOMIC"));
    }
    let mut parameters = Vec::with_capacity(s.parameters.len());
    for node in &s.parameters {
        if let Some(NodeEnum::FunctionParameter(parameter)) = &node.node {
            parameters.push(parameter_of(parameter)?);
        }
    }
    let returns = s.return_type.as_ref();
    let for_triggers = returns
        .as_ref()
        .is_some_and(|kind| is_trigger(kind) && !kind.setof && kind.array_bounds.is_empty());
    let mut traits = FunctionTraits::default();
    changes.apply(&mut traits);
    Ok(Utility::Function(FunctionStatement::Create(Box::new(CreateFunction {
        name: qualified(&strings(&s.funcname))?,
        replace: s.replace,
        body: body.ok_or_else(|| wrong("no function body specified"))?,
        language,
        parameters,
        returns: returns.map(Tree::of_type),
        for_triggers,
        traits,
    }))))
}

fn parameter_of(parameter: &protobuf::FunctionParameter) -> Result<ParameterSpec> {
    let mode = match parameter.mode() {
        FunctionParameterMode::FuncParamOut => ParameterMode::Out,
        FunctionParameterMode::FuncParamInout => ParameterMode::InOut,
        FunctionParameterMode::FuncParamVariadic => ParameterMode::Variadic,
        FunctionParameterMode::FuncParamTable => ParameterMode::Table,
        _ => ParameterMode::In,
    };
    Ok(ParameterSpec {
        name: parameter.name.clone(),
        mode,
        kind: (parameter.arg_type.as_ref().map(Tree::of_type))
            .ok_or_else(|| unexpected("CREATE FUNCTION"))?,
        default: parameter.defexpr.as_deref().map(expression_text).transpose()?,
    })
}

/// Returns `0A000` for a language that only PostgreSQL has.
fn refused_language(name: &str) -> SqlError {
    SqlError::unsupported(format!("language {name} of a function"))
}

/// Refuses languages in which Niwaki cannot run functions.
///
/// # Errors
/// `0A000` for a language that only PostgreSQL has, `42704` for an unknown one.
pub fn check_language(name: &str) -> Result<()> {
    match name {
        "plpgsql" | "sql" => Ok(()),
        "c" | "internal" => Err(refused_language(name)),
        _ => Err(SqlError::new("42704", format!("language \"{name}\" does not exist"))),
    }
}

/// Returns whether a type is `trigger`.
fn is_trigger(kind: &TypeName) -> bool {
    let names = strings(&kind.names);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let known = niwaki_catalog::builtin_types().by_oid(TRIGGER_TYPE.0).map_or("", |t| t.name);
    matches!(names.as_slice(), [name] | ["pg_catalog", name] if *name == known)
}

/// Returns the text of AS.
fn body_of(option: &DefElem) -> Result<String> {
    match option.arg.as_deref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::List(list)) => match strings(&list.items).as_slice() {
            [body] => Ok(body.clone()),
            _ => Err(refused_language("c")),
        },
        _ => Err(unexpected("CREATE FUNCTION")),
    }
}

/// Returns the name of a function in a statement.
pub(super) fn function_name(object: &ObjectWithArgs, source: &str) -> Result<FunctionName> {
    let mut written = Vec::new();
    let mut kinds = Vec::new();
    for node in &object.objargs {
        let Some(NodeEnum::TypeName(kind)) = &node.node else {
            return Err(unexpected("list of arguments"));
        };
        let mut shown = strings(&kind.names).join(".");
        shown.push_str(&"[]".repeat(kind.array_bounds.len()));
        written.push(shown);
        kinds.push(argument_type(kind, source)?);
    }
    let arguments = (!object.args_unspecified).then_some(kinds);
    Ok(FunctionName { name: qualified(&strings(&object.objname))?, arguments, written })
}

/// Reads an argument's type: a column type, or a pseudo-type of functions.
fn argument_type(kind: &TypeName, source: &str) -> Result<ArgumentType> {
    let names = strings(&kind.names);
    let pseudo = match names.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [name] | ["pg_catalog", name] => crate::types::pseudo_type(name),
        _ => None,
    };
    match pseudo.filter(|_| kind.array_bounds.is_empty()) {
        Some(oid) => Ok((ColumnType::new(oid), None)),
        None => named_type(kind, source),
    }
}

/// Returns the function that a node names.
pub(super) fn function_in(node: Option<&Node>, source: &str) -> Result<FunctionName> {
    match node.and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::ObjectWithArgs(object)) => function_name(object, source),
        _ => Err(unexpected("statement on a function")),
    }
}

/// Returns whether a statement is on functions, which does not include procedures and aggregates.
pub(super) fn is_function(kind: i32) -> bool {
    matches!(ObjectType::try_from(kind), Ok(ObjectType::ObjectFunction | ObjectType::ObjectRoutine))
}

pub(super) fn drop_functions(s: &protobuf::DropStmt, source: &str) -> Result<Utility> {
    let functions: Result<_> =
        s.objects.iter().map(|node| function_in(Some(node), source)).collect();
    let routine = s.remove_type == ObjectType::ObjectRoutine as i32;
    Ok(Utility::Function(FunctionStatement::Drop {
        functions: functions?,
        if_exists: s.missing_ok,
        cascade: s.behavior == DropBehavior::DropCascade as i32,
        tag: if routine { "DROP ROUTINE" } else { "DROP FUNCTION" },
    }))
}

pub(super) fn alter_function(s: &protobuf::AlterFunctionStmt, source: &str) -> Result<Utility> {
    if !is_function(s.objtype) {
        return Err(SqlError::unsupported(format!("ALTER {}", object_words(s.objtype))));
    }
    let object = s.func.as_ref().ok_or_else(|| unexpected("ALTER FUNCTION"))?;
    let mut changes = TraitChanges::default();
    for option in elements(&s.actions) {
        if !changes.take(option)? {
            return Err(SqlError::unsupported(format!("ALTER FUNCTION {}", option.defname)));
        }
    }
    let function = function_name(object, source)?;
    Ok(Utility::Function(FunctionStatement::Alter { function, changes }))
}

impl TraitChanges {
    /// Takes an option over; returns false if the option is unknown here.
    fn take(&mut self, option: &DefElem) -> Result<bool> {
        let twice = || Err(SqlError::new("42601", "conflicting or redundant options"));
        match option.defname.as_str() {
            "volatility" => {
                if self.volatility.is_some() {
                    return twice();
                }
                self.volatility = Some(match string_of(option).as_deref() {
                    Some("immutable") => FunctionVolatility::Immutable,
                    Some("stable") => FunctionVolatility::Stable,
                    _ => FunctionVolatility::Volatile,
                });
            }
            "strict" if self.strict.is_some() => return twice(),
            "strict" => self.strict = Some(switch_of(option)?),
            "leakproof" if self.leakproof.is_some() => return twice(),
            "leakproof" => self.leakproof = Some(switch_of(option)?),
            "parallel" => {
                if self.parallel.is_some() {
                    return twice();
                }
                self.parallel = Some(match string_of(option).as_deref() {
                    Some("safe") => FunctionParallel::Safe,
                    Some("restricted") => FunctionParallel::Restricted,
                    Some("unsafe") => FunctionParallel::Unsafe,
                    _ => {
                        let message = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                        return Err(SqlError::new("42601", message));
                    }
                });
            }
            "cost" => {
                let cost = string_of(option).and_then(|text| text.parse::<f64>().ok());
                let cost = cost.filter(|cost| *cost > 0.0 && cost.is_finite());
                let wrong = || SqlError::new("22023", "COST must be positive");
                self.cost = Some(cost.ok_or_else(wrong)?);
            }
            // There is a single, all-powerful role: the caller and the owner have the same rights.
            "security" if !switch_of(option)? => {}
            "security" => return Err(SqlError::unsupported("SECURITY DEFINER")),
            "rows" => {
                let rows = string_of(option).and_then(|text| text.parse::<f64>().ok());
                let rows = rows.filter(|rows| *rows > 0.0 && rows.is_finite());
                let wrong = || SqlError::new("22023", "ROWS must be positive");
                self.rows = Some(rows.ok_or_else(wrong)?);
            }
            "set" => return Err(SqlError::unsupported("SET of a function")),
            "support" => return Err(SqlError::unsupported("SUPPORT of a function")),
            "transform" => return Err(SqlError::unsupported("TRANSFORM of a function")),
            "window" => return Err(SqlError::unsupported("WINDOW of a function")),
            _ => return Ok(false),
        }
        Ok(true)
    }
}
