//! Composite types in `information_schema`.

use niwaki_types::Datum;

use crate::information::information_schema::{data_type, measures};
use crate::stored_types::{composites, udt};
use crate::system_relation::{Computed, Emit, Reader, Result, int4, text, yes_or_no};

pub(crate) const USER_DEFINED_TYPES: Computed = Computed {
    name: "user_defined_types",
    columns: &[
        "user_defined_type_catalog",
        "user_defined_type_schema",
        "user_defined_type_name",
        "user_defined_type_category",
        "is_instantiable",
    ],
    keys: &[],
    rows: user_defined_types,
};

fn user_defined_types(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    for (definition, _) in composites(reader.state) {
        let [catalog, schema, name] = udt(reader.state, definition.column_type());
        emit(&[catalog, schema, name, text("STRUCTURED"), yes_or_no(true)])?;
    }
    Ok(())
}

pub(crate) const ATTRIBUTES: Computed = Computed {
    name: "attributes",
    columns: &[
        "udt_catalog",
        "udt_schema",
        "udt_name",
        "attribute_name",
        "ordinal_position",
        "is_nullable",
        "data_type",
        "character_maximum_length",
        "character_octet_length",
        "numeric_precision",
        "numeric_precision_radix",
        "numeric_scale",
        "datetime_precision",
        "attribute_udt_catalog",
        "attribute_udt_schema",
        "attribute_udt_name",
        "dtd_identifier",
        "is_derived_reference_attribute",
    ],
    keys: &[],
    rows: attributes,
};

fn attributes(reader: &Reader<'_>, emit: Emit<'_>) -> Result<()> {
    let state = reader.state;
    let count = |value: Option<usize>| value.map_or(Datum::Null, int4);
    for (definition, attributes) in composites(state) {
        for (at, attribute) in attributes.iter().enumerate() {
            let kind = attribute.column_type();
            let size = measures(kind);
            let [catalog, schema, name] = udt(state, definition.column_type());
            let [udt_catalog, udt_schema, udt_name] = udt(state, kind);
            emit(&[
                catalog,
                schema,
                name,
                text(&attribute.name),
                int4(at + 1),
                yes_or_no(true),
                text(data_type(kind)),
                count(size.characters),
                count(size.octets),
                count(size.precision),
                count(size.radix),
                count(size.scale),
                count(size.datetime),
                udt_catalog,
                udt_schema,
                udt_name,
                text((at + 1).to_string()),
                yes_or_no(false),
            ])?;
        }
    }
    Ok(())
}
