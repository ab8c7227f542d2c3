//! Decoding of stored definitions from arbitrary bytes: [`TARGETS`] return a result or an error,
//! and never panic.
//!
//! [`niwaki_env::hostile`] and the targets under `fuzz/` generate the bytes.

use niwaki_env::hostile::Target;

use crate::definition::function_definition::FunctionDefinition;
use crate::definition::relation_definition::{RelationDefinition, RelationStats};
use crate::definition::type_definition::TypeDefinition;
use crate::opening::build::sequence_options;
use crate::rows::objects::{Object, ObjectKind};

/// Decoders: each with its name, its valid seed inputs and its function.
pub const TARGETS: &[Target] = &[
    ("definition", definition_seeds, definition),
    ("type_definition", type_seeds, type_definition),
    ("function_definition", function_seeds, function_definition),
];

/// Definitions: one with every possible part, and one with none.
const EXAMPLES: [&str; 3] = [
    r#"{"oid":16384,"schema":2200,"name":"t","kind":"Table","file":17,"logged":true,
"columns":[{"name":"a","t":23,"m":-1,"nn":true,"d":"nextval('s'::regclass)","i":"Always","s":16390},
{"name":"b","t":1043,"m":14,"old":"some","x":true},
{"name":"d","t":23,"d":"a * 2","g":true,"c":"twice"},{"name":"e","t":23,"dom":16391}],
"checks":[{"name":"c","expression":"a > 0","unproved":true,"c":"positive"}],
"foreign":[{"oid":16400,"name":"f","columns":[0,2],"references":16384,"referenced":[2,0],"index":16385,
"update":"Cascade","delete":"SetNull","set":[0],"full":true,"check":"Statement","unproved":true,"c":"of itself"}],
"triggers":[{"oid":16401,"name":"r","function":16402,"time":"Before","insert":true,"delete":true,"update":true,"of":[2,0],
"when":"new.a > 1","args":["x",""],"mode":"A","c":"each row"},{"oid":16403,"name":"s","function":1291,"time":"After"}],
"comment":"everything","options":[["fillfactor","70"]],
"index":{"table":16384,"key":[{"column":0,"descending":true,"nulls_first":false},
{"column":65535,"descending":false,"nulls_first":false,
"expression":{"sql":"lower(b)","show":"lower(b)","t":25},"class":"text_ops"}],
"include":[1],"unique":true,"constraint":"PrimaryKey","valid":true,"ready":false,
"predicate":{"sql":"a > 1","show":"(a > 1)","t":16},"nulls_not_distinct":true,"check":"Transaction","c":"unique"},
"sequence":{"type_oid":20,"start":1,"increment":-1,"minimum":-5,"maximum":9223372036854775807,
"cycle":true,"cache":1,"owned_by":[16384,0]},"stats":{"tuples":12.5,"pages":3}}"#,
    r#"{"oid":16385,"schema":2200,"name":"v","kind":"View","file":0,"logged":false}"#,
    r#"{"oid":16386,"schema":2200,"name":"w","kind":"View","file":0,"logged":true,"columns":[{"name":"a","t":23}],
"options":[["check_option","local"]],
"query":{"sql":"SELECT a, 's'::regclass, 'x'::m FROM t","names":[{"at":10,"is":{"obj":16390}},{"at":27,"is":{"type":16391}},
{"at":34,"is":{"rel":[16384,["a",""]]}}],"sources":[{"rel":16384,"columns":[0]},{"rel":16390}],"types":[16391],
"set":{"zone":"UTC","date":"MDY","interval":"postgres","now":-1}}}"#,
];

fn definition_seeds() -> Vec<Vec<u8>> {
    for example in EXAMPLES {
        let read = serde_json::from_str::<RelationDefinition>(example);
        read.unwrap_or_else(|error| panic!("{error}: {example}"));
    }
    EXAMPLES.map(|example| example.as_bytes().to_vec()).to_vec()
}

/// Checks that an accepted definition is written as it was read, and that its methods bear any
/// numbers.
fn definition(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(mut relation) = serde_json::from_str::<RelationDefinition>(text) else { return };
    // Estimates may lose their last digit in the text.
    relation.stats = RelationStats::default();
    let again = serde_json::to_string(&relation)
        .ok()
        .and_then(|text| serde_json::from_str::<RelationDefinition>(&text).ok());
    assert_eq!(again.as_ref(), Some(&relation), "what is written is read");
    for key in relation.index.iter().flat_map(|index| &index.key) {
        let _ = (key.type_oid(&relation), key.shown(&relation));
    }
    if let Some(query) = &relation.query {
        for name in &query.names {
            let _ = query.meaning_at(name.at);
        }
        let _ = query.columns_of(relation.oid);
    }
    for trigger in &relation.triggers {
        let _ = (trigger.type_bits(), trigger.mode.fires());
        assert_eq!(relation.trigger(&trigger.name).map(|found| &found.name), Some(&trigger.name));
    }
    let types: Vec<_> = relation.columns.iter().map(|column| column.column_type()).collect();
    let _ =
        (types, relation.options.fillfactor(), relation.sequence.as_ref().map(sequence_options));
}

/// One type of each kind.
const TYPE_EXAMPLES: [&str; 3] = [
    r#"{"oid":16384,"schema":2200,"name":"mood",
"kind":{"Enum":[{"name":"sad","at":4611686018427387904},{"name":"ok","at":4611687117939015680}]}}"#,
    r#"{"oid":16385,"schema":2200,"name":"short","kind":{"Domain":{"t":1043,"m":14,"over":16386,"nn":true,"d":"'x'",
"checks":[{"name":"a","expression":"value > 'a'"},{"name":"b","expression":"value < 'z'","unproved":true,"c":"late"}]}},
"comment":"not long"}"#,
    r#"{"oid":16387,"schema":2200,"name":"pair","kind":{"Composite":[{"name":"a","t":23,"m":-1},{"name":"b","t":1043,"m":14}]}}"#,
];

fn type_seeds() -> Vec<Vec<u8>> {
    for example in TYPE_EXAMPLES {
        let read = serde_json::from_str::<TypeDefinition>(example);
        read.unwrap_or_else(|error| panic!("{error}: {example}"));
    }
    TYPE_EXAMPLES.map(|example| example.as_bytes().to_vec()).to_vec()
}

/// Checks that an accepted type is written as it was read, and that its values have labels.
fn type_definition(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(read) = serde_json::from_str::<TypeDefinition>(text) else { return };
    let object = Object {
        oid: read.oid,
        schema: read.schema,
        name: read.name.clone(),
        kind: ObjectKind::Type,
        definition: text.to_owned(),
    };
    let Ok(definition) = TypeDefinition::of_object(&object) else { return };
    let again = definition.object().and_then(|object| TypeDefinition::of_object(&object));
    assert_eq!(again.ok().as_ref(), Some(&definition), "what is written is read");
    let _ = (definition.column_type(), definition.domain().map(|domain| domain.below()));
    let found = definition.enum_type();
    for label in &found.labels {
        assert_eq!(found.label(label.position), Some(&*label.name));
    }
}

/// Functions: one with every possible part, and one with none.
const FUNCTION_EXAMPLES: [&str; 2] = [
    r#"{"oid":16384,"schema":2200,"name":"f","lang":"plpgsql","args":[23,25],"returns":2279,"body":"begin return new; end",
"volatility":"i","strict":true,"leakproof":true,"parallel":"s","cost":12.5,"c":"of rows"}"#,
    r#"{"oid":16385,"schema":2200,"name":"g(","lang":"plpgsql","returns":2279,"body":""}"#,
];

fn function_seeds() -> Vec<Vec<u8>> {
    for example in FUNCTION_EXAMPLES {
        let read = serde_json::from_str::<FunctionDefinition>(example);
        read.unwrap_or_else(|error| panic!("{error}: {example}"));
    }
    FUNCTION_EXAMPLES.map(|example| example.as_bytes().to_vec()).to_vec()
}

/// Checks that an accepted function is written as it was read, under the name of its row.
fn function_definition(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(mut read) = serde_json::from_str::<FunctionDefinition>(text) else { return };
    // An estimate may lose its last digit in the text.
    read.traits.cost = None;
    let again = read.object().and_then(|object| FunctionDefinition::of_object(&object));
    assert_eq!(again.ok().as_ref(), Some(&read), "what is written is read");
    let _ = (read.is_for_triggers(), read.cost());
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_survived() {
        niwaki_env::hostile::survive(super::TARGETS);
    }
}
