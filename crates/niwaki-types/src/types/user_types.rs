//! User-defined types, as far as their values need them.
//!
//! This is the labels of enums, the base types of domains, and the attributes of composite types.
//!
//! The kind of a user's type stands in its oid, so that stored bytes and index keys are read
//! without the catalog:
//!
//! ```text
//!  31      30       29 28     27          0
//! +---+---------+---------+---------------+
//! | 0 | array   | kind    | number        |   kind 1: an enum, 2: a domain, 3: a composite type
//! +---+---------+---------+---------------+
//! ```
//!
//! A value of an enum is a **position**, a number that orders the labels of its type and never
//! changes. Between two labels there is room for others, so that a new one gets a position without
//! any stored value being touched.
//!
//! A value of a domain is a value of its base type in the end; no stored byte says otherwise.
//!
//! A value of a composite type knows the types of its fields ([`crate::Record`]), not their names.
//! The rows of a relation are of a composite type, too, that has the relation's number.

use std::sync::Arc;

use niwaki_env::hash::{HashMap, HashSet};

use super::column::ColumnType;
use super::identifier::quote_identifier;
use super::oid::TypeOid;
use crate::error::{Result, TypeError};

/// The number of a user's type, without kind.
const NUMBER: u32 = (1 << 28) - 1;
/// The bits of the kind of an enum.
const ENUM: u32 = 1 << 28;
/// The bits of the kind of a domain.
const DOMAIN: u32 = 2 << 28;
/// The bits of the kind of a composite type.
const COMPOSITE: u32 = 3 << 28;
/// The bit of an array type.
const ARRAY: u32 = 1 << 30;

/// Longest label, in bytes.
const LABEL_BYTES_MAX: usize = 63;
/// The position of an enum's first label: half-way, so that there is room before it.
const FIRST: u64 = 1 << 62;
/// Distance between labels that are made in order: room for 40 between any two.
const STEP: u64 = 1 << 40;

impl TypeOid {
    /// Returns the type of the enum with this number in the catalog.
    pub const fn of_enum(number: u32) -> Self {
        Self(number & NUMBER | ENUM)
    }

    /// Decides whether this is an enum.
    #[inline]
    pub const fn is_enum(self) -> bool {
        self.0 & !NUMBER == ENUM
    }

    /// Returns the type of the domain with this number in the catalog.
    pub const fn of_domain(number: u32) -> Self {
        Self(number & NUMBER | DOMAIN)
    }

    /// Decides whether this is a domain.
    pub const fn is_domain(self) -> bool {
        self.0 & !NUMBER == DOMAIN
    }

    /// Returns the composite type with this number in the catalog, or the row type of the relation
    /// with this number.
    pub const fn of_composite(number: u32) -> Self {
        Self(number & NUMBER | COMPOSITE)
    }

    /// Decides whether this is a composite type with a name, not [`TypeOid::RECORD`].
    #[inline]
    pub const fn is_composite(self) -> bool {
        self.0 & !NUMBER == COMPOSITE
    }

    /// Decides whether values are [`crate::Datum::Record`].
    #[inline]
    pub const fn is_record(self) -> bool {
        self.is_composite() || self.0 == Self::RECORD.0
    }

    /// Returns the number in the catalog of a user's type, or of the elements' type of an array.
    pub const fn user_number(self) -> Option<u32> {
        if self.is_domain() {
            return Some(self.0 & NUMBER);
        }
        match self.0 & !NUMBER & !ARRAY {
            ENUM | COMPOSITE => Some(self.0 & NUMBER),
            _ => None,
        }
    }

    /// Returns the array type of a user's type.
    pub(crate) const fn user_array(self) -> Option<Self> {
        if self.is_enum() || self.is_composite() { Some(Self(self.0 | ARRAY)) } else { None }
    }

    /// Returns the element type of an array type of a user's type.
    pub(crate) const fn user_element(self) -> Option<Self> {
        let element = Self(self.0 & !ARRAY);
        if self.0 & ARRAY != 0 && (element.is_enum() || element.is_composite()) {
            Some(element)
        } else {
            None
        }
    }
}

/// A label of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumLabel {
    /// Text of the label.
    pub name: Arc<str>,
    /// The stored form of its values.
    pub position: u64,
}

impl EnumLabel {
    /// Returns the `pg_enum.enumsortorder` of labels from their positions. Labels made in order get
    /// 1, 2, …, and labels put between others get numbers between. Where there is no number between
    /// two, all are counted anew.
    pub fn sort_orders(positions: impl Iterator<Item = u64>) -> Vec<f32> {
        let order = |position: u64| {
            let from_first = i128::from(position) - i128::from(FIRST);
            (from_first as f64 / STEP as f64 + 1.0) as f32
        };
        let orders: Vec<f32> = positions.map(order).collect();
        if orders.is_sorted_by(|a, b| a < b) {
            return orders;
        }
        (1..=orders.len()).map(|number| number as f32).collect()
    }
}

/// An enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumType {
    /// The labels, in the order of their positions.
    pub labels: Vec<EnumLabel>,
}

/// Place of a new label of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelPlace<'l> {
    /// Behind the last label.
    Last,
    /// Directly before this label.
    Before(&'l str),
    /// Directly behind this label.
    After(&'l str),
}

impl EnumType {
    /// Makes an enum of these labels in this order.
    ///
    /// # Errors
    /// As [`EnumType::add`].
    pub fn new(labels: &[String]) -> Result<Self> {
        let mut made = Self { labels: Vec::with_capacity(labels.len()) };
        for label in labels {
            made.add(label, LabelPlace::Last)?;
        }
        Ok(made)
    }

    /// Returns the place of a label in the order.
    pub fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|other| &*other.name == label)
    }

    /// Returns the label of a position.
    pub fn label(&self, position: u64) -> Option<&str> {
        let place = self.labels.binary_search_by_key(&position, |label| label.position).ok()?;
        self.labels.get(place).map(|label| &*label.name)
    }

    /// Adds a label.
    ///
    /// # Errors
    /// `42602` for a label that is too long, `42710` for one that is there, `22023` when the
    /// neighbour is not there. `0A000` when there is no position left between its neighbours.
    pub fn add(&mut self, label: &str, place: LabelPlace<'_>) -> Result<()> {
        if label.len() > LABEL_BYTES_MAX {
            return Err(TypeError::new("42602", format!("invalid enum label \"{label}\""))
                .with_detail("Labels must be 63 bytes or less."));
        }
        if self.place(label).is_some() {
            return Err(TypeError::new("42710", format!("enum label \"{label}\" already exists")));
        }
        let neighbour = |name: &str| {
            self.place(name).ok_or_else(|| {
                TypeError::new("22023", format!("\"{name}\" is not an existing enum label"))
            })
        };
        let at = match place {
            LabelPlace::Last => self.labels.len(),
            LabelPlace::Before(name) => neighbour(name)?,
            LabelPlace::After(name) => neighbour(name)?.saturating_add(1),
        };
        let before = at.checked_sub(1).and_then(|at| self.labels.get(at)).map(|l| l.position);
        let after = self.labels.get(at).map(|label| label.position);
        let position = match (before, after) {
            (None, None) => Some(FIRST),
            (Some(before), None) => before.checked_add(STEP),
            (None, Some(after)) => after.checked_sub(STEP),
            (Some(before), Some(after)) => {
                let middle = before.midpoint(after);
                (middle != before).then_some(middle)
            }
        };
        let position = position.ok_or_else(|| {
            TypeError::unsupported("more labels of an enum between the same two of its labels")
        })?;
        self.labels.insert(at, EnumLabel { name: Arc::from(label), position });
        Ok(())
    }
}

/// An attribute of a composite type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Name of the attribute.
    pub name: Arc<str>,
    /// Type of the attribute.
    pub column: ColumnType,
}

/// A composite type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeType {
    /// The attributes, in order.
    pub attributes: Vec<Attribute>,
}

/// The name of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// Number of the type's schema.
    pub schema: u32,
    /// Name of the type's schema.
    pub schema_name: Arc<str>,
    /// Name of the type in the schema.
    pub name: Arc<str>,
}

/// The user-defined types, by oid, and a search path for their names. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct UserTypes {
    all: Arc<AllTypes>,
    /// Numbers of the schemas in which names are looked for, in order.
    path: Arc<[u32]>,
}

#[derive(Clone, Debug, Default)]
struct AllTypes {
    enums: HashMap<TypeOid, Arc<EnumType>>,
    /// The base type of each domain in the end, with the domain itself beside it.
    domains: HashMap<TypeOid, ColumnType>,
    composites: HashMap<TypeOid, Arc<CompositeType>>,
    names: HashMap<TypeOid, TypeName>,
    /// Pairs of a schema's number and the name of a type in that schema.
    named: HashSet<(u32, Arc<str>)>,
}

impl UserTypes {
    /// Adds or replaces an enum.
    pub fn put(&mut self, oid: TypeOid, definition: Arc<EnumType>) {
        Arc::make_mut(&mut self.all).enums.insert(oid, definition);
    }

    /// Adds or replaces a domain; `base` is its base type in the end, with the domain itself beside
    /// it.
    pub fn put_domain(&mut self, oid: TypeOid, base: ColumnType) {
        Arc::make_mut(&mut self.all).domains.insert(oid, base);
    }

    /// Adds or replaces a composite type.
    pub fn put_composite(&mut self, oid: TypeOid, definition: Arc<CompositeType>) {
        Arc::make_mut(&mut self.all).composites.insert(oid, definition);
    }

    /// Sets the name of a type.
    pub fn put_name(&mut self, oid: TypeOid, name: TypeName) {
        let all = Arc::make_mut(&mut self.all);
        all.named.insert((name.schema, Arc::clone(&name.name)));
        all.names.insert(oid, name);
    }

    /// Returns the same types, whose names are looked for in schemas with these numbers, in this
    /// order.
    #[must_use]
    pub fn along(&self, path: impl Iterator<Item = u32>) -> Self {
        Self { all: Arc::clone(&self.all), path: path.collect() }
    }

    /// Returns the composite type of this oid.
    pub fn composite(&self, oid: TypeOid) -> Option<&Arc<CompositeType>> {
        self.all.composites.get(&oid)
    }

    /// Returns the type of a type's values: the base type with the domain beside it, if it is a
    /// domain that is known.
    pub fn column_type(&self, oid: TypeOid) -> ColumnType {
        self.all.domains.get(&oid).copied().unwrap_or(ColumnType::new(oid))
    }

    /// Returns the enum of this type.
    pub fn get(&self, oid: TypeOid) -> Option<&Arc<EnumType>> {
        self.all.enums.get(&oid)
    }

    /// Returns a user type's name as messages show it: quoted, and with its schema where the search
    /// path does not find it.
    pub fn shown(&self, oid: TypeOid) -> Option<String> {
        if let Some(element) = oid.user_element() {
            return Some(format!("{}[]", self.shown(element)?));
        }
        let TypeName { schema, schema_name, name } = self.all.names.get(&oid)?;
        let has = |of: &&u32| self.all.named.contains(&(**of, Arc::clone(name)));
        let shown = quote_identifier(name);
        if self.path.iter().find(has) == Some(schema) {
            return Some(shown);
        }
        Some(format!("{}.{shown}", quote_identifier(schema_name)))
    }

    /// Appends the label of a value. If the type is not known, appends the position, which reads
    /// back there.
    pub(crate) fn write_label(&self, oid: TypeOid, position: u64, out: &mut Vec<u8>) {
        match self.get(oid).and_then(|found| found.label(position)) {
            Some(label) => out.extend_from_slice(label.as_bytes()),
            None => out.extend_from_slice(position.to_string().as_bytes()),
        }
    }

    /// Returns the position of this label.
    ///
    /// # Errors
    /// `22P02`
    pub(crate) fn read_label(&self, oid: TypeOid, label: &str) -> Result<u64> {
        let Some(found) = self.get(oid) else {
            return label.parse().map_err(|_| {
                TypeError::unsupported("a value of an enum where the type's labels are not known")
            });
        };
        let place = found.place(label).and_then(|place| found.labels.get(place));
        let place = place.ok_or_else(|| {
            let name = self.shown(oid).unwrap_or_default();
            TypeError::new("22P02", format!("invalid input value for enum {name}: \"{label}\""))
        })?;
        Ok(place.position)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(labels: &[EnumLabel]) -> Vec<&str> {
        labels.iter().map(|label| &*label.name).collect()
    }

    #[test]
    fn kinds_stand_in_the_oid() {
        let mood = TypeOid::of_enum(16_390);
        assert!(mood.is_enum() && mood.user_number() == Some(16_390));
        let array = mood.array().expect("an array type");
        assert!(!array.is_enum() && array.element() == Some(mood));
        assert_eq!(array.user_number(), Some(16_390));
        assert_eq!(array.array(), None);
        let domain = TypeOid::of_domain(16_390);
        assert!(domain.is_domain() && !domain.is_enum() && !mood.is_domain() && !array.is_domain());
        assert_eq!(
            (domain.user_number(), domain.array(), domain.element()),
            (Some(16_390), None, None)
        );
        let pair = TypeOid::of_composite(16_390);
        assert!(
            pair.is_composite() && !pair.is_enum() && !pair.is_domain() && !mood.is_composite()
        );
        let pairs = pair.array().expect("an array type");
        assert!(!pairs.is_composite() && pairs.element() == Some(pair));
        assert_eq!((pair.user_number(), pairs.user_number()), (Some(16_390), Some(16_390)));
        for oid in [TypeOid::INT4, TypeOid::INT4_ARRAY, TypeOid(16_390), TypeOid(u32::MAX)] {
            assert!(
                !oid.is_enum() && !oid.is_composite() && oid.user_number().is_none(),
                "{oid:?}"
            );
        }
    }

    #[test]
    fn where_there_is_no_room_a_label_is_refused() {
        let mut made = EnumType::new(&["a".to_owned(), "z".to_owned()]).expect("an enum");
        let added =
            (0..100).take_while(|n| made.add(&format!("l{n}"), LabelPlace::Before("z")).is_ok());
        assert_eq!(added.count(), 40);
        let refused = made.add("x", LabelPlace::Before("z")).expect_err("no room");
        assert_eq!(refused.sqlstate, "0A000");
        made.add("x", LabelPlace::Last).expect("room behind");
        made.add("y", LabelPlace::Before("a")).expect("room before");
    }

    #[test]
    fn names_have_their_schema_where_the_path_does_not_find_them() {
        let mut types = UserTypes::default();
        let [first, second] = [1, 2].map(TypeOid::of_enum);
        for (oid, schema) in [(first, 1), (second, 2)] {
            let schema_name = Arc::from(format!("s {schema}"));
            types.put_name(oid, TypeName { schema, schema_name, name: "mood".into() });
        }
        let shown = |path: &[u32]| {
            let along = types.along(path.iter().copied());
            [first, second].map(|oid| along.shown(oid).expect("a name"))
        };
        assert_eq!(shown(&[1, 2]), ["mood", "\"s 2\".mood"]);
        assert_eq!(shown(&[3, 2, 1]), ["\"s 1\".mood", "mood"]);
        assert_eq!(shown(&[]), ["\"s 1\".mood", "\"s 2\".mood"]);
        let array = first.array().expect("an array type");
        assert_eq!(types.along([1].into_iter()).shown(array).as_deref(), Some("mood[]"));
    }

    #[test]
    fn values_are_read_and_shown_by_their_labels() {
        let mood = TypeOid::of_enum(16_390);
        let labels = ["sad", "so so"].map(str::to_owned);
        let mut types = UserTypes::default();
        types.put(mood, Arc::new(EnumType::new(&labels).expect("an enum")));
        let called = |schema, name| TypeName { schema, schema_name: "s".into(), name };
        types.put_name(mood, called(1, "mood".into()));
        let types = Arc::new(types.along([1].into_iter()));
        let settings = crate::TextSettings { types: Arc::clone(&types), ..Default::default() };
        let context = crate::InputContext { settings: &settings, now: 0 };
        let array = mood.array().expect("an array type");
        let text = "{sad,NULL,\"so so\"}";
        let value = crate::input(array.into(), text, &context).expect("labels");
        assert_eq!(crate::to_text(&value, array, &settings), text);
        let mut bytes = Vec::new();
        crate::write_binary(&value, array, &types, &mut bytes);
        assert!(bytes.ends_with(b"so so") && bytes.windows(3).any(|part| part == b"sad"));
        let again = crate::read_binary(array.into(), &bytes, &types).expect("own bytes");
        assert!(crate::equal(array, &value, &again));
        let wrong = crate::input(mood.into(), "so", &context).expect_err("no label");
        assert_eq!(wrong.message, "invalid input value for enum mood: \"so\"");
        assert_eq!(wrong.sqlstate, "22P02");
        let unknown = crate::read_binary(TypeOid::of_enum(1).into(), b"sad", &types);
        assert_eq!(unknown.expect_err("unknown type").sqlstate, "0A000");
    }

    proptest! {
        #[test]
        fn positions_are_in_the_order_of_labels(
            steps in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..30),
        ) {
            let mut made = EnumType::new(&["first".to_owned()]).expect("an enum");
            let mut model = vec!["first".to_owned()];
            for (number, (neighbour, before)) in steps.iter().enumerate() {
                let at = neighbour.index(model.len());
                let label = format!("l{number}");
                let name = model[at].clone();
                let place = if *before { LabelPlace::Before(&name) } else { LabelPlace::After(&name) };
                made.add(&label, place).expect("room");
                model.insert(if *before { at } else { at + 1 }, label);
            }
            prop_assert_eq!(texts(&made.labels), model.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert!(made.labels.is_sorted_by(|a, b| a.position < b.position));
            for label in &made.labels {
                prop_assert_eq!(made.label(label.position), Some(&*label.name));
            }
        }
    }
}
