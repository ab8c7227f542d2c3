//! A parser of `jsonpath` text.

use std::sync::Arc;

use super::path_tokens::{Lexer, Token, wrong};
use super::{JsonPath, Path, PathMethod, PathOperator, PathStep, RegexFlags};
use crate::error::{Result, TypeError};
use crate::numeric::Numeric;

/// Levels of brackets, signs and the like; the limit protects the stack.
const LEVELS_MAX: u32 = 256;
/// Steps of one path; the limit protects the stack, too.
const STEPS_MAX: usize = 256;

impl JsonPath {
    /// Reads a text.
    ///
    /// # Errors
    /// `42601` for other text. `22P02` and `22P05` for values that its strings cannot have. `54001`
    /// where the text nests too deeply.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lexer = Lexer::new(text);
        let (token, near) = lexer.next()?;
        if token == Token::End {
            return Err(TypeError::invalid_text("jsonpath", text));
        }
        let mut parser = Parser { lexer, token, near, levels: 0, in_filter: 0, in_items: 0 };
        let lax = match parser.word() {
            Some("strict") => {
                parser.advance()?;
                false
            }
            Some("lax") => {
                parser.advance()?;
                true
            }
            _ => true,
        };
        let root = parser.any()?.path;
        if parser.token != Token::End {
            return Err(parser.unexpected());
        }
        Ok(Self { lax, root })
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token,
    /// The token's text.
    near: &'t str,
    levels: u32,
    /// Number of filters around this place. In a filter there is a current item.
    in_filter: u32,
    /// Number of array brackets around this place. In such brackets there is a last item.
    in_items: u32,
}

/// A parsed path, and how it may be used.
struct Parsed {
    path: Path,
    /// A condition in brackets, which may stand behind `!` and before `is unknown`.
    bracketed: bool,
}

impl Parsed {
    fn of(step: PathStep) -> Self {
        Self { path: vec![step], bracketed: false }
    }

    fn is_condition(&self) -> bool {
        matches!(self.path.as_slice(), [step] if step.is_condition())
    }
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<()> {
        (self.token, self.near) = self.lexer.next()?;
        Ok(())
    }

    fn unexpected(&self) -> TypeError {
        wrong("syntax error", self.near)
    }

    /// Returns the next word of the language. Words that are values are written in lower case only.
    fn word(&self) -> Option<&'static str> {
        const WORDS: [&str; 22] = [
            "is",
            "to",
            "abs",
            "lax",
            "flag",
            "last",
            "size",
            "type",
            "with",
            "floor",
            "double",
            "exists",
            "starts",
            "strict",
            "ceiling",
            "unknown",
            "datetime",
            "keyvalue",
            "like_regex",
            "null",
            "true",
            "false",
        ];
        let Token::Name(name) = &self.token else { return None };
        let values = ["null", "true", "false"];
        WORDS.into_iter().find(|word| {
            if values.contains(word) { name == word } else { name.eq_ignore_ascii_case(word) }
        })
    }

    fn is_mark(&self, mark: &str) -> bool {
        matches!(self.token, Token::Mark(found) if found == mark)
    }

    fn take_mark(&mut self, mark: &str) -> Result<bool> {
        let found = self.is_mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn need_mark(&mut self, mark: &str) -> Result<()> {
        if self.take_mark(mark)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn need_word(&mut self, word: &str) -> Result<()> {
        if self.word() != Some(word) {
            return Err(self.unexpected());
        }
        self.advance()
    }

    /// Reads a level deeper.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.levels >= LEVELS_MAX {
            return Err(TypeError::new("54001", "stack depth limit exceeded"));
        }
        self.levels += 1;
        let found = read(self);
        self.levels -= 1;
        found
    }

    /// Reads a path or a condition.
    fn any(&mut self) -> Result<Parsed> {
        self.deeper(Self::disjunction)
    }

    fn condition(&mut self) -> Result<Path> {
        let found = self.any()?;
        if found.is_condition() { Ok(found.path) } else { Err(self.unexpected()) }
    }

    fn expression(&mut self) -> Result<Path> {
        let found = self.deeper(Self::sum)?;
        self.as_expression(found)
    }

    fn as_expression(&self, found: Parsed) -> Result<Path> {
        if found.is_condition() { Err(self.unexpected()) } else { Ok(found.path) }
    }

    fn disjunction(&mut self) -> Result<Parsed> {
        self.connected("||", PathOperator::Or, |parser| {
            parser.connected("&&", PathOperator::And, Self::comparison)
        })
    }

    fn connected(
        &mut self,
        mark: &str,
        operator: PathOperator,
        operand: impl Fn(&mut Self) -> Result<Parsed>,
    ) -> Result<Parsed> {
        let mut found = operand(self)?;
        let mut count = 0;
        while self.is_mark(mark) {
            count += 1;
            if count > STEPS_MAX {
                return Err(TypeError::new("54001", "stack depth limit exceeded"));
            }
            if !found.is_condition() {
                return Err(self.unexpected());
            }
            self.advance()?;
            let right = operand(self)?;
            if !right.is_condition() {
                return Err(self.unexpected());
            }
            found = Parsed::of(PathStep::Binary(operator, found.path, right.path));
        }
        Ok(found)
    }

    fn comparison(&mut self) -> Result<Parsed> {
        if self.take_mark("!")? {
            if !self.is_mark("(") && self.word() != Some("exists") {
                return Err(self.unexpected());
            }
            let negated = self.deeper(Self::sum)?;
            let delimited = negated.bracketed || matches!(&*negated.path, [PathStep::Exists(_)]);
            if !delimited || !negated.is_condition() {
                return Err(self.unexpected());
            }
            return Ok(Parsed::of(PathStep::Not(negated.path)));
        }
        let left = self.sum()?;
        if left.is_condition() {
            if left.bracketed && self.word() == Some("is") {
                self.advance()?;
                self.need_word("unknown")?;
                return Ok(Parsed::of(PathStep::IsUnknown(left.path)));
            }
            return Ok(left);
        }
        let operator = match (&self.token, self.word()) {
            (Token::Mark("=="), _) => PathOperator::Equal,
            (Token::Mark("!=" | "<>"), _) => PathOperator::NotEqual,
            (Token::Mark("<"), _) => PathOperator::Less,
            (Token::Mark("<="), _) => PathOperator::LessEqual,
            (Token::Mark(">"), _) => PathOperator::Greater,
            (Token::Mark(">="), _) => PathOperator::GreaterEqual,
            (_, Some("starts")) => {
                self.advance()?;
                self.need_word("with")?;
                let initial = match &self.token {
                    Token::String(text) => PathStep::String(Arc::from(text.as_str())),
                    Token::Variable(name) => PathStep::Variable(Arc::from(name.as_str())),
                    _ => return Err(self.unexpected()),
                };
                self.advance()?;
                let operator = PathOperator::StartsWith;
                return Ok(Parsed::of(PathStep::Binary(operator, left.path, vec![initial])));
            }
            (_, Some("like_regex")) => return self.like_regex(left.path),
            _ => return Ok(left),
        };
        self.advance()?;
        let right = self.sum()?;
        let right = self.as_expression(right)?;
        Ok(Parsed::of(PathStep::Binary(operator, left.path, right)))
    }

    fn string(&mut self) -> Result<String> {
        let Token::String(text) = &self.token else { return Err(self.unexpected()) };
        let text = text.clone();
        self.advance()?;
        Ok(text)
    }

    fn like_regex(&mut self, left: Path) -> Result<Parsed> {
        self.advance()?;
        let pattern = self.string()?;
        let mut flags = RegexFlags::default();
        if self.word() == Some("flag") {
            self.advance()?;
            for flag in self.string()?.chars() {
                match flag {
                    'i' => flags.fold = true,
                    's' => flags.dot_all = true,
                    'm' => flags.lines = true,
                    'x' => flags.expanded = true,
                    'q' => flags.quote = true,
                    other => {
                        let detail = format!(
                            "Unrecognized flag character \"{other}\" in LIKE_REGEX predicate."
                        );
                        let message = "invalid input syntax for type jsonpath";
                        return Err(TypeError::new("42601", message).with_detail(detail));
                    }
                }
            }
        }
        if flags.expanded && !flags.quote {
            let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
            return Err(TypeError::new("0A000", message));
        }
        Ok(Parsed::of(PathStep::LikeRegex(left, Arc::from(pattern), flags)))
    }

    fn sum(&mut self) -> Result<Parsed> {
        let operators = [("+", PathOperator::Add), ("-", PathOperator::Subtract)];
        self.arithmetic(&operators, Self::product)
    }

    fn product(&mut self) -> Result<Parsed> {
        let operators = [
            ("*", PathOperator::Multiply),
            ("/", PathOperator::Divide),
            ("%", PathOperator::Remainder),
        ];
        self.arithmetic(&operators, Self::signed)
    }

    fn arithmetic(
        &mut self,
        operators: &[(&str, PathOperator)],
        operand: impl Fn(&mut Self) -> Result<Parsed>,
    ) -> Result<Parsed> {
        let mut found = operand(self)?;
        let mut count = 0;
        loop {
            let operator = operators.iter().find(|(mark, _)| self.is_mark(mark));
            let Some((_, operator)) = operator else { return Ok(found) };
            count += 1;
            if count > STEPS_MAX {
                return Err(TypeError::new("54001", "stack depth limit exceeded"));
            }
            let left = self.as_expression(found)?;
            self.advance()?;
            let right = operand(self)?;
            let right = self.as_expression(right)?;
            found = Parsed::of(PathStep::Binary(*operator, left, right));
        }
    }

    fn signed(&mut self) -> Result<Parsed> {
        let negative = self.is_mark("-");
        if !negative && !self.is_mark("+") {
            return self.accessed();
        }
        self.advance()?;
        let operand = self.deeper(Self::signed)?;
        let operand = self.as_expression(operand)?;
        Ok(match operand.as_slice() {
            [PathStep::Number(number)] if negative => Parsed::of(PathStep::Number(number.neg())),
            [PathStep::Number(_)] => Parsed { path: operand, bracketed: false },
            _ => Parsed::of(PathStep::Sign(negative, operand)),
        })
    }

    /// Reads a value and the steps behind it.
    fn accessed(&mut self) -> Result<Parsed> {
        let mut found = self.primary()?;
        loop {
            let step = if self.take_mark(".")? {
                self.member()?
            } else if self.take_mark("[")? {
                self.items()?
            } else if self.take_mark("?")? {
                self.need_mark("(")?;
                self.in_filter += 1;
                let condition = self.condition()?;
                self.in_filter -= 1;
                self.need_mark(")")?;
                PathStep::Filter(condition)
            } else {
                return Ok(found);
            };
            if found.path.len() >= STEPS_MAX {
                return Err(TypeError::new("54001", "stack depth limit exceeded"));
            }
            found.bracketed = false;
            found.path.push(step);
        }
    }

    fn primary(&mut self) -> Result<Parsed> {
        let step = match (&self.token, self.word()) {
            (Token::Mark("("), _) => {
                self.advance()?;
                let mut found = self.any()?;
                self.need_mark(")")?;
                found.bracketed = true;
                return Ok(found);
            }
            (Token::Mark("$"), _) => PathStep::Root,
            (Token::Mark("@"), _) => {
                if self.in_filter == 0 {
                    return Err(TypeError::new("42601", "@ is not allowed in root expressions"));
                }
                PathStep::Current
            }
            (Token::String(text), _) => PathStep::String(Arc::from(text.as_str())),
            (Token::Variable(name), _) => PathStep::Variable(Arc::from(name.as_str())),
            (Token::Integer(text) | Token::Decimal(text), _) => {
                PathStep::Number(Numeric::parse(text)?)
            }
            (_, Some("null")) => PathStep::Null,
            (_, Some("true")) => PathStep::Bool(true),
            (_, Some("false")) => PathStep::Bool(false),
            (_, Some("last")) => {
                if self.in_items == 0 {
                    let message = "LAST is allowed only in array subscripts";
                    return Err(TypeError::new("42601", message));
                }
                PathStep::Last
            }
            (_, Some("exists")) => {
                self.advance()?;
                self.need_mark("(")?;
                let path = self.expression()?;
                self.need_mark(")")?;
                return Ok(Parsed::of(PathStep::Exists(path)));
            }
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(Parsed::of(step))
    }

    /// Reads the member behind a point.
    fn member(&mut self) -> Result<PathStep> {
        if self.take_mark("*")? {
            return Ok(PathStep::AnyKey);
        }
        if self.take_mark("**")? {
            return self.levels();
        }
        let word = self.word();
        let key = match &self.token {
            Token::Name(name) | Token::Escaped(name) | Token::String(name) => name.clone(),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        if !self.is_mark("(") {
            return Ok(PathStep::Key(Arc::from(key)));
        }
        let method = PathMethod::ALL.into_iter().find(|(name, _)| Some(*name) == word);
        let step = match (method, word) {
            (Some((_, method)), _) => {
                self.advance()?;
                PathStep::Method(method)
            }
            (None, Some("datetime")) => {
                self.advance()?;
                let template = matches!(self.token, Token::String(_));
                PathStep::DateTime(if template { Some(Arc::from(self.string()?)) } else { None })
            }
            _ => return Err(self.unexpected()),
        };
        self.need_mark(")")?;
        Ok(step)
    }

    /// Reads the levels of `.**`.
    fn levels(&mut self) -> Result<PathStep> {
        if !self.take_mark("{")? {
            return Ok(PathStep::Any(0, u32::MAX));
        }
        let first = self.level()?;
        let last = if self.word() == Some("to") {
            self.advance()?;
            self.level()?
        } else {
            first
        };
        self.need_mark("}")?;
        Ok(PathStep::Any(first, last))
    }

    fn level(&mut self) -> Result<u32> {
        let level = match (&self.token, self.word()) {
            (_, Some("last")) => u32::MAX,
            (Token::Integer(text), _) => {
                let wide = || {
                    let message = format!("value \"{text}\" is out of range for type integer");
                    TypeError::new("22003", message)
                };
                text.parse::<i32>().ok().and_then(|n| u32::try_from(n).ok()).ok_or_else(wide)?
            }
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(level)
    }

    /// Reads the text in the brackets of an array.
    fn items(&mut self) -> Result<PathStep> {
        if self.take_mark("*")? {
            self.need_mark("]")?;
            return Ok(PathStep::AnyItem);
        }
        self.in_items += 1;
        let mut items = Vec::new();
        loop {
            let from = self.expression()?;
            let to = if self.word() == Some("to") {
                self.advance()?;
                Some(self.expression()?)
            } else {
                None
            };
            items.push((from, to));
            if !self.take_mark(",")? {
                break;
            }
        }
        self.in_items -= 1;
        self.need_mark("]")?;
        Ok(PathStep::Items(items))
    }
}
