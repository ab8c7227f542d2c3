//! `jsonpath`: expressions over `jsonb` as trees, and as text.
//!
//! A value of the type is the text that [`JsonPath`] is shown as, which reads back to the same
//! tree. `niwaki-functions` evaluates paths, with the regular expressions.

mod path_parser;
mod path_tokens;
mod show;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::numeric::Numeric;

/// An expression of type `jsonpath`.
#[derive(Clone, Debug)]
pub struct JsonPath {
    /// Ignores structural errors, and takes arrays apart where an item is asked for.
    pub lax: bool,
    /// The path that the expression computes.
    pub root: Path,
}

/// A first step, then the steps applied to its results one after the other; never empty.
pub type Path = Vec<PathStep>;

/// An operator between two paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `starts with`
    StartsWith,
}

/// A method without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMethod {
    /// `.type()`
    Type,
    /// `.size()`
    Size,
    /// `.abs()`
    Abs,
    /// `.floor()`
    Floor,
    /// `.ceiling()`
    Ceiling,
    /// `.double()`
    Double,
    /// `.keyvalue()`
    KeyValue,
}

/// The flags of `like_regex`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegexFlags {
    /// `i`: upper and lower case are the same.
    pub fold: bool,
    /// `s`: a dot matches a newline.
    pub dot_all: bool,
    /// `m`: `^` and `$` match at newlines.
    pub lines: bool,
    /// `x`, which has no effect beside `q`, and is refused without it.
    pub expanded: bool,
    /// `q`: the pattern matches itself literally.
    pub quote: bool,
}

/// One step of a path.
#[derive(Clone, Debug)]
pub enum PathStep {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Numeric),
    /// A string.
    String(Arc<str>),
    /// `$name`: the caller's value under this name.
    Variable(Arc<str>),
    /// `$`: the whole value.
    Root,
    /// `@`: the item that a filter looks at.
    Current,
    /// `last`: the number of the last item of the array whose items are asked for.
    Last,
    /// `.key`
    Key(Arc<str>),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyItem,
    /// `[from to to, …]`
    Items(Vec<(Path, Option<Path>)>),
    /// `.**{first to last}`, levels from 0; `u32::MAX` is the last one.
    Any(u32, u32),
    /// `?(condition)`
    Filter(Path),
    /// `.method()`
    Method(PathMethod),
    /// `.datetime(template)`
    DateTime(Option<Arc<str>>),
    /// `+` or `-` (true) in front of a path.
    Sign(bool, Path),
    /// Two paths with an operator in between.
    Binary(PathOperator, Path, Path),
    /// `!(condition)`
    Not(Path),
    /// `(condition) is unknown`
    IsUnknown(Path),
    /// `exists (path)`
    Exists(Path),
    /// `path like_regex "pattern" flag "…"`
    LikeRegex(Path, Arc<str>, RegexFlags),
}

impl PathOperator {
    /// Returns the operator's text.
    pub fn word(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::And => "&&",
            Self::Or => "||",
            Self::StartsWith => "starts with",
        }
    }

    /// Decides whether the result is a number.
    pub fn is_arithmetic(self) -> bool {
        matches!(self, Self::Add | Self::Subtract | Self::Multiply | Self::Divide | Self::Remainder)
    }
}

impl PathMethod {
    const ALL: [(&'static str, Self); 7] = [
        ("type", Self::Type),
        ("size", Self::Size),
        ("abs", Self::Abs),
        ("floor", Self::Floor),
        ("ceiling", Self::Ceiling),
        ("double", Self::Double),
        ("keyvalue", Self::KeyValue),
    ];

    /// Returns the method's name.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, method)| *method == self).map_or("", |(word, _)| *word)
    }
}

impl PathStep {
    /// Decides whether the result is true, false or unknown.
    pub fn is_condition(&self) -> bool {
        match self {
            Self::Binary(operator, ..) => !operator.is_arithmetic(),
            Self::Not(_) | Self::IsUnknown(_) | Self::Exists(_) | Self::LikeRegex(..) => true,
            _ => false,
        }
    }
}
