//! `pg_type` and `pg_enum` of user-defined types, with the properties that columns need of any
//! type.

use niwaki_catalog::{
    CatalogState, DomainDefinition, Oid, TypeDefinition, builtin_types, label_oid,
};
use niwaki_types::{Datum, EnumLabel, TypeOid};

use crate::information::domains;
use crate::names::builtin_function;
use crate::pg_class::relations;
use crate::roles::{OWNER, OWNER_NAME};
use crate::stored_types::{ENUM_ARRAY, array_name, in_order, row_type, storage};
use crate::system_relation::{Computed, Emit, Reader, Result, number, optional, text};

/// User-defined types, beside the recorded rows.
pub(crate) const PG_TYPE: Computed = Computed {
    name: "pg_type",
    columns: &[
        "oid",
        "typname",
        "typnamespace",
        "typowner",
        "typlen",
        "typbyval",
        "typtype",
        "typcategory",
        "typisdefined",
        "typdelim",
        "typsubscript",
        "typelem",
        "typarray",
        "typinput",
        "typoutput",
        "typreceive",
        "typsend",
        "typanalyze",
        "typalign",
        "typstorage",
        "typtypmod",
        "typnotnull",
        "typbasetype",
        "typndims",
        "typcollation",
        "typdefaultbin",
        "typdefault",
        "typrelid",
    ],
    keys: &["oid", "typname"],
    rows: pg_type,
};

fn pg_type(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for definition in in_order(reader.state) {
        let oid = definition.type_oid();
        match definition.domain() {
            Some(domain) => emit(&domain_row(reader.state, definition, domain))?,
            None => type_and_array(oid, &definition.name, definition.schema, emit)?,
        }
    }
    for relation in reader.state.in_order() {
        if let Some(oid) = row_type(relation) {
            type_and_array(oid, &relation.name, relation.schema, emit)?;
        }
    }
    Ok(())
}

/// Emits the rows of an enum or composite type, and of its array type.
fn type_and_array(oid: TypeOid, name: &str, schema: Oid, emit: Emit<'_>) -> Result<()> {
    let composite = oid.is_composite();
    let function = |name: &str| Datum::Oid(builtin_function(name));
    let mut row = |oid: TypeOid, name: &str, element: TypeOid, array: TypeOid| {
        let is_array = element != TypeOid(0);
        let storage = storage(oid).unwrap_or(ENUM_ARRAY);
        let (word, kind, category) = match (is_array, composite) {
            (true, _) => ("array", "b", "A"),
            (false, true) => ("record", "c", "C"),
            (false, false) => ("enum", "e", "E"),
        };
        let of_array = |name: &str| if is_array { function(name) } else { Datum::Oid(0) };
        let io = |suffix: &str| function(&format!("{word}_{suffix}"));
        let relation = oid.user_number().filter(|_| composite && !is_array);
        emit(&[
            Datum::Oid(oid.0),
            text(name),
            number(schema),
            number(OWNER),
            Datum::Int2(storage.length),
            Datum::Bool(storage.by_value),
            text(kind),
            text(category),
            Datum::Bool(true),
            text(","),
            of_array("array_subscript_handler"),
            Datum::Oid(element.0),
            Datum::Oid(array.0),
            io("in"),
            io("out"),
            io("recv"),
            io("send"),
            of_array("array_typanalyze"),
            text(storage.align),
            text(storage.storage),
            Datum::Int4(-1),
            Datum::Bool(false),
            Datum::Oid(0),
            Datum::Int4(0),
            Datum::Oid(0),
            Datum::Null,
            Datum::Null,
            Datum::Oid(relation.unwrap_or(0)),
        ])
    };
    let array = oid.array().unwrap_or(TypeOid(0));
    row(oid, name, TypeOid(0), array)?;
    row(array, &array_name(name), oid, TypeOid(0))
}

/// Emits a domain's row of `pg_type`. A domain has no array type.
fn domain_row(
    state: &CatalogState,
    definition: &TypeDefinition,
    domain: &DomainDefinition,
) -> Vec<Datum> {
    let base = domain.base();
    let kind = storage(base.oid).unwrap_or(ENUM_ARRAY);
    let is_array = base.oid.element().is_some() && !base.oid.is_vector();
    let category = match base.oid {
        _ if is_array => 'A',
        oid if oid.is_enum() => 'E',
        oid => builtin_types().by_oid(oid.0).map_or('U', |kind| kind.category),
    };
    let [output, send, analyze] = domains::functions_of(base.oid);
    let target = Some((domain.below(), definition.name.as_str()));
    let whole = |default: &String| relations::whole_text(default, None, target, state);
    let path = state.search_path(&["public".to_owned()], OWNER_NAME);
    let default = domains::shown_default(state, definition, domain, &path);
    let collation = domain.collation.or_else(|| state.own_collation(domain.below()));
    vec![
        Datum::Oid(definition.type_oid().0),
        text(&definition.name),
        number(definition.schema),
        number(OWNER),
        Datum::Int2(kind.length),
        Datum::Bool(kind.by_value),
        text("d"),
        text(category.to_string()),
        Datum::Bool(true),
        text(","),
        Datum::Oid(0),
        Datum::Oid(0),
        Datum::Oid(0),
        Datum::Oid(builtin_function("domain_in")),
        output,
        Datum::Oid(builtin_function("domain_recv")),
        send,
        analyze,
        text(kind.align),
        text(kind.storage),
        Datum::Int4(if domain.over.is_some() { -1 } else { domain.typmod }),
        Datum::Bool(domain.not_null),
        Datum::Oid(domain.below().declared().0),
        // The array dimension of a domain below is not counted again.
        Datum::Int4(i32::from(is_array && domain.over.is_none())),
        Datum::Oid(collation.map_or(0, |collation| collation.0)),
        optional(domain.default.as_ref().map(whole)),
        optional(default),
        Datum::Oid(0),
    ]
}

pub(crate) const PG_ENUM: Computed = Computed {
    name: "pg_enum",
    columns: &["oid", "enumtypid", "enumsortorder", "enumlabel"],
    keys: &["enumtypid"],
    rows: pg_enum,
};

fn pg_enum(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let wanted = reader.wanted_oid("enumtypid");
    for definition in in_order(reader.state) {
        let oid = definition.type_oid();
        if wanted.is_some_and(|wanted| wanted != oid.0) {
            continue;
        }
        let labels = definition.labels();
        let orders = EnumLabel::sort_orders(labels.iter().map(|label| label.position));
        for (place, (label, order)) in labels.iter().zip(orders).enumerate() {
            emit(&[
                number(label_oid(definition.oid, place)),
                Datum::Oid(oid.0),
                Datum::Float4(order),
                text(&label.name),
            ])?;
        }
    }
    Ok(())
}
