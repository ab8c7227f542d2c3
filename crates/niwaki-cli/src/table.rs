//! Results as an aligned table, in psql's layout.

use std::fmt;

/// A result whose rows are being collected.
pub(crate) struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(names: impl Iterator<Item = String>) -> Self {
        Self { names: names.collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, values: impl Iterator<Item = String>) {
        self.rows.push(values.collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: &String| text.chars().count();
        let mut widths: Vec<usize> = self.names.iter().map(width).collect();
        for row in &self.rows {
            for (known, value) in widths.iter_mut().zip(row) {
                *known = (*known).max(width(value));
            }
        }
        let line = |f: &mut fmt::Formatter<'_>, values: &[String]| {
            for (i, (value, width)) in values.iter().zip(&widths).enumerate() {
                if i > 0 {
                    f.write_str("|")?;
                }
                write!(f, " {value:<width$} ")?;
            }
            f.write_str("\n")
        };
        line(f, &self.names)?;
        for (i, width) in widths.iter().enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            f.write_str(&"-".repeat(width + 2))?;
        }
        f.write_str("\n")?;
        for row in &self.rows {
            line(f, row)?;
        }
        writeln!(f, "({} row{})", self.rows.len(), if self.rows.len() == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_value() {
        let mut table = Table::new(["a", "name"].map(str::to_owned).into_iter());
        table.row(["1", "x"].map(str::to_owned).into_iter());
        table.row(["1000", "äö"].map(str::to_owned).into_iter());
        let expected = " a    | name \n------+------\n 1    | x    \n 1000 | äö   \n(2 rows)\n";
        assert_eq!(table.to_string(), expected);
    }
}
