//! `numeric` as bytes: the wire format, the stored form, and the decimal digits of an index key.
#![deny(clippy::indexing_slicing)]

use num_bigint::{BigInt, BigUint, Sign};

use super::{Numeric, Repr, SCALE_MAX, big_power, small_power};
use crate::error::{Result, TypeError};

const WIRE_POSITIVE: u16 = 0x0000;
const WIRE_NEGATIVE: u16 = 0x4000;
const WIRE_NAN: u16 = 0xC000;
const WIRE_INFINITY: u16 = 0xD000;
const WIRE_NEGATIVE_INFINITY: u16 = 0xF000;

/// First byte of the stored form: the sign …
const STORED_NEGATIVE: u8 = 0x80;
/// … and the scale, if it is at most this, or one of the codes below.
const STORED_SCALE_SHORT_MAX: u8 = 60;
const STORED_SCALE_LONG: u8 = 61;
const STORED_INFINITY: u8 = 62;
const STORED_NAN: u8 = 63;

impl Numeric {
    /// Calls `use_digits` with the decimal digits of the coefficient without sign as ASCII; none
    /// for zero.
    pub(crate) fn with_decimal_digits<T>(&self, use_digits: impl FnOnce(&[u8]) -> T) -> T {
        match &self.0 {
            Repr::Small(0, _) => use_digits(b""),
            Repr::Small(value, _) => {
                use_digits(itoa::Buffer::new().format(value.unsigned_abs()).as_bytes())
            }
            Repr::Big(value, _) => use_digits(value.magnitude().to_str_radix(10).as_bytes()),
            _ => use_digits(b""),
        }
    }

    /// Appends PostgreSQL's binary wire format: count of base-10000 digits, weight of the first,
    /// sign, display scale, digits; all of them 16-bit, big-endian.
    pub fn write_wire(&self, out: &mut Vec<u8>) {
        let sign = match &self.0 {
            Repr::NaN => WIRE_NAN,
            Repr::Infinity => WIRE_INFINITY,
            Repr::NegativeInfinity => WIRE_NEGATIVE_INFINITY,
            _ if self.is_negative() => WIRE_NEGATIVE,
            _ => WIRE_POSITIVE,
        };
        // PostgreSQL's infinities carry this scale, a by-product of how it packs its header.
        let scale = if self.is_infinite() { 0x20 } else { self.scale() };
        self.with_decimal_digits(|decimal| {
            let start = out.len();
            for field in [0, 0, sign, scale] {
                out.extend_from_slice(&field.to_be_bytes());
            }
            let Some(exponent) = self.leading_exponent() else { return };
            let weight = exponent.div_euclid(4);
            // The first group holds 1 to 4 digits, as the decimal point falls between groups.
            let mut first = exponent.rem_euclid(4) as usize + 1;
            let mut rest = decimal;
            let mut count = 0u16;
            let mut kept = out.len();
            let mut kept_count = 0;
            while !rest.is_empty() {
                let (group, tail) = rest.split_at(first.min(rest.len()));
                let digit = group.iter().fold(0u16, |digit, &c| digit * 10 + u16::from(c - b'0'));
                let digit = digit * 10u16.pow((first - group.len()) as u32);
                out.extend_from_slice(&digit.to_be_bytes());
                count += 1;
                if digit != 0 {
                    kept = out.len();
                    kept_count = count;
                }
                rest = tail;
                first = 4;
            }
            // Trailing zero groups are not sent.
            out.truncate(kept);
            let weight = weight as i16;
            for (place, byte) in out
                .iter_mut()
                .skip(start)
                .zip(kept_count.to_be_bytes().into_iter().chain(weight.to_be_bytes()))
            {
                *place = byte;
            }
        });
    }

    /// Reads the binary wire format. Digits beyond the display scale are cut off.
    ///
    /// # Errors
    /// `22P03` when the bytes are not a numeric, `22003` when there are too many digits.
    pub fn from_wire(bytes: &[u8]) -> Result<Self> {
        let short = || TypeError::new("08P01", "insufficient data left in message");
        let (header, digits) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let [c0, c1, w0, w1, s0, s1, d0, d1] = *header;
        let count = usize::from(u16::from_be_bytes([c0, c1]));
        let weight = i16::from_be_bytes([w0, w1]);
        let sign = u16::from_be_bytes([s0, s1]);
        let scale = u16::from_be_bytes([d0, d1]);
        let invalid = |what: &str| {
            TypeError::invalid_binary(format!("invalid {what} in external \"numeric\" value"))
        };
        if digits.len() < count * 2 {
            return Err(short());
        }
        if digits.len() > count * 2 {
            return Err(crate::error::left_over());
        }
        match sign {
            WIRE_POSITIVE | WIRE_NEGATIVE => {}
            WIRE_NAN => return Ok(Self::NAN),
            WIRE_INFINITY => return Ok(Self::INFINITY),
            WIRE_NEGATIVE_INFINITY => return Ok(Self::NEGATIVE_INFINITY),
            _ => return Err(invalid("sign")),
        }
        if u32::from(scale) > SCALE_MAX {
            return Err(invalid("scale"));
        }
        let mut small = Some(0i128);
        // Base-100 digits, the form from which the big integer is built.
        let mut hundreds = Vec::new();
        if count > 8 {
            hundreds.reserve_exact(count * 2);
        }
        for digit in digits.chunks_exact(2) {
            let digit = match *digit {
                [high, low] => u16::from_be_bytes([high, low]),
                _ => 0,
            };
            if digit >= 10_000 {
                return Err(invalid("digit"));
            }
            small = small
                .and_then(|value| value.checked_mul(10_000))
                .and_then(|value| value.checked_add(digit.into()));
            if count > 8 {
                hundreds.push((digit / 100) as u8);
                hundreds.push((digit % 100) as u8);
            }
        }
        // The digits are an integer times ten to this power, counted at the display scale.
        let shift = (i32::from(weight) - count as i32 + 1) * 4 + i32::from(scale);
        let power = shift.unsigned_abs();
        let negative = sign == WIRE_NEGATIVE;
        if let Some(value) = small {
            let value = if shift >= 0 {
                small_power(power).and_then(|factor| value.checked_mul(factor))
            } else {
                Some(small_power(power).map_or(0, |divisor| value / divisor))
            };
            if small == Some(0) {
                return Ok(Self(Repr::Small(0, scale)));
            }
            if let Some(value) = value {
                return Ok(Self(Repr::Small(if negative { -value } else { value }, scale)));
            }
        }
        let magnitude = match small {
            Some(value) => BigInt::from(value),
            None => BigUint::from_radix_be(&hundreds, 100).unwrap_or_default().into(),
        };
        let value =
            if shift >= 0 { magnitude * big_power(power) } else { magnitude / big_power(power) };
        Self::from_parts(if negative { -value } else { value }, scale.into())
    }

    /// Appends the stored form. One byte holds sign and scale (or a special value), followed by the
    /// scale as little-endian `u16` if that byte cannot hold it. Then follows the magnitude of the
    /// coefficient, little-endian, without leading zero bytes.
    pub fn write_stored(&self, out: &mut Vec<u8>) {
        let head = |negative: bool, scale: u16, out: &mut Vec<u8>| {
            let sign = if negative { STORED_NEGATIVE } else { 0 };
            match u8::try_from(scale) {
                Ok(short) if short <= STORED_SCALE_SHORT_MAX => out.push(sign | short),
                _ => {
                    out.push(sign | STORED_SCALE_LONG);
                    out.extend_from_slice(&scale.to_le_bytes());
                }
            }
        };
        match &self.0 {
            Repr::Small(value, scale) => {
                head(*value < 0, *scale, out);
                let magnitude = value.unsigned_abs();
                let length = (128 - magnitude.leading_zeros()).div_ceil(8) as usize;
                out.extend(magnitude.to_le_bytes().iter().take(length));
            }
            Repr::Big(value, scale) => {
                head(value.sign() == Sign::Minus, *scale, out);
                out.extend_from_slice(&value.magnitude().to_bytes_le());
            }
            Repr::NaN => out.push(STORED_NAN),
            Repr::Infinity => out.push(STORED_INFINITY),
            Repr::NegativeInfinity => out.push(STORED_NEGATIVE | STORED_INFINITY),
        }
    }

    /// Reads the stored form, which fills `bytes`.
    ///
    /// # Errors
    /// `XX001` when the bytes are not in the form of [`Numeric::write_stored`].
    pub fn from_stored(bytes: &[u8]) -> Result<Self> {
        let corrupt = |what: &str| TypeError::corrupt(format!("stored numeric {what}"));
        let (&head, rest) = bytes.split_first().ok_or_else(|| corrupt("is empty"))?;
        let negative = head & STORED_NEGATIVE != 0;
        let (scale, magnitude) = match head & !STORED_NEGATIVE {
            STORED_SCALE_LONG => {
                let (scale, magnitude) =
                    rest.split_first_chunk::<2>().ok_or_else(|| corrupt("ends in its scale"))?;
                (u16::from_le_bytes(*scale), magnitude)
            }
            STORED_INFINITY if rest.is_empty() => {
                return Ok(if negative { Self::NEGATIVE_INFINITY } else { Self::INFINITY });
            }
            STORED_NAN if rest.is_empty() && !negative => return Ok(Self::NAN),
            short if short <= STORED_SCALE_SHORT_MAX => (short.into(), rest),
            other => return Err(corrupt(&format!("has the unknown form {other}"))),
        };
        if u32::from(scale) > SCALE_MAX || magnitude.last() == Some(&0) {
            return Err(corrupt("is not in its shortest form"));
        }
        if magnitude.len() <= 16 {
            let mut wide = [0u8; 16];
            for (place, byte) in wide.iter_mut().zip(magnitude) {
                *place = *byte;
            }
            if let Ok(value) = i128::try_from(u128::from_le_bytes(wide)) {
                return Ok(Self(Repr::Small(if negative { -value } else { value }, scale)));
            }
        }
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        Self::within_limits(BigInt::from_bytes_le(sign, magnitude), scale.into())
            .map_err(|_| corrupt("has too many digits"))
    }
}
