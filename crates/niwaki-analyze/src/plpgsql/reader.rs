//! Reads the body of a trigger function into statements.

use niwaki_expr::query::RowName;
use niwaki_parse::error::{Result, SqlError};

use super::expression::check_expression;
use super::lexer::{Token, TokenKind, tokens};
use super::{BodyAction, BodyStatement};

/// Words that begin statements of PostgreSQL that are refused by name.
const STATEMENTS: &[&str] = &[
    "alter", "analyze", "assert", "call", "case", "close", "comment", "commit", "continue", "copy",
    "create", "declare", "delete", "do", "drop", "execute", "exit", "explain", "fetch", "for",
    "foreach", "get", "grant", "if", "insert", "listen", "lock", "loop", "merge", "move", "notify",
    "open", "perform", "raise", "refresh", "reset", "revoke", "rollback", "select", "set", "show",
    "table", "truncate", "update", "vacuum", "values", "while", "with",
];

/// Variables that PostgreSQL gives to every trigger function, besides the rows.
const VARIABLES: &[&str] = &[
    "found",
    "tg_argv",
    "tg_level",
    "tg_name",
    "tg_nargs",
    "tg_op",
    "tg_relid",
    "tg_relname",
    "tg_table_name",
    "tg_table_schema",
    "tg_when",
];

/// Reads the body of a trigger function.
///
/// # Errors
/// `42601` where PostgreSQL finds a syntax error, `0A000` for parts of the language that Niwaki
/// does not have.
pub fn read_body(body: &str) -> Result<Vec<BodyStatement>> {
    let mut reader = Reader { body, tokens: tokens(body)?, next: 0 };
    reader.opening()?;
    let mut statements = Vec::new();
    // Ends: each statement takes at least one token, and the end is not a statement.
    while !reader.is_word("end") {
        statements.push(reader.statement()?);
    }
    reader.closing()?;
    Ok(statements)
}

struct Reader<'b> {
    body: &'b str,
    tokens: Vec<Token>,
    next: usize,
}

impl<'b> Reader<'b> {
    /// Returns the token `ahead` of the next one; past the last token, the end.
    fn peek(&self, ahead: usize) -> (TokenKind, &'b str) {
        let at = (self.next + ahead).min(self.tokens.len().saturating_sub(1));
        match self.tokens.get(at) {
            Some(token) => (token.kind, self.body.get(token.at.clone()).unwrap_or_default()),
            None => (TokenKind::End, ""),
        }
    }

    /// Returns the start of the token `ahead`.
    fn place(&self, ahead: usize) -> usize {
        self.tokens.get(self.next + ahead).map_or(self.body.len(), |token| token.at.start)
    }

    /// Returns the looked-up form of the name in token `ahead`; `None` if the token is not a name.
    fn name(&self, ahead: usize) -> Option<String> {
        match self.peek(ahead) {
            (TokenKind::Word, text) => Some(text.to_ascii_lowercase()),
            (TokenKind::Quoted, text) => {
                let inside = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
                Some(inside.replace("\"\"", "\""))
            }
            _ => None,
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(0), (TokenKind::Word, text) if text.eq_ignore_ascii_case(word))
    }

    fn is_sign(&self, ahead: usize, sign: u8) -> bool {
        self.peek(ahead).0 == TokenKind::Sign(sign)
    }

    fn unexpected(&self, ahead: usize) -> SqlError {
        match self.peek(ahead) {
            (TokenKind::End, _) => SqlError::new("42601", "syntax error at end of input"),
            (_, text) => SqlError::new("42601", format!("syntax error at or near \"{text}\"")),
        }
    }

    fn sign(&mut self, sign: u8) -> Result<()> {
        if !self.is_sign(0, sign) {
            return Err(self.unexpected(0));
        }
        self.next += 1;
        Ok(())
    }

    /// Reads the text before the first statement.
    fn opening(&mut self) -> Result<()> {
        if self.is_sign(0, b'#') {
            return Err(refused("an option of a body"));
        }
        if self.is_sign(0, b'<') && self.is_sign(1, b'<') {
            return Err(refused("a label"));
        }
        if self.is_word("declare") {
            return Err(refused("DECLARE"));
        }
        if !self.is_word("begin") {
            return Err(self.unexpected(0));
        }
        self.next += 1;
        Ok(())
    }

    /// Reads the text after the last statement.
    fn closing(&mut self) -> Result<()> {
        self.next += 1;
        let closed = self.is_sign(0, b';');
        if closed {
            self.next += 1;
        }
        match self.peek(0).0 {
            TokenKind::End => Ok(()),
            TokenKind::Word | TokenKind::Quoted if !closed => {
                let label = self.name(0).unwrap_or_default();
                let message = format!("end label \"{label}\" specified for unlabeled block");
                Err(SqlError::new("42601", message))
            }
            _ => Err(self.unexpected(0)),
        }
    }

    fn statement(&mut self) -> Result<BodyStatement> {
        let line = self.body.get(..self.place(0)).unwrap_or_default();
        let line = line.bytes().filter(|byte| *byte == b'\n').count();
        let line = u32::try_from(line + 1).unwrap_or(u32::MAX);
        let (kind, text) = self.peek(0);
        let Some(name) = self.name(0) else {
            if self.is_sign(0, b'<') && self.is_sign(1, b'<') {
                return Err(refused("a label"));
            }
            return Err(self.unexpected(0));
        };
        let assigned =
            matches!(self.peek(1).0, TokenKind::Assign | TokenKind::Sign(b'=' | b'.' | b'['));
        let action = match name.as_str() {
            _ if assigned => self.assignment(&name, text)?,
            "return" if kind == TokenKind::Word => self.returned()?,
            "null" if kind == TokenKind::Word => {
                self.next += 1;
                self.sign(b';')?;
                BodyAction::Nothing
            }
            "exception" if kind == TokenKind::Word => return Err(refused("EXCEPTION")),
            "begin" if kind == TokenKind::Word => return Err(refused("a block inside of another")),
            word if kind == TokenKind::Word && STATEMENTS.contains(&word) => {
                return Err(refused(&format!("statement {}", word.to_uppercase())));
            }
            _ => return Err(self.unexpected(0)),
        };
        Ok(BodyStatement { line, action })
    }

    /// Reads `row.column := expression;`; `name` is the text before the point.
    fn assignment(&mut self, name: &str, text: &str) -> Result<BodyAction> {
        let start = self.place(0);
        let Some(row) = RowName::of_word(name) else {
            if VARIABLES.contains(&name) {
                return Err(refused(&format!("an assignment to {}", name.to_uppercase())));
            }
            let written = match self.name(2).filter(|_| self.is_sign(1, b'.')) {
                Some(column) => format!("{name}.{column}"),
                None => text.to_owned(),
            };
            let message = format!("\"{written}\" is not a known variable");
            return Err(SqlError::new("42601", message));
        };
        if !self.is_sign(1, b'.') {
            return Err(refused("an assignment to a whole row"));
        }
        let column = self.name(2).ok_or_else(|| self.unexpected(2))?;
        match self.peek(3).0 {
            TokenKind::Assign | TokenKind::Sign(b'=') => {}
            TokenKind::Sign(b'.' | b'[') => {
                return Err(refused("an assignment to a part of a column"));
            }
            _ => return Err(self.unexpected(3)),
        }
        self.next += 4;
        let (expression, end) = self.expression()?;
        let text = self.body.get(start..end).unwrap_or_default().trim_end().to_owned();
        Ok(BodyAction::Assign { row, column, text, expression })
    }

    /// Reads an expression up to its semicolon, and the semicolon. Returns the expression's text
    /// and the semicolon's place.
    fn expression(&mut self) -> Result<(String, usize)> {
        let start = self.place(0);
        let mut depth = 0u32;
        let first = self.next;
        // Ends: the end of the body is a token, which ends the loop.
        loop {
            match self.peek(0).0 {
                TokenKind::Sign(b'(' | b'[') => depth += 1,
                TokenKind::Sign(b')' | b']') if depth > 0 => depth -= 1,
                TokenKind::Sign(b';') if depth == 0 => break,
                TokenKind::Sign(sign @ (b')' | b']' | b';')) => {
                    let sign = char::from(sign);
                    let message = format!("mismatched parentheses at or near \"{sign}\"");
                    return Err(SqlError::new("42601", message));
                }
                TokenKind::End => return Err(self.unexpected(0)),
                _ => {}
            }
            self.next += 1;
        }
        let end = self.place(0);
        if self.next == first {
            return Err(refused("an assignment of nothing"));
        }
        self.next += 1;
        let text = self.body.get(start..end).unwrap_or_default().trim().to_owned();
        check_expression(&text)?;
        Ok((text, end))
    }

    /// Returns true if no semicolon follows.
    fn is_unfinished(&self) -> bool {
        let rest = self.tokens.get(self.next..).unwrap_or_default();
        !rest.iter().any(|token| token.kind == TokenKind::Sign(b';'))
    }

    /// Reads `RETURN row;`.
    fn returned(&mut self) -> Result<BodyAction> {
        self.next += 1;
        if self.is_sign(0, b';') {
            return Err(SqlError::new("42601", "missing expression at or near \";\""));
        }
        let name = self.name(0).filter(|_| self.is_sign(1, b';'));
        let row = match name.as_deref() {
            Some("null") if self.peek(0).0 == TokenKind::Word => None,
            Some(word) if RowName::of_word(word).is_some() => RowName::of_word(word),
            _ if self.is_unfinished() => {
                return Err(SqlError::new("42601", "syntax error at end of input"));
            }
            _ => return Err(refused("RETURN of something else than NEW, OLD or NULL")),
        };
        self.next += 2;
        Ok(BodyAction::Return(row))
    }
}

fn refused(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} in PL/pgSQL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(row: RowName, column: &str, text: &str, expression: &str) -> BodyAction {
        BodyAction::Assign {
            row,
            column: column.to_owned(),
            text: text.to_owned(),
            expression: expression.to_owned(),
        }
    }

    #[test]
    fn statements_are_read_with_their_lines() {
        let body = "\n-- sets; things\nBEGIN\n  NEW.a := coalesce(old.b, ';') || $x$;$x$ ;\n\
             /* one; /* two */ */ old.\"B c\"= E'\\';' /* ; */;\n NULL;\n Return\n New;\nEND;\n";
        let read = read_body(body).unwrap();
        let lines: Vec<u32> = read.iter().map(|statement| statement.line).collect();
        assert_eq!(lines, [4, 5, 6, 7]);
        assert_eq!(
            read[0].action,
            assign(
                RowName::New,
                "a",
                "NEW.a := coalesce(old.b, ';') || $x$;$x$",
                "coalesce(old.b, ';') || $x$;$x$"
            )
        );
        assert_eq!(
            read[1].action,
            assign(RowName::Old, "B c", "old.\"B c\"= E'\\';' /* ; */", "E'\\';' /* ; */")
        );
        assert_eq!(read[2].action, BodyAction::Nothing);
        assert_eq!(read[3].action, BodyAction::Return(Some(RowName::New)));
        assert_eq!(read_body("begin end").unwrap(), []);
        assert_eq!(read_body("begin return null; end;").unwrap().len(), 1);
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        for (body, what) in [
            ("declare x int; begin return new; end", "DECLARE in PL/pgSQL"),
            ("<<l>> begin return new; end", "a label in PL/pgSQL"),
            ("begin if new.a > 1 then return new; end if; end", "statement IF in PL/pgSQL"),
            ("begin raise notice 'x'; end", "statement RAISE in PL/pgSQL"),
            ("begin insert into t values (1); end", "statement INSERT in PL/pgSQL"),
            ("begin begin return new; end; end", "a block inside of another in PL/pgSQL"),
            (
                "begin return new; exception when others then return new; end",
                "EXCEPTION in PL/pgSQL",
            ),
            ("begin new := old; end", "an assignment to a whole row in PL/pgSQL"),
            ("begin new.a[1] := 1; end", "an assignment to a part of a column in PL/pgSQL"),
            ("begin new.a := ; end", "an assignment of nothing in PL/pgSQL"),
            ("begin tg_op := 1; end", "an assignment to TG_OP in PL/pgSQL"),
            (
                "begin return (new); end",
                "RETURN of something else than NEW, OLD or NULL in PL/pgSQL",
            ),
            ("begin new.a := (select 1); end", "a query in a PL/pgSQL expression"),
            ("begin new.a := x from t; end", "a query in a PL/pgSQL expression"),
            ("begin new.a := 1, 2; end", "a query in a PL/pgSQL expression"),
            ("begin new.a := 1 union select 2; end", "a query in a PL/pgSQL expression"),
            ("begin new.a := count(*); end", "an aggregate in a PL/pgSQL expression"),
            ("begin new.a := max(new.a); end", "an aggregate in a PL/pgSQL expression"),
            ("begin new.a := generate_series(1, 2); end", "a set of rows in a PL/pgSQL expression"),
        ] {
            let error = read_body(body).unwrap_err();
            let found = (error.sqlstate, error.message.as_str());
            assert_eq!(found, ("0A000", format!("{what} is not supported yet").as_str()), "{body}");
        }
    }

    #[test]
    fn syntax_errors_are_postgresqls() {
        for (body, message) in [
            ("", "syntax error at end of input"),
            ("begin return new;", "syntax error at end of input"),
            ("begin return", "syntax error at end of input"),
            ("begin new.a : 4; end", "syntax error at or near \":\""),
            ("begin foo.a := 4; end", "\"foo.a\" is not a known variable"),
            ("begin a := 4; end", "\"a\" is not a known variable"),
            ("begin foo bar; end", "syntax error at or near \"foo\""),
            ("begin return ; end", "missing expression at or near \";\""),
            ("begin return new end", "syntax error at end of input"),
            ("begin new.a := '1' + ; end", "syntax error at end of input"),
            ("begin new.a := 4  return new; end", "syntax error at or near \"new\""),
            ("begin new.a := (4; end", "mismatched parentheses at or near \";\""),
            ("begin new.a := 4); end", "mismatched parentheses at or near \")\""),
            ("begin new.a := 4 end", "syntax error at end of input"),
            ("begin return new; end x", "end label \"x\" specified for unlabeled block"),
            ("begin return new; end; x", "syntax error at or near \"x\""),
        ] {
            let error = read_body(body).unwrap_err();
            assert_eq!((error.sqlstate, error.message.as_str()), ("42601", message), "{body}");
        }
    }

    #[test]
    fn any_text_is_survived() {
        for seed in ["begin new.a := 'x' || $q$ y $q$; return new; end", "/* \" ' $$ -- E'\\"] {
            for end in (0..=seed.len()).filter(|end| seed.is_char_boundary(*end)) {
                let _ = read_body(&seed[..end]);
                let _ = read_body(&seed[end..]);
            }
        }
    }
}
