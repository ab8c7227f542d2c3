//! Records of PostgreSQL 15's own relations, types, functions and operators. The script
//! `scripts/record-builtin` recorded them from PostgreSQL. They are read on first use.

use std::sync::OnceLock;

use niwaki_env::hash::HashMap;
use niwaki_types::{Datum, TypeOid};

use crate::definition::schema::{INFORMATION_SCHEMA, PG_CATALOG};
use crate::rows::oid::Oid;

const RELATIONS: &str = include_str!("../../builtin/relations.tsv");

/// Lists catalogs with their recorded rows.
macro_rules! recorded {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../builtin/", $name, ".tsv")))),*]
    };
}

const ROWS: &[(&str, &str)] = recorded![
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_cast",
    "pg_collation",
    "pg_get_keywords",
    "pg_language",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_proc",
    "pg_range",
    "pg_tablespace",
    "pg_type"
];

/// One relation of `pg_catalog` or `information_schema`.
#[derive(Debug)]
pub struct BuiltinRelation {
    /// Schema.
    pub schema: Oid,
    /// Name.
    pub name: &'static str,
    /// Number.
    pub oid: Oid,
    /// `pg_class.relkind`: `r` or `v`.
    pub kind: &'static str,
    /// Columns in order.
    pub columns: Vec<BuiltinColumn>,
}

/// A column of a built-in relation.
#[derive(Debug)]
pub struct BuiltinColumn {
    /// Name.
    pub name: &'static str,
    /// Type of the values; for a domain, its base type.
    pub type_oid: TypeOid,
    /// Type modifier, -1 for none.
    pub typmod: i32,
    /// NOT NULL.
    pub not_null: bool,
}

/// A type of PostgreSQL.
#[derive(Debug)]
pub struct BuiltinType {
    /// Number.
    pub oid: u32,
    /// `typname`
    pub name: &'static str,
    /// Bytes of a value, -1 for a variable number, -2 for a string that ends with a zero byte.
    pub length: i16,
    /// `typcategory`
    pub category: char,
    /// Type of the elements, 0 for none.
    pub element: u32,
    /// Type of arrays of this type, 0 for none.
    pub array: u32,
    /// `typbyval`
    pub by_value: bool,
    /// `typalign`
    pub align: &'static str,
    /// `typstorage`
    pub storage: &'static str,
    /// `typcollation`, 0 for none.
    pub collation: u32,
}

/// An operator class of B-trees.
#[derive(Debug)]
pub struct BuiltinOperatorClass {
    /// Number.
    pub oid: u32,
    /// Name.
    pub name: &'static str,
    /// Number of the class's family.
    pub family: u32,
    /// The type that the class is for.
    pub input: u32,
    /// True for the class that an index on its type uses when it names no class.
    pub is_default: bool,
}

/// A function of PostgreSQL.
#[derive(Debug)]
pub struct BuiltinFunction {
    /// Number.
    pub oid: u32,
    /// Name.
    pub name: &'static str,
    /// Types of the arguments that a call must give.
    pub arguments: Vec<TypeOid>,
}

/// An operator of PostgreSQL.
#[derive(Debug)]
pub struct BuiltinOperator {
    /// Number.
    pub oid: u32,
    /// Name.
    pub name: &'static str,
    /// Type of the left operand, 0 for a prefix operator.
    pub left: u32,
    /// Type of the right operand.
    pub right: u32,
}

/// The rows of one recorded catalog.
#[derive(Debug)]
pub struct BuiltinRows {
    columns: Vec<&'static str>,
    rows: Vec<Vec<&'static str>>,
}

/// Text of NULL in COPY's format.
const NULL: &str = "\\N";

impl BuiltinRows {
    fn read(file: &'static str) -> Self {
        let mut lines = file.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        Self { columns: lines.next().unwrap_or_default(), rows: lines.collect() }
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[&'static str] {
        &self.columns
    }

    /// Iterates over the rows, each with its values as text, `None` for NULL.
    pub fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = Option<&'static str>> + '_> {
        self.rows.iter().map(|row| row.iter().map(|cell| (*cell != NULL).then_some(*cell)))
    }

    fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| *name == column)
    }

    /// Calls `give` with the named columns of each row.
    fn each<const N: usize>(&self, columns: [&str; N], mut give: impl FnMut([&'static str; N])) {
        let places = columns.map(|column| self.position(column));
        for row in &self.rows {
            give(places.map(|place| place.and_then(|at| row.get(at)).copied().unwrap_or(NULL)));
        }
    }
}

/// Returns the recorded rows of a catalog of `pg_catalog`, if rows were recorded.
pub fn builtin_rows(catalog: &str) -> Option<&'static BuiltinRows> {
    static ALL: OnceLock<HashMap<&'static str, BuiltinRows>> = OnceLock::new();
    ALL.get_or_init(|| ROWS.iter().map(|(name, file)| (*name, BuiltinRows::read(file))).collect())
        .get(catalog)
}

/// Returns all relations of `pg_catalog` and `information_schema`.
pub fn builtin_relations() -> &'static [BuiltinRelation] {
    static ALL: OnceLock<Vec<BuiltinRelation>> = OnceLock::new();
    ALL.get_or_init(|| RELATIONS.lines().skip(1).filter_map(read_relation).collect())
}

/// Returns the kind (`relkind`) of one of PostgreSQL's own relations.
pub fn builtin_kind(oid: Oid) -> Option<&'static str> {
    if oid >= Oid::FIRST_USER {
        return None;
    }
    builtin_relations().iter().find(|relation| relation.oid == oid).map(|relation| relation.kind)
}

fn read_relation(line: &'static str) -> Option<BuiltinRelation> {
    let mut fields = line.split('\t');
    let schema = match fields.next()? {
        "pg_catalog" => PG_CATALOG,
        _ => INFORMATION_SCHEMA,
    };
    let name = fields.next()?;
    let oid = Oid(fields.next()?.parse().ok()?);
    let kind = fields.next()?;
    let columns = fields.next()?.split(' ').filter_map(read_column).collect();
    Some(BuiltinRelation { schema, name, oid, kind, columns })
}

fn read_column(text: &'static str) -> Option<BuiltinColumn> {
    let (text, not_null) = match text.strip_suffix('!') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let mut parts = text.split(':');
    Some(BuiltinColumn {
        name: parts.next()?,
        type_oid: TypeOid(parts.next()?.parse().ok()?),
        typmod: parts.next()?.parse().ok()?,
        not_null,
    })
}

/// Built-in objects with lookup by number and by name.
#[derive(Debug)]
pub struct Builtins<T: 'static> {
    all: Vec<T>,
    by_oid: HashMap<u32, usize>,
    by_name: HashMap<&'static str, Vec<usize>>,
}

impl<T> Builtins<T> {
    fn new(all: Vec<T>, key: impl Fn(&T) -> (u32, &'static str)) -> Self {
        let mut by_oid = HashMap::default();
        let mut by_name: HashMap<&'static str, Vec<usize>> = HashMap::default();
        for (number, item) in all.iter().enumerate() {
            let (oid, name) = key(item);
            by_oid.insert(oid, number);
            by_name.entry(name).or_default().push(number);
        }
        Self { all, by_oid, by_name }
    }

    /// Returns all objects in the order of their numbers.
    pub fn all(&self) -> &[T] {
        &self.all
    }

    /// Returns the object with this number.
    pub fn by_oid(&self, oid: u32) -> Option<&T> {
        self.by_oid.get(&oid).and_then(|number| self.all.get(*number))
    }

    /// Iterates over the objects with this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &T> {
        self.by_name.get(name).into_iter().flatten().filter_map(|number| self.all.get(*number))
    }
}

fn number<N: std::str::FromStr + Default>(text: &str) -> N {
    text.parse().unwrap_or_default()
}

/// Returns PostgreSQL's types, including types that Niwaki does not implement.
pub fn builtin_types() -> &'static Builtins<BuiltinType> {
    static ALL: OnceLock<Builtins<BuiltinType>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        let columns = [
            "oid",
            "typname",
            "typlen",
            "typcategory",
            "typelem",
            "typarray",
            "typbyval",
            "typalign",
            "typstorage",
            "typcollation",
        ];
        if let Some(rows) = builtin_rows("pg_type") {
            rows.each(columns, |row| {
                let [
                    oid,
                    name,
                    length,
                    category,
                    element,
                    array,
                    by_value,
                    align,
                    storage,
                    collation,
                ] = row;
                all.push(BuiltinType {
                    oid: number(oid),
                    name,
                    length: number(length),
                    category: category.chars().next().unwrap_or('U'),
                    element: number(element),
                    array: number(array),
                    by_value: by_value == "t",
                    align,
                    storage,
                    collation: number(collation),
                });
            });
        }
        Builtins::new(all, |kind| (kind.oid, kind.name))
    })
}

/// Returns PostgreSQL's operator classes of B-trees.
pub fn builtin_operator_classes() -> &'static Builtins<BuiltinOperatorClass> {
    static ALL: OnceLock<Builtins<BuiltinOperatorClass>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        let columns = ["oid", "opcname", "opcfamily", "opcintype", "opcdefault"];
        if let Some(rows) = builtin_rows("pg_opclass") {
            rows.each(columns, |[oid, name, family, input, is_default]| {
                all.push(BuiltinOperatorClass {
                    oid: number(oid),
                    name,
                    family: number(family),
                    input: number(input),
                    is_default: is_default == "t",
                });
            });
        }
        Builtins::new(all, |class| (class.oid, class.name))
    })
}

/// Returns PostgreSQL's functions, including functions that Niwaki does not implement.
pub fn builtin_functions() -> &'static Builtins<BuiltinFunction> {
    static ALL: OnceLock<Builtins<BuiltinFunction>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        if let Some(rows) = builtin_rows("pg_proc") {
            rows.each(["oid", "proname", "proargtypes"], |[oid, name, arguments]| {
                let arguments = arguments.split(' ').filter(|text| !text.is_empty());
                all.push(BuiltinFunction {
                    oid: number(oid),
                    name,
                    arguments: arguments.map(|text| TypeOid(number(text))).collect(),
                });
            });
        }
        Builtins::new(all, |function| (function.oid, function.name))
    })
}

/// Returns PostgreSQL's operators, including operators that Niwaki does not implement.
pub fn builtin_operators() -> &'static Builtins<BuiltinOperator> {
    static ALL: OnceLock<Builtins<BuiltinOperator>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        if let Some(rows) = builtin_rows("pg_operator") {
            rows.each(["oid", "oprname", "oprleft", "oprright"], |[oid, name, left, right]| {
                all.push(BuiltinOperator {
                    oid: number(oid),
                    name,
                    left: number(left),
                    right: number(right),
                });
            });
        }
        Builtins::new(all, |operator| (operator.oid, operator.name))
    })
}

/// Reads a recorded value as a column of this type holds it. Returns NULL where Niwaki has no
/// values of the type.
pub fn builtin_value(text: Option<&str>, kind: TypeOid) -> Datum {
    let Some(text) = text else { return Datum::Null };
    match kind {
        TypeOid::BOOL => Datum::Bool(text == "t"),
        TypeOid::INT2 => Datum::Int2(number(text)),
        TypeOid::INT4 => Datum::Int4(number(text)),
        TypeOid::FLOAT4 => Datum::Float4(number(text)),
        TypeOid::NAME | TypeOid::TEXT | TypeOid::CHAR => Datum::text(text),
        kind if kind.is_number_of_object() => Datum::Oid(number(text)),
        // Privileges deny nothing here, and pg_dump writes the privileges beyond those that it
        // takes for granted.
        TypeOid::ACLITEM_ARRAY => Datum::Null,
        kind => {
            let Some(element) = kind.element() else { return Datum::Null };
            let inner = text.trim_matches(['{', '}']);
            let separator = if kind.is_vector() { ' ' } else { ',' };
            let values = inner.split(separator).filter(|value| !value.is_empty());
            let values = values.map(|value| match value.trim_matches('"') {
                "NULL" => Datum::Null,
                value => builtin_value(Some(value), element),
            });
            let values: Vec<Datum> = values.collect();
            if kind.is_vector() {
                Datum::vector(element, values)
            } else {
                Datum::array(element, values)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_recorded_is_read() {
        assert_eq!(builtin_relations().len(), RELATIONS.lines().count() - 1);
        for relation in builtin_relations() {
            let line =
                RELATIONS.lines().find(|line| line.contains(&format!("\t{}\t", relation.oid)));
            let written = line.unwrap().rsplit('\t').next().unwrap();
            assert_eq!(relation.columns.len(), written.split(' ').count(), "{}", relation.name);
        }
        for (name, file) in ROWS {
            // Escapes in a field would need more than a comparison of the whole field.
            assert!(!file.replace(NULL, "").contains('\\'), "{name}");
            let rows = builtin_rows(name).unwrap();
            // Catalogs that are no relations are the results of functions.
            if let Some(relation) = builtin_relations().iter().find(|r| r.name == *name) {
                let names = relation.columns.iter().map(|column| column.name);
                assert_eq!(rows.columns(), names.collect::<Vec<_>>(), "{name}");
            }
            for row in rows.rows() {
                assert_eq!(row.count(), rows.columns().len(), "{name}");
            }
        }
    }

    #[test]
    fn things_are_found_by_number_and_name() {
        assert_eq!(builtin_types().by_oid(23).unwrap().name, "int4");
        assert_eq!(builtin_types().named("_int4").next().unwrap().element, 23);
        assert!(builtin_functions().named("length").count() > 1);
        let same = builtin_operators().named("=").find(|o| (o.left, o.right) == (23, 23)).unwrap();
        assert_eq!(builtin_operators().by_oid(same.oid).unwrap().name, "=");
    }

    #[test]
    fn recorded_values_are_read_by_type() {
        let names = builtin_value(Some("{a,\"\",b}"), TypeOid::TEXT_ARRAY);
        assert!(matches!(names, Datum::Array(TypeOid::TEXT, values) if values.len() == 3));
        let types = builtin_value(Some("23 25"), TypeOid::OIDVECTOR);
        assert!(matches!(types, Datum::Array(TypeOid::OID, values) if values.len() == 2));
        assert!(builtin_value(None, TypeOid::TEXT).is_null());
    }
}
