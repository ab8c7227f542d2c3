//! PostgreSQL's types for the analyzer: names, categories, arrays and casts.

use niwaki_catalog::builtin_types;
use niwaki_types::{ColumnType, TypeOid};

/// `anyarray`: stands for any array type in a signature.
pub const ANY_ARRAY: TypeOid = TypeOid(2277);
/// `anyelement`: stands for any type in a signature; all occurrences must agree.
pub const ANY_ELEMENT: TypeOid = TypeOid(2283);
/// `anynonarray`: stands for any type that is no array.
pub const ANY_NONARRAY: TypeOid = TypeOid(2776);
/// `anyenum`: stands for any enum in a signature; all occurrences must agree.
pub const ANY_ENUM: TypeOid = TypeOid(3500);
/// `anycompatible`: stands for any type in a signature; all occurrences get their common type.
pub const ANY_COMPATIBLE: TypeOid = TypeOid(5077);
/// The array type of [`ANY_COMPATIBLE`].
pub const ANY_COMPATIBLE_ARRAY: TypeOid = TypeOid(5078);
/// `"any"`: any type; each occurrence is independent.
pub const ANY: TypeOid = TypeOid(2276);
/// A row of anonymous type.
pub const RECORD: TypeOid = TypeOid::RECORD;

/// Name, OID, category, preferred, OID of the array type. The names are the internal ones
/// (`pg_type.typname`).
const TYPES: &[(&str, TypeOid, char, bool, u32)] = &[
    ("bool", TypeOid::BOOL, 'B', true, 1000),
    ("bytea", TypeOid::BYTEA, 'U', false, 1001),
    ("char", TypeOid::CHAR, 'Z', false, 1002),
    ("name", TypeOid::NAME, 'S', false, 1003),
    ("int8", TypeOid::INT8, 'N', false, 1016),
    ("int2", TypeOid::INT2, 'N', false, 1005),
    ("int4", TypeOid::INT4, 'N', false, 1007),
    ("text", TypeOid::TEXT, 'S', true, 1009),
    ("oid", TypeOid::OID, 'N', true, 1028),
    ("tid", TypeOid::TID, 'U', false, 1010),
    ("xid", TypeOid::XID, 'U', false, 1011),
    ("float4", TypeOid::FLOAT4, 'N', false, 1021),
    ("float8", TypeOid::FLOAT8, 'N', true, 1022),
    ("unknown", TypeOid::UNKNOWN, 'X', false, 0),
    ("bpchar", TypeOid::BPCHAR, 'S', false, 1014),
    ("varchar", TypeOid::VARCHAR, 'S', false, 1015),
    ("date", TypeOid::DATE, 'D', false, 1182),
    ("timestamp", TypeOid::TIMESTAMP, 'D', false, 1115),
    ("timestamptz", TypeOid::TIMESTAMPTZ, 'D', true, 1185),
    ("interval", TypeOid::INTERVAL, 'T', true, 1187),
    ("time", TypeOid::TIME, 'D', false, 1183),
    ("timetz", TypeOid::TIMETZ, 'D', false, 1270),
    ("uuid", TypeOid::UUID, 'U', false, 2951),
    ("numeric", TypeOid::NUMERIC, 'N', false, 1231),
    ("pg_lsn", TypeOid::PG_LSN, 'U', false, 3221),
    ("regclass", TypeOid::REGCLASS, 'N', false, 2210),
    ("regproc", TypeOid::REGPROC, 'N', false, 1008),
    ("regprocedure", TypeOid::REGPROCEDURE, 'N', false, 2207),
    ("regoper", TypeOid::REGOPER, 'N', false, 2208),
    ("regoperator", TypeOid::REGOPERATOR, 'N', false, 2209),
    ("regtype", TypeOid::REGTYPE, 'N', false, 2211),
    ("regrole", TypeOid::REGROLE, 'N', false, 4097),
    ("regnamespace", TypeOid::REGNAMESPACE, 'N', false, 4090),
    ("regcollation", TypeOid::REGCOLLATION, 'N', false, 4192),
    ("json", TypeOid::JSON, 'U', false, 199),
    ("jsonb", TypeOid::JSONB, 'U', false, 3807),
    ("jsonpath", TypeOid::JSONPATH, 'U', false, 4073),
    ("void", TypeOid::VOID, 'P', false, 0),
    ("record", RECORD, 'P', false, 2287),
    ("anyarray", ANY_ARRAY, 'P', false, 0),
    ("anyelement", ANY_ELEMENT, 'P', false, 0),
    ("anynonarray", ANY_NONARRAY, 'P', false, 0),
    ("anyenum", ANY_ENUM, 'P', false, 0),
    ("anycompatible", ANY_COMPATIBLE, 'P', false, 0),
    ("anycompatiblearray", ANY_COMPATIBLE_ARRAY, 'P', false, 0),
];

/// Types of columns of system relations only: no user's column can have them.
const SYSTEM_TYPES: &[(&str, TypeOid, char, bool, u32)] = &[
    ("int2vector", TypeOid::INT2VECTOR, 'A', false, 1006),
    ("oidvector", TypeOid::OIDVECTOR, 'A', false, 1013),
    ("pg_node_tree", TypeOid::PG_NODE_TREE, 'Z', false, 0),
    ("aclitem", TypeOid::ACLITEM, 'U', false, 1034),
    ("inet", TypeOid::INET, 'I', true, 1041),
];

fn every() -> impl Iterator<Item = &'static (&'static str, TypeOid, char, bool, u32)> {
    TYPES.iter().chain(SYSTEM_TYPES)
}

/// Returns the type of an internal name (`int4`, `_text`), as the grammar writes `integer` and
/// `text[]`.
pub fn type_by_name(name: &str) -> Option<TypeOid> {
    if let Some(element) = name.strip_prefix('_') {
        return array_of(type_by_name(element)?);
    }
    TYPES.iter().find(|t| t.0 == name).map(|t| t.1)
}

/// Returns a pseudo-type by name, if users' functions may have it in their signature.
pub fn pseudo_type(name: &str) -> Option<TypeOid> {
    Some(match name {
        "void" => TypeOid::VOID,
        "record" => RECORD,
        "anyelement" => ANY_ELEMENT,
        "anyarray" => ANY_ARRAY,
        "anynonarray" => ANY_NONARRAY,
        "anyenum" => ANY_ENUM,
        "anycompatible" => ANY_COMPATIBLE,
        "anycompatiblearray" => ANY_COMPATIBLE_ARRAY,
        _ => return None,
    })
}

/// Returns the element type of a variadic parameter of this type.
pub fn variadic_element(array: TypeOid) -> Option<TypeOid> {
    match array {
        ANY_ARRAY => Some(ANY_ELEMENT),
        ANY_COMPATIBLE_ARRAY => Some(ANY_COMPATIBLE),
        array => element_of(array),
    }
}

/// Returns whether a type is polymorphic.
pub fn is_polymorphic(oid: TypeOid) -> bool {
    matches!(
        oid,
        ANY_ELEMENT | ANY_ARRAY | ANY_NONARRAY | ANY_ENUM | ANY_COMPATIBLE | ANY_COMPATIBLE_ARRAY
    )
}

/// Returns whether Niwaki lacks a type of this name that PostgreSQL, or an extension shipped with
/// it, has. Row types of relations do not count.
pub fn is_absent_type(name: &str) -> bool {
    let of_extension = ["hstore", "citext"].contains(&name);
    let known = builtin_types().named(name).any(|kind| kind.category != 'C');
    (known || of_extension) && type_by_name(name).is_none()
}

/// Returns `pg_type.typname`.
pub fn type_name(oid: TypeOid) -> String {
    if let Some(builtin) = builtin_types().by_oid(oid.0) {
        return builtin.name.to_owned();
    }
    if let Some(element) = element_of(oid) {
        return format!("_{}", type_name(element));
    }
    TYPES.iter().find(|t| t.1 == oid).map_or_else(|| oid.0.to_string(), |t| t.0.to_owned())
}

/// Returns the array type whose elements are `oid`.
pub fn array_of(oid: TypeOid) -> Option<TypeOid> {
    let known = every().find(|t| t.1 == oid && t.4 != 0).map(|t| TypeOid(t.4));
    known.or_else(|| if oid.is_enum() || oid.is_composite() { oid.array() } else { None })
}

/// Returns the element type of an array type.
pub fn element_of(oid: TypeOid) -> Option<TypeOid> {
    if oid.is_vector() || oid.user_number().is_some() {
        return oid.element();
    }
    every().find(|t| t.4 != 0 && t.4 == oid.0).map(|t| t.1)
}

/// Returns `pg_type.typcategory`.
pub fn category(oid: TypeOid) -> char {
    if element_of(oid).is_some() {
        return 'A';
    }
    if oid.is_enum() {
        return 'E';
    }
    if oid.is_composite() {
        return 'C';
    }
    if oid == ANY {
        return 'P';
    }
    every().find(|t| t.1 == oid).map_or('U', |t| t.2)
}

/// Returns `pg_type.typispreferred`.
pub fn is_preferred(oid: TypeOid) -> bool {
    TYPES.iter().any(|t| t.1 == oid && t.3)
}

/// Returns whether a value of the type can be stored, shown and read.
pub fn is_known(oid: TypeOid) -> bool {
    matches!(category(oid), 'A' | 'E' | 'C') || every().any(|t| t.1 == oid)
}

/// Returns the name that PostgreSQL shows: `integer`, `character varying(10)`, `text[]`.
pub fn format_type(column: ColumnType) -> String {
    if column.oid.is_vector() {
        return column.oid.display_name().to_owned();
    }
    if let Some(element) = element_of(column.oid) {
        return format!("{}[]", format_type(ColumnType::with_typmod(element, column.typmod)));
    }
    let typmod = column.typmod;
    match column.oid {
        TypeOid::BPCHAR if typmod >= 4 => format!("character({})", typmod - 4),
        // Without a length, the SQL name would mean character(1), so the internal name is shown.
        TypeOid::BPCHAR => "bpchar".to_owned(),
        TypeOid::VARCHAR if typmod >= 4 => format!("character varying({})", typmod - 4),
        TypeOid::NUMERIC if typmod >= 4 => {
            let (precision, scale) =
                niwaki_types::numeric_precision_scale(typmod).unwrap_or((0, 0));
            format!("numeric({precision},{scale})")
        }
        TypeOid::TIMESTAMP if typmod >= 0 => format!("timestamp({typmod}) without time zone"),
        TypeOid::TIMESTAMPTZ if typmod >= 0 => format!("timestamp({typmod}) with time zone"),
        TypeOid::TIME if typmod >= 0 => format!("time({typmod}) without time zone"),
        TypeOid::TIMETZ if typmod >= 0 => format!("time({typmod}) with time zone"),
        TypeOid::INTERVAL => {
            format!("interval{}", niwaki_types::datetime::interval_typmod_text(typmod))
        }
        RECORD => "record".to_owned(),
        ANY_ARRAY => "anyarray".to_owned(),
        ANY_ELEMENT => "anyelement".to_owned(),
        ANY_NONARRAY => "anynonarray".to_owned(),
        ANY_ENUM => "anyenum".to_owned(),
        ANY_COMPATIBLE => "anycompatible".to_owned(),
        ANY_COMPATIBLE_ARRAY => "anycompatiblearray".to_owned(),
        ANY => "\"any\"".to_owned(),
        oid => match oid.display_name() {
            "unsupported type" => format_builtin(oid),
            name => name.to_owned(),
        },
    }
}

/// Returns the name of a type that only PostgreSQL has; `???` for an unknown type.
fn format_builtin(oid: TypeOid) -> String {
    let Some(kind) = builtin_types().by_oid(oid.0) else { return "???".to_owned() };
    match (kind.category, kind.element) {
        ('A', element) if element != 0 => format!("{}[]", format_oid(TypeOid(element))),
        _ if kind.name == "varbit" => "bit varying".to_owned(),
        _ if kind.name == "bit" => "bit".to_owned(),
        _ => niwaki_types::quote_identifier(kind.name),
    }
}

/// Returns [`format_type`] of a type without modifier.
pub fn format_oid(oid: TypeOid) -> String {
    if oid == TypeOid::BPCHAR {
        return "character".to_owned();
    }
    format_type(ColumnType::new(oid))
}

/// The contexts of casts. Each context includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Anywhere in an expression.
    Implicit,
    /// Storing a value into a column.
    Assignment,
    /// CAST or `::`.
    Explicit,
}

/// The method of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastPath {
    /// Relabeling: the bytes mean the same under the new type.
    Relabel,
    /// A function for the pair of types.
    Function,
    /// The output function of one type, then the input function of the other.
    InputOutput,
    /// A cast of each array element.
    Array,
}

/// Returns whether a value of one type converts implicitly to the other. An untyped literal
/// converts to any type.
pub fn converts_implicitly(from: TypeOid, to: TypeOid) -> bool {
    from == TypeOid::UNKNOWN || cast_path(from, to, CastContext::Implicit).is_some()
}

/// Returns the method of casting `from` to `to`, if this context permits the cast.
pub fn cast_path(from: TypeOid, to: TypeOid, context: CastContext) -> Option<CastPath> {
    use CastContext::{Assignment, Explicit, Implicit};
    use TypeOid as T;
    if from == to {
        return Some(CastPath::Relabel);
    }
    let (needed, path) = match (from, to) {
        (T::INT2, T::INT4 | T::INT8 | T::FLOAT4 | T::FLOAT8 | T::NUMERIC | T::OID)
        | (T::INT4, T::INT8 | T::FLOAT4 | T::FLOAT8 | T::NUMERIC | T::OID)
        | (T::INT8, T::FLOAT4 | T::FLOAT8 | T::NUMERIC | T::OID)
        | (T::FLOAT4, T::FLOAT8)
        | (T::NUMERIC, T::FLOAT4 | T::FLOAT8)
        | (T::DATE, T::TIMESTAMP | T::TIMESTAMPTZ)
        | (T::TIMESTAMP, T::TIMESTAMPTZ)
        | (T::TIME, T::INTERVAL | T::TIMETZ) => (Implicit, CastPath::Function),
        (T::INT4, T::INT2)
        | (T::INT8, T::INT2 | T::INT4)
        | (T::FLOAT4, T::INT2 | T::INT4 | T::INT8 | T::NUMERIC)
        | (T::FLOAT8, T::INT2 | T::INT4 | T::INT8 | T::FLOAT4 | T::NUMERIC)
        | (T::NUMERIC, T::INT2 | T::INT4 | T::INT8)
        | (T::OID, T::INT4 | T::INT8)
        | (T::TIMESTAMP | T::TIMESTAMPTZ, T::DATE)
        | (T::TIMESTAMPTZ, T::TIMESTAMP | T::TIMETZ)
        | (T::TIMESTAMP | T::TIMESTAMPTZ | T::TIMETZ | T::INTERVAL, T::TIME)
        | (T::BOOL, T::TEXT | T::VARCHAR | T::BPCHAR) => (Assignment, CastPath::Function),
        (T::INT4, T::BOOL | T::CHAR) | (T::BOOL | T::CHAR, T::INT4) => {
            (Explicit, CastPath::Function)
        }
        (T::JSON, T::JSONB) | (T::JSONB, T::JSON) => (Assignment, CastPath::InputOutput),
        (T::JSONB, T::BOOL | T::INT2 | T::INT4 | T::INT8 | T::FLOAT4 | T::FLOAT8 | T::NUMERIC) => {
            (Explicit, CastPath::Function)
        }
        (T::INT2 | T::INT4 | T::INT8, object) if object.is_object_name() => {
            (Implicit, CastPath::Function)
        }
        (object, T::INT4 | T::INT8) if object.is_object_name() => (Assignment, CastPath::Function),
        (T::OID, object) | (object, T::OID) if object.is_object_name() => {
            (Implicit, CastPath::Relabel)
        }
        (T::REGPROC, T::REGPROCEDURE)
        | (T::REGPROCEDURE, T::REGPROC)
        | (T::REGOPER, T::REGOPERATOR)
        | (T::REGOPERATOR, T::REGOPER) => (Implicit, CastPath::Relabel),
        (T::TEXT, T::BPCHAR | T::VARCHAR) | (T::VARCHAR, T::TEXT | T::BPCHAR) => {
            (Implicit, CastPath::Relabel)
        }
        (T::BPCHAR, T::TEXT | T::VARCHAR | T::NAME)
        | (T::TEXT | T::VARCHAR, T::NAME | T::REGCLASS)
        | (T::NAME | T::CHAR, T::TEXT) => (Implicit, CastPath::Function),
        (T::NAME | T::CHAR, T::BPCHAR | T::VARCHAR)
        | (T::TEXT | T::VARCHAR | T::BPCHAR, T::CHAR) => (Assignment, CastPath::Function),
        _ => {
            if let (Some(from_element), Some(to_element)) = (element_of(from), element_of(to)) {
                return match cast_path(from_element, to_element, context)? {
                    CastPath::Relabel => Some(CastPath::Relabel),
                    _ => Some(CastPath::Array),
                };
            }
            let to_string = category(to) == 'S';
            let from_string = category(from) == 'S';
            if to == RECORD && from.is_composite() {
                return Some(CastPath::Relabel);
            }
            // Rows convert to text. Reading a row from text fails only when it is tried.
            if from == RECORD && to_string {
                return (Assignment <= context).then_some(CastPath::InputOutput);
            }
            if to == RECORD && from_string {
                return (Explicit <= context).then_some(CastPath::InputOutput);
            }
            let is_pseudo = |oid| category(oid) == 'P' && oid != T::VOID;
            if !is_known(from) || !is_known(to) || is_pseudo(from) || is_pseudo(to) {
                return None;
            }
            if to_string {
                (Assignment, CastPath::InputOutput)
            } else if from_string {
                (Explicit, CastPath::InputOutput)
            } else {
                return None;
            }
        }
    };
    (needed <= context).then_some(path)
}

/// Encodes the modifier of a type; returns the message for invalid arguments or for a type without
/// modifier.
///
/// `arguments` are the numbers in the parentheses after the type's name.
///
/// # Errors
/// The message for arguments that the type cannot have, or for a type without modifier.
pub fn encode_typmod(oid: TypeOid, arguments: &[i64]) -> Result<i32, String> {
    let single = |name: &str| match arguments {
        [one] => Ok(*one),
        _ => Err(format!("invalid type modifier for type {name}")),
    };
    match oid {
        TypeOid::VARCHAR | TypeOid::BPCHAR => {
            let name = if oid == TypeOid::VARCHAR { "varchar" } else { "char" };
            let length = single(name)?;
            if length < 1 {
                return Err(format!("length for type {name} must be at least 1"));
            }
            if length > 10_485_760 {
                return Err(format!("length for type {name} cannot exceed 10485760"));
            }
            i32::try_from(length + 4).map_err(|e| e.to_string())
        }
        TypeOid::NUMERIC => {
            let (precision, scale) = match arguments {
                [precision] => (*precision, 0),
                [precision, scale] => (*precision, *scale),
                _ => return Err("invalid NUMERIC type modifier".to_owned()),
            };
            if !(1..=1000).contains(&precision) {
                return Err(format!("NUMERIC precision {precision} must be between 1 and 1000"));
            }
            if !(-1000..=1000).contains(&scale) {
                return Err(format!("NUMERIC scale {scale} must be between -1000 and 1000"));
            }
            let (precision, scale) = (
                i32::try_from(precision).map_err(|e| e.to_string())?,
                i32::try_from(scale).map_err(|e| e.to_string())?,
            );
            niwaki_types::numeric_typmod(precision, scale).map_err(|e| e.message)
        }
        TypeOid::TIMESTAMP | TypeOid::TIMESTAMPTZ | TypeOid::TIME | TypeOid::TIMETZ => {
            let digits = single(oid.display_name())?;
            if digits < 0 {
                let name = match oid {
                    TypeOid::TIME | TypeOid::TIMETZ => "TIME",
                    _ => "TIMESTAMP",
                };
                return Err(format!("{name}({digits}) precision must not be negative"));
            }
            i32::try_from(digits.min(6)).map_err(|e| e.to_string())
        }
        TypeOid::INTERVAL => {
            let (fields, precision) = match arguments {
                [fields] => (*fields, None),
                [fields, precision] => (*fields, Some(*precision)),
                _ => return Err("invalid INTERVAL type modifier".to_owned()),
            };
            let fields = i32::try_from(fields).map_err(|e| e.to_string())?;
            let precision = precision.map(i32::try_from).transpose().map_err(|e| e.to_string())?;
            niwaki_types::datetime::interval_typmod(fields, precision).map_err(|e| e.message)
        }
        _ => Err(format!("type modifier is not allowed for type \"{}\"", type_name(oid))),
    }
}

/// Returns whether a column of type `referencing` can reference one of type `referenced`. Either
/// one operator family compares both types, or the first converts implicitly to the second.
pub fn can_reference(referenced: TypeOid, referencing: TypeOid) -> bool {
    are_one_family(referenced, referencing)
        || cast_path(referencing, referenced, CastContext::Implicit).is_some()
}

/// Returns whether one operator family compares values of the two types directly.
pub fn are_one_family(one: TypeOid, other: TypeOid) -> bool {
    use TypeOid as T;
    const FAMILIES: &[&[TypeOid]] = &[
        &[T::INT2, T::INT4, T::INT8],
        &[T::FLOAT4, T::FLOAT8],
        &[T::TEXT, T::VARCHAR, T::NAME],
        &[T::DATE, T::TIMESTAMP, T::TIMESTAMPTZ],
    ];
    one == other || FAMILIES.iter().any(|all| all.contains(&one) && all.contains(&other))
}
