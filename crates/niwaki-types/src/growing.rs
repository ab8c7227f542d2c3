//! Values while they are built: their memory is charged before it is taken, and counted as work.
//!
//! A function of a few bytes can ask for a value of terabytes (`replace`), or double a value row by
//! row. No value is longer than [`VALUE_BYTES_MAX`], so a longer one is refused before its memory
//! is asked for.

use crate::error::Result;
use crate::value::datum::Datum;
use crate::work::charge::ask_for;

pub use crate::value::array::charge_elements;
pub use crate::value::datum::{elements_bytes, value_bytes};
pub use crate::work::charge::{
    Charge, TEXT_BYTES_MAX, VALUE_BYTES_MAX, ask_to_grow, charge_more, charge_parts, charge_whole,
};

/// A text that is being built.
#[derive(Debug, Default)]
pub struct GrowingText {
    text: String,
}

impl GrowingText {
    /// Makes an empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Charges `more` bytes before they are appended.
    #[inline]
    fn charge(&self, more: usize) -> Result<()> {
        Charge { bytes: self.text.len() }.add(more)?;
        ask_to_grow(self.text.capacity(), self.text.len(), more)
    }

    /// Returns the text built so far.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Appends a part.
    ///
    /// # Errors
    /// As [`Charge::add`].
    #[inline]
    pub fn push_str(&mut self, part: &str) -> Result<()> {
        self.charge(part.len())?;
        self.text.push_str(part);
        Ok(())
    }

    /// Appends a character.
    ///
    /// # Errors
    /// As [`Charge::add`].
    #[inline]
    pub fn push(&mut self, character: char) -> Result<()> {
        self.charge(character.len_utf8())?;
        self.text.push(character);
        Ok(())
    }

    /// Appends a character `times` times.
    ///
    /// # Errors
    /// As [`Charge::add`].
    pub fn push_times(&mut self, character: char, times: usize) -> Result<()> {
        let more = times.saturating_mul(character.len_utf8());
        self.charge(more)?;
        self.text.extend(std::iter::repeat_n(character, times));
        Ok(())
    }

    /// Appends characters, which are charged in lots.
    ///
    /// # Errors
    /// As [`Charge::add`].
    pub fn extend(&mut self, characters: impl Iterator<Item = char>) -> Result<()> {
        /// Bytes of characters that are charged together.
        const LOT_BYTES: usize = 4096;
        let mut charged = self.text.len();
        for character in characters {
            self.text.push(character);
            if self.text.len().saturating_sub(charged) >= LOT_BYTES {
                Charge { bytes: charged }.add(self.text.len().saturating_sub(charged))?;
                charged = self.text.len();
                // Room for the next lot, and for the character that overshoots it.
                ask_to_grow(self.text.capacity(), charged, LOT_BYTES.saturating_add(4))?;
            }
        }
        Charge { bytes: charged }.add(self.text.len().saturating_sub(charged))
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.text
    }

    /// Returns a copy as a value.
    ///
    /// # Errors
    /// `53200` where there is no memory for both.
    pub fn finish(self) -> Result<Datum> {
        ask_for(self.text.len())?;
        Ok(Datum::Text(self.text.into()))
    }
}

/// The elements of an array that is being built.
#[derive(Debug, Default)]
pub struct GrowingArray {
    values: Vec<Datum>,
    charge: Charge,
}

impl GrowingArray {
    /// Makes an empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an element of `bytes` bytes beside its place.
    ///
    /// # Errors
    /// As [`charge_elements`].
    #[inline]
    pub fn push(&mut self, value: Datum, bytes: usize) -> Result<()> {
        charge_elements(&mut self.charge, 1, bytes)?;
        let place = size_of::<Datum>();
        let [capacity, length] = [self.values.capacity(), self.values.len()];
        ask_to_grow(capacity.saturating_mul(place), length.saturating_mul(place), place)?;
        self.values.push(value);
        Ok(())
    }

    /// Returns the elements.
    pub fn into_values(self) -> Vec<Datum> {
        self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_refused_before_it_is_built() {
        let mut charge = Charge::default();
        charge.add(TEXT_BYTES_MAX).expect("fits");
        let refused = charge.add(1).expect_err("a byte too many");
        assert_eq!(refused.sqlstate, "54000");
        assert!(refused.detail.is_some_and(|detail| detail.contains("by 1 more bytes")));
        // Refused bytes are not charged.
        charge.add(0).expect("as before");
        assert!(charge_whole(TEXT_BYTES_MAX).is_ok());
        assert!(charge_whole(usize::MAX).is_err());
        let mut text = GrowingText::new();
        assert!(text.push_times('x', TEXT_BYTES_MAX + 1).is_err());
        assert!(text.push_times('é', TEXT_BYTES_MAX).is_err());
        text.extend("né".chars()).expect("fits");
        text.push('!').expect("fits");
        assert_eq!(text.into_string(), "né!");
        let mut elements = Charge::default();
        assert!(charge_elements(&mut elements, 1 << 40, 0).is_err());
        assert!(charge_elements(&mut elements, 3, VALUE_BYTES_MAX).is_err());
        charge_elements(&mut elements, 3, 10).expect("fits");
    }
}
