//! Sets of characters: bracket expressions, classes, single characters.

/// A class by its name between `[:` and `:]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Alnum,
    Alpha,
    Ascii,
    Blank,
    Cntrl,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
    Word,
    Xdigit,
}

impl Class {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "alnum" => Self::Alnum,
            "alpha" => Self::Alpha,
            "ascii" => Self::Ascii,
            "blank" => Self::Blank,
            "cntrl" => Self::Cntrl,
            "digit" => Self::Digit,
            "graph" => Self::Graph,
            "lower" => Self::Lower,
            "print" => Self::Print,
            "punct" => Self::Punct,
            "space" => Self::Space,
            "upper" => Self::Upper,
            "word" => Self::Word,
            "xdigit" => Self::Xdigit,
            _ => return None,
        })
    }

    fn contains(self, c: char) -> bool {
        match self {
            Self::Alnum => c.is_alphanumeric(),
            Self::Alpha => c.is_alphabetic(),
            Self::Ascii => c.is_ascii(),
            Self::Blank => c == ' ' || c == '\t',
            Self::Cntrl => c.is_control(),
            Self::Digit => c.is_ascii_digit(),
            Self::Graph => !c.is_control() && !c.is_whitespace(),
            Self::Lower => c.is_lowercase(),
            Self::Print => !c.is_control(),
            Self::Punct if c.is_ascii() => c.is_ascii_punctuation(),
            Self::Punct => !c.is_control() && !c.is_whitespace() && !c.is_alphanumeric(),
            Self::Space => c.is_whitespace() && c != '\u{a0}',
            Self::Upper => c.is_uppercase(),
            Self::Word => c.is_alphanumeric() || c == '_',
            Self::Xdigit => c.is_ascii_hexdigit(),
        }
    }

    /// Returns the class in the syntax of the `regex` crate, inside brackets.
    fn translated(self) -> &'static str {
        match self {
            Self::Alnum => r"\p{Alphabetic}\p{N}",
            Self::Alpha => r"\p{Alphabetic}",
            Self::Ascii => r"\x00-\x7f",
            Self::Blank => r" \t",
            Self::Cntrl => r"\p{Cc}",
            Self::Digit => "0-9",
            Self::Graph => r"[^\p{Cc}\p{White_Space}]",
            Self::Lower => r"\p{Lowercase}",
            Self::Print => r"\P{Cc}",
            Self::Punct => r"[:punct:][^\x00-\x7f\p{Cc}\p{White_Space}\p{Alphabetic}\p{N}]",
            Self::Space => r"[\p{White_Space}--\x{a0}]",
            Self::Upper => r"\p{Uppercase}",
            Self::Word => r"\p{Alphabetic}\p{N}_",
            Self::Xdigit => "0-9A-Fa-f",
        }
    }
}

/// Decides whether a character belongs to a word.
pub(super) fn is_word(c: char, ascii: bool) -> bool {
    Class::Word.contains(c) && (!ascii || c.is_ascii())
}

/// A set of characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CharSet {
    pub(super) ranges: Vec<(char, char)>,
    /// Classes; true for a class whose outside characters belong to the set.
    pub(super) classes: Vec<(Class, bool)>,
    /// True if the set is the complement of the rest.
    pub(super) negated: bool,
    /// True to ignore case.
    pub(super) fold: bool,
    /// True if only ASCII characters belong to classes and have cases.
    pub(super) ascii: bool,
    /// True if a newline does not belong to the set, although the set is negated.
    pub(super) no_newline: bool,
}

impl CharSet {
    pub(super) fn one(c: char, fold: bool, ascii: bool) -> Self {
        let fold = fold && cases(c).is_some();
        let mut set = Self { ranges: vec![(c, c)], fold, ascii, ..Self::default() };
        set.spell_out_cases();
        set
    }

    pub(super) fn class(class: Class, outside: bool, ascii: bool) -> Self {
        Self { classes: vec![(class, outside)], ascii, ..Self::default() }
    }

    /// Adds the other case of each ASCII letter where only ASCII letters have cases.
    pub(super) fn spell_out_cases(&mut self) {
        if !self.ascii || !self.fold {
            return;
        }
        self.fold = false;
        let letters = ('a'..='z')
            .chain('A'..='Z')
            .filter(|c| self.ranges.iter().any(|(from, to)| (*from..=*to).contains(c)));
        let other = |c: char| {
            if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
        };
        let others: Vec<(char, char)> = letters.map(|c| (other(c), other(c))).collect();
        self.ranges.extend(others);
    }

    /// Returns the set of every character, optionally without the newline.
    pub(super) fn any(no_newline: bool) -> Self {
        Self { negated: true, no_newline, ..Self::default() }
    }

    fn named(&self, c: char) -> bool {
        self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&c))
            || self.classes.iter().any(|(class, outside)| self.has(*class, c) != *outside)
    }

    fn has(&self, class: Class, c: char) -> bool {
        class.contains(c) && (!self.ascii || c.is_ascii())
    }

    pub(super) fn contains(&self, c: char) -> bool {
        if self.no_newline && c == '\n' {
            return false;
        }
        let named = self.named(c)
            || (self.fold
                && cases(c).is_some_and(|(lower, upper)| self.named(lower) || self.named(upper)));
        named != self.negated
    }

    /// Writes the set in the syntax of the `regex` crate.
    pub(super) fn translate(&self, out: &mut String) {
        use std::fmt::Write as _;
        let mut inside = String::new();
        for (from, to) in &self.ranges {
            // Writing to a string cannot fail.
            let _ = write!(inside, r"\x{{{:x}}}-\x{{{:x}}}", u32::from(*from), u32::from(*to));
        }
        for (class, outside) in &self.classes {
            let (open, close) = match (*outside, self.ascii) {
                (false, false) => ("[", "]"),
                (true, false) => ("[^", "]"),
                (false, true) => ("[[", r"]&&\x00-\x7f]"),
                (true, true) => ("[^[", r"]&&\x00-\x7f]"),
            };
            let _ = write!(inside, "{open}{}{close}", class.translated());
        }
        let fold = if self.fold { "(?i:" } else { "(?:" };
        let _ = match (self.negated, inside.is_empty(), self.no_newline) {
            (true, true, true) => write!(out, r"[^\n]"),
            (true, true, false) => write!(out, r"(?s:.)"),
            (true, false, true) => write!(out, r"{fold}[^\n{inside}])"),
            (true, false, false) => write!(out, "{fold}[^{inside}])"),
            (false, _, _) => write!(out, "{fold}[{inside}])"),
        };
    }
}

/// Returns the lower and upper case of a character, if both are one character and differ.
fn cases(c: char) -> Option<(char, char)> {
    let single = |mut all: Box<dyn Iterator<Item = char>>| match (all.next(), all.next()) {
        (Some(only), None) => only,
        _ => c,
    };
    if c.is_ascii() && !c.is_ascii_alphabetic() {
        return None;
    }
    let (lower, upper) = (single(Box::new(c.to_lowercase())), single(Box::new(c.to_uppercase())));
    (lower != upper).then_some((lower, upper))
}
