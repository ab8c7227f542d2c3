//! Changes of `jsonb` values: concatenation, removal and replacement of parts.

use std::sync::Arc;

use super::json_tree::{Jsonb, JsonbArray, JsonbObject, place};
use crate::error::{Result, TypeError};
use crate::work::charge::charge_parts;

/// The change at the end of a path.
#[derive(Clone, Debug)]
pub enum PathChange {
    /// Removes the value there.
    Delete,
    /// Replaces the value there; without one, nothing happens.
    Replace(Arc<Jsonb>),
    /// Replaces the value there, or adds a new one.
    Set(Arc<Jsonb>),
    /// Inserts before the item there, or adds a new value.
    InsertBefore(Arc<Jsonb>),
    /// Inserts behind the item there, or adds a new value.
    InsertAfter(Arc<Jsonb>),
}

impl PathChange {
    /// Returns the value to add where the path finds none.
    fn created(&self) -> Option<&Arc<Jsonb>> {
        match self {
            Self::Set(new) | Self::InsertBefore(new) | Self::InsertAfter(new) => Some(new),
            Self::Delete | Self::Replace(_) => None,
        }
    }
}

/// Returns the array index that a step of a path gives: an integer of four bytes, perhaps after
/// blanks.
pub fn path_index(step: &str) -> Option<i32> {
    let digits = step.trim_start_matches(crate::scalar::space::is_space);
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn invalid(message: impl Into<String>) -> TypeError {
    TypeError::new("22023", message)
}

/// Charges `count` items of an array, before they are copied.
fn charge_items(count: usize) -> Result<()> {
    charge_parts(count, size_of::<Arc<Jsonb>>())
}

/// Charges `count` pairs of an object, before they are copied: twice, and sorting takes half.
fn charge_pairs(count: usize) -> Result<()> {
    charge_parts(count, 5 * size_of::<(Arc<str>, Arc<Jsonb>)>() / 2)
}

/// Returns the items of an array, or the value as the only one.
fn items_or_itself(value: &Arc<Jsonb>) -> &[Arc<Jsonb>] {
    match &**value {
        Jsonb::Array(array) => array.items(),
        _ => std::slice::from_ref(value),
    }
}

impl Jsonb {
    /// Returns the value where `path` leads, from `value`; `None` if nothing stands there.
    pub fn at_path<'j>(value: &'j Arc<Self>, path: &[&str]) -> Option<&'j Arc<Self>> {
        path.iter().try_fold(value, |value, step| match &**value {
            Self::Object(object) => object.get(step),
            Self::Array(array) => array.item(path_index(step)?.into()),
            _ => None,
        })
    }

    /// Changes the value where `path` leads: `jsonb_set`, `jsonb_insert` and `#-`.
    ///
    /// # Errors
    /// `22023` for a value without parts and for an insertion where a key is. `22P02` for a step
    /// into an array that is no number, `22004` for a step that is NULL. `54001` if the result
    /// nests too deeply.
    pub fn change(
        value: &Arc<Self>,
        path: &[Option<&str>],
        change: &PathChange,
    ) -> Result<Arc<Self>> {
        let count = match &**value {
            Self::Array(array) => array.items().len(),
            Self::Object(object) => object.pairs().len(),
            _ => {
                let verb = if matches!(change, PathChange::Delete) { "delete" } else { "set" };
                return Err(invalid(format!("cannot {verb} path in scalar")));
            }
        };
        let nothing = count == 0 && change.created().is_none();
        if path.is_empty() || nothing {
            return Ok(Arc::clone(value));
        }
        Edit { path, change }.part(value, 0)
    }

    /// Evaluates the operator `||`: the pairs of both objects, or the items of both arrays. A value
    /// that is no array counts as an array of one.
    ///
    /// # Errors
    /// `54001` if the result nests too deeply.
    pub fn concat(a: &Arc<Self>, b: &Arc<Self>) -> Result<Arc<Self>> {
        if let (Self::Object(x), Self::Object(y)) = (&**a, &**b) {
            charge_pairs(x.pairs().len().saturating_add(y.pairs().len()))?;
            let mut pairs = Vec::with_capacity(x.pairs().len().saturating_add(y.pairs().len()));
            // Later pairs win.
            pairs.extend(x.pairs().iter().chain(y.pairs()).cloned());
            return Self::object(pairs).map(Arc::new);
        }
        let (x, y) = (items_or_itself(a), items_or_itself(b));
        charge_items(x.len().saturating_add(y.len()))?;
        Self::array([x, y].concat()).map(Arc::new)
    }

    /// Evaluates the operator `-` with texts: leaves out the pairs of these keys, or the items that
    /// are these strings.
    ///
    /// # Errors
    /// `22023` for a scalar.
    pub fn without_keys(value: &Arc<Self>, keys: &[&str]) -> Result<Arc<Self>> {
        Ok(Arc::new(match &**value {
            Self::Object(object) => {
                charge_pairs(object.pairs().len())?;
                let stays = |key: &str| !keys.contains(&key);
                Self::object(object.pairs().iter().filter(|(k, _)| stays(k)).cloned().collect())?
            }
            Self::Array(array) => {
                charge_items(array.items().len())?;
                let goes =
                    |item: &Self| matches!(item, Self::String(text) if keys.contains(&&**text));
                Self::array(array.items().iter().filter(|item| !goes(item)).cloned().collect())?
            }
            _ => return Err(invalid("cannot delete from scalar")),
        }))
    }

    /// Evaluates the operator `-` with an integer: leaves out the item of this index, counted from
    /// the end if negative.
    ///
    /// # Errors
    /// `22023` for a scalar or an object.
    pub fn without_item(value: &Arc<Self>, index: i64) -> Result<Arc<Self>> {
        match &**value {
            Self::Array(array) => {
                charge_items(array.items().len())?;
                let mut items = array.items().to_vec();
                match place(index, items.len()) {
                    Some(at) if at < items.len() => drop(items.remove(at)),
                    _ => return Ok(Arc::clone(value)),
                }
                Self::array(items).map(Arc::new)
            }
            Self::Object(_) => Err(invalid("cannot delete from object using integer index")),
            _ => Err(invalid("cannot delete from scalar")),
        }
    }

    /// Leaves out the pairs whose value is `null`, on every level: `jsonb_strip_nulls`.
    ///
    /// # Errors
    /// None for a value within the limits.
    pub fn without_nulls(value: &Arc<Self>) -> Result<Arc<Self>> {
        Ok(Arc::new(match &**value {
            Self::Array(array) => {
                charge_items(array.items().len())?;
                let items = array.items().iter().map(Self::without_nulls);
                Self::array(items.collect::<Result<_>>()?)?
            }
            Self::Object(object) => {
                charge_pairs(object.pairs().len())?;
                let pairs = object.pairs().iter().filter(|(_, v)| !matches!(**v, Self::Null));
                let pairs = pairs.map(|(k, v)| -> Result<(Arc<str>, Arc<Self>)> {
                    Ok((Arc::clone(k), Self::without_nulls(v)?))
                });
                Self::object(pairs.collect::<Result<_>>()?)?
            }
            _ => return Ok(Arc::clone(value)),
        }))
    }
}

/// A change, with its path.
struct Edit<'e> {
    path: &'e [Option<&'e str>],
    change: &'e PathChange,
}

impl Edit<'_> {
    /// Returns the value with the change made from step `level` on.
    fn part(&self, value: &Arc<Jsonb>, level: usize) -> Result<Arc<Jsonb>> {
        let Some(step) = self.path.get(level).copied().flatten() else {
            let message = format!("path element at position {} is null", level + 1);
            return Err(TypeError::new("22004", message));
        };
        match &**value {
            Jsonb::Object(object) => self.object(value, object, step, level),
            Jsonb::Array(array) => self.array(value, array, step, level),
            _ => Ok(Arc::clone(value)),
        }
    }

    fn is_last(&self, level: usize) -> bool {
        level + 1 == self.path.len()
    }

    fn object(
        &self,
        value: &Arc<Jsonb>,
        object: &JsonbObject,
        step: &str,
        level: usize,
    ) -> Result<Arc<Jsonb>> {
        let found = object.position(step).ok();
        let known = found.and_then(|at| object.pairs().get(at));
        let new = match (known, self.change) {
            (Some((_, part)), _) if !self.is_last(level) => Some(self.part(part, level + 1)?),
            (None, _) if !self.is_last(level) => return Ok(Arc::clone(value)),
            (Some(_), PathChange::Delete) => None,
            (Some(_), PathChange::Replace(new) | PathChange::Set(new)) => Some(Arc::clone(new)),
            (Some(_), PathChange::InsertBefore(_) | PathChange::InsertAfter(_)) => {
                return Err(invalid("cannot replace existing key")
                    .with_hint("Try using the function jsonb_set to replace key value."));
            }
            (None, change) => match change.created() {
                Some(new) => Some(Arc::clone(new)),
                None => return Ok(Arc::clone(value)),
            },
        };
        charge_pairs(object.pairs().len())?;
        let others = object.pairs().iter().filter(|(key, _)| **key != *step).cloned();
        let changed = new.map(|new| (Arc::from(step), new));
        Jsonb::object(others.chain(changed).collect()).map(Arc::new)
    }

    fn array(
        &self,
        value: &Arc<Jsonb>,
        array: &JsonbArray,
        step: &str,
        level: usize,
    ) -> Result<Arc<Jsonb>> {
        let index = path_index(step).ok_or_else(|| {
            let position = level + 1;
            let message =
                format!("path element at position {position} is not an integer: \"{step}\"");
            TypeError::new("22P02", message)
        })?;
        charge_items(array.items().len())?;
        let mut items = array.items().to_vec();
        let at = place(index.into(), items.len());
        match (at, self.change.created()) {
            (Some(at), _) if at < items.len() => {
                if self.is_last(level) {
                    match self.change {
                        PathChange::Delete => drop(items.remove(at)),
                        PathChange::Replace(new) | PathChange::Set(new) => {
                            items[at] = Arc::clone(new);
                        }
                        PathChange::InsertBefore(new) => items.insert(at, Arc::clone(new)),
                        PathChange::InsertAfter(new) => items.insert(at + 1, Arc::clone(new)),
                    }
                } else {
                    items[at] = self.part(&items[at], level + 1)?;
                }
            }
            // Before the first item, or behind the last.
            (None, Some(new)) if self.is_last(level) => items.insert(0, Arc::clone(new)),
            (Some(_), Some(new)) if self.is_last(level) => items.push(Arc::clone(new)),
            _ => return Ok(Arc::clone(value)),
        }
        Jsonb::array(items).map(Arc::new)
    }
}
