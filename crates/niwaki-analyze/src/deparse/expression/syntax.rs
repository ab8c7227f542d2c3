//! Writes calls of functions for which SQL has a special syntax.

use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_types::{Datum, TypeOid, quote_identifier};

use super::{Parent, Writer};

impl Writer<'_, '_> {
    /// Writes a call of the function `name` in its special syntax. Some functions always use it,
    /// the others only where the user had `written` the call so.
    pub(super) fn own_syntax(
        &self,
        name: &str,
        arguments: &[Expr],
        written: bool,
    ) -> Option<String> {
        let plain = |expr: &Expr| self.show(expr, Parent::None);
        match (name, arguments) {
            ("extract", [Expr { kind: ExprKind::Const(Datum::Text(field)), .. }, from]) => {
                Some(format!("EXTRACT({} FROM {})", quote_identifier(field), plain(from)))
            }
            ("position", [within, what]) => {
                Some(format!("POSITION(({}) IN ({}))", plain(what), plain(within)))
            }
            _ if !written => None,
            ("timezone", [zone, time]) => {
                let (time, zone) = (self.show(time, Parent::Tight), self.show(zone, Parent::Tight));
                Some(format!("({time} AT TIME ZONE {zone})"))
            }
            ("overlaps", [a, b, c, d]) => Some(format!(
                "(({}, {}) OVERLAPS ({}, {}))",
                plain(a),
                plain(b),
                plain(c),
                plain(d)
            )),
            ("overlay", [within, by, from, length @ ..]) => {
                let begin =
                    format!("OVERLAY({} PLACING {} FROM {}", plain(within), plain(by), plain(from));
                Some(self.with_length(begin, length))
            }
            ("substring", [of, pattern, escape]) if pattern.ty != TypeOid::INT4 => Some(format!(
                "SUBSTRING({} SIMILAR {} ESCAPE {})",
                plain(of),
                plain(pattern),
                plain(escape)
            )),
            ("substring", [of, from, length @ ..]) if from.ty == TypeOid::INT4 => {
                let begin = format!("SUBSTRING({} FROM {}", plain(of), plain(from));
                Some(self.with_length(begin, length))
            }
            ("btrim" | "ltrim" | "rtrim", [of, what @ ..]) => {
                let side = match name {
                    "btrim" => "BOTH",
                    "ltrim" => "LEADING",
                    _ => "TRAILING",
                };
                let what =
                    what.first().map_or_else(String::new, |what| format!(" {}", plain(what)));
                Some(format!("TRIM({side}{what} FROM {})", plain(of)))
            }
            ("normalize", [of]) => Some(format!("NORMALIZE({})", plain(of))),
            ("normalize", [of, Expr { kind: ExprKind::Const(Datum::Text(form)), .. }]) => {
                Some(format!("NORMALIZE({}, {form})", plain(of)))
            }
            ("is_normalized", [of]) => {
                Some(format!("({} IS NORMALIZED)", self.show(of, Parent::Tight)))
            }
            ("is_normalized", [of, Expr { kind: ExprKind::Const(Datum::Text(form)), .. }]) => {
                Some(format!("({} IS {form} NORMALIZED)", self.show(of, Parent::Tight)))
            }
            _ => None,
        }
    }

    /// Closes a call that takes a length, with FOR if there is one.
    fn with_length(&self, begin: String, length: &[Expr]) -> String {
        match length.first() {
            Some(length) => format!("{begin} FOR {})", self.show(length, Parent::None)),
            None => begin + ")",
        }
    }
}
