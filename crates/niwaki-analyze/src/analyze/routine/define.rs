//! CREATE FUNCTION: builds the definition of a new function, and checks its body.

use niwaki_catalog::{FunctionDefinition, FunctionLanguage, FunctionParameter, Oid, ParameterMode};
use niwaki_expr::analysis::AnalyzeContext;
use niwaki_expr::expr::FunctionKey;
use niwaki_expr::plan::CalledFunctions;
use niwaki_parse::error::{Result, SqlError};
use niwaki_parse::types::{element_of, is_polymorphic};
use niwaki_parse::utility::{CreateFunction, ParameterSpec};
use niwaki_types::TypeOid;

use crate::analyze::Analyzer;
use crate::analyze::expression::call::Concrete;
use crate::analyze::stored::text::Form;

/// Returns the error `42P13`.
fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new("42P13", message)
}

/// Builds the definition of a new SQL function, without the function's number.
///
/// # Errors
/// `42P13` for impossible parameters and results; the errors of types and defaults.
pub fn analyze_function(
    spec: &CreateFunction,
    schema: Oid,
    context: &AnalyzeContext<'_>,
) -> Result<FunctionDefinition> {
    let mut analyzer = Analyzer::new(context, "", Vec::new());
    let parameters = analyzer.parameters(&spec.parameters)?;
    let outputs: Vec<&FunctionParameter> =
        parameters.iter().filter(|parameter| parameter.mode.is_output()).collect();
    let implied = match outputs.as_slice() {
        [] => None,
        [only] => Some(TypeOid(only.kind)),
        _ => Some(TypeOid::RECORD),
    };
    let said = match &spec.returns {
        Some(name) => Some((analyzer.signature_type(name)?, name.setof)),
        None => None,
    };
    let (returns, returns_set) = match (said, implied) {
        (None, None) => return Err(invalid("function result type must be specified")),
        (None, Some(implied)) => (implied, false),
        (Some((said, _)), Some(implied)) if said != implied => {
            let shown = analyzer.format_oid(implied);
            let message = format!("function result type must be {shown} because of OUT parameters");
            return Err(invalid(message));
        }
        (Some(said), _) => said,
    };
    let pseudo = |oid: TypeOid| {
        !is_polymorphic(oid)
            && (niwaki_parse::types::category(oid) == 'P' || oid == niwaki_catalog::TRIGGER_TYPE)
            && oid != TypeOid::RECORD
    };
    if pseudo(returns) && returns != TypeOid::VOID {
        let shown = analyzer.format_oid(returns);
        return Err(invalid(format!("SQL functions cannot return type {shown}")));
    }
    let inputs = parameters.iter().filter(|parameter| parameter.mode.is_input());
    let arguments: Vec<u32> = inputs.map(|parameter| parameter.kind).collect();
    for oid in arguments.iter().copied().map(TypeOid) {
        if pseudo(oid) || oid == TypeOid::RECORD {
            let shown = analyzer.format_oid(oid);
            return Err(invalid(format!("SQL functions cannot have arguments of type {shown}")));
        }
    }
    analyzer.check_polymorphic(returns, &arguments)?;
    for output in &outputs {
        analyzer.check_polymorphic(TypeOid(output.kind), &arguments)?;
    }
    if spec.traits.rows.is_some() && !returns_set {
        let message = "ROWS is not applicable when function does not return a set";
        return Err(SqlError::new("22023", message));
    }
    let plain = |parameter: &FunctionParameter| {
        parameter.name.is_empty()
            && parameter.mode == ParameterMode::In
            && parameter.default.is_none()
    };
    let parameters = if parameters.iter().all(plain) { Vec::new() } else { parameters };
    Ok(FunctionDefinition {
        oid: Oid::INVALID,
        schema,
        name: spec.name.name.clone(),
        language: FunctionLanguage::Sql,
        arguments,
        parameters,
        returns: returns.0,
        returns_set,
        body: spec.body.clone(),
        traits: spec.traits.clone(),
        comment: None,
    })
}

/// Checks that the body of a function returns the declared result. Bodies of polymorphic functions
/// are only parsed.
///
/// # Errors
/// `42P13` for a result of another type, and the errors of the body's statements.
pub fn check_body(
    definition: &FunctionDefinition,
    context: &AnalyzeContext<'_>,
    functions: &CalledFunctions<'_>,
) -> Result<()> {
    let analyzer = Analyzer::new(context, "", Vec::new());
    let arguments: Vec<TypeOid> = definition.arguments.iter().copied().map(TypeOid).collect();
    if arguments.iter().copied().any(is_polymorphic) {
        return niwaki_parse::parse::parse(&definition.body).map(|_| ());
    }
    let Ok(concrete) = Concrete::of(&arguments, &arguments) else {
        return Err(SqlError::internal("a function without types"));
    };
    let Some(shape) = analyzer.shape_of(definition, concrete)? else {
        return Err(SqlError::internal("a function without a type"));
    };
    let key = FunctionKey { oid: definition.oid, arguments, collation: None };
    analyzer.function_body(definition, &key, &shape, functions).map(|_| ())
}

impl Analyzer<'_> {
    fn parameters(&mut self, specs: &[ParameterSpec]) -> Result<Vec<FunctionParameter>> {
        let mut parameters: Vec<FunctionParameter> = Vec::with_capacity(specs.len());
        let mut variadic = false;
        let mut defaults = false;
        for spec in specs {
            if spec.kind.setof {
                let message = match spec.mode {
                    ParameterMode::Table => "functions cannot return set arguments",
                    _ => "functions cannot accept set arguments",
                };
                return Err(invalid(message));
            }
            let kind = self.signature_type(&spec.kind).map_err(|error| match error.sqlstate {
                // PostgreSQL words this message without quotes.
                "42704" => SqlError::new("42704", error.message.replace('"', "")),
                _ => error,
            })?;
            let mode = spec.mode;
            if mode.is_input() && variadic {
                return Err(invalid("VARIADIC parameter must be the last input parameter"));
            }
            if mode == ParameterMode::Variadic {
                variadic = true;
                let any = matches!(
                    kind,
                    niwaki_parse::types::ANY_ARRAY | niwaki_parse::types::ANY_COMPATIBLE_ARRAY
                );
                if !any && element_of(kind).is_none() {
                    return Err(invalid("VARIADIC parameter must be an array"));
                }
            }
            let clashes = |other: &FunctionParameter| {
                other.name == spec.name
                    && (other.mode.is_input() && mode.is_input()
                        || other.mode.is_output() && mode.is_output())
            };
            if !spec.name.is_empty() && parameters.iter().any(clashes) {
                let message = format!("parameter name \"{}\" used more than once", spec.name);
                return Err(invalid(message));
            }
            let mut stored = None;
            if let Some(default) = &spec.default {
                if !mode.is_input() {
                    return Err(invalid("only input parameters can have default values"));
                }
                defaults = true;
                stored = Some(Form::of_parameter(kind).define(default, self.context)?);
            } else if defaults && mode.is_input() {
                let message =
                    "input parameters after one with a default value must also have defaults";
                return Err(invalid(message));
            }
            let name = spec.name.clone();
            parameters.push(FunctionParameter { name, mode, kind: kind.0, default: stored });
        }
        Ok(parameters)
    }

    /// Resolves a type name in a signature.
    fn signature_type(&self, name: &pg_query::protobuf::TypeName) -> Result<TypeOid> {
        if name.pct_type {
            return Err(SqlError::unsupported("%TYPE in a function's signature"));
        }
        let names = crate::analyze::names::parts::names_of(&name.names);
        let pseudo = match names.as_slice() {
            [pseudo] | ["pg_catalog", pseudo] if name.array_bounds.is_empty() => match *pseudo {
                "trigger" => Some(niwaki_catalog::TRIGGER_TYPE),
                pseudo => niwaki_parse::types::pseudo_type(pseudo),
            },
            _ => None,
        };
        match pseudo {
            Some(oid) => Ok(oid),
            None => self.type_name(name).map(|kind| kind.declared()),
        }
    }

    /// Refuses a polymorphic result without a parameter that determines its type.
    fn check_polymorphic(&self, result: TypeOid, arguments: &[u32]) -> Result<()> {
        use niwaki_parse::types as t;
        const SIMPLE: [TypeOid; 4] = [t::ANY_ELEMENT, t::ANY_ARRAY, t::ANY_NONARRAY, t::ANY_ENUM];
        const COMMON: [TypeOid; 2] = [t::ANY_COMPATIBLE, t::ANY_COMPATIBLE_ARRAY];
        let (family, shown) = match result {
            result if SIMPLE.contains(&result) => (
                &SIMPLE[..],
                "anyelement, anyarray, anynonarray, anyenum, anyrange, or anymultirange",
            ),
            result if COMMON.contains(&result) => (
                &COMMON[..],
                "anycompatible, anycompatiblearray, anycompatiblenonarray, anycompatiblerange, or anycompatiblemultirange",
            ),
            _ => return Ok(()),
        };
        if arguments.iter().any(|oid| family.contains(&TypeOid(*oid))) {
            return Ok(());
        }
        let name = self.format_oid(result);
        let detail =
            format!("A result of type {name} requires at least one input of type {shown}.");
        Err(invalid("cannot determine result data type").with_detail(detail))
    }
}
