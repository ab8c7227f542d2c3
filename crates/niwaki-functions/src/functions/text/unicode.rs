//! Functions on character encodings, Unicode escapes and normal forms.

use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, invalid_utf8};
use unicode_normalization::UnicodeNormalization;

use crate::functions::text::strings::{string, text};
use crate::functions::{Function, functions};

fn wrong() -> SqlError {
    SqlError::internal("a function of encodings was given values of other types")
}

fn bytes(value: &Datum) -> Result<&[u8]> {
    match value {
        Datum::Bytea(bytes) => Ok(bytes),
        _ => Err(wrong()),
    }
}

/// An encoding that Niwaki can read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// Bytes of no known meaning.
    SqlAscii,
    Utf8,
    Latin1,
}

/// PostgreSQL's names of encodings; the index is PostgreSQL's number.
const NAMES: [&str; 42] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
    "SJIS",
    "BIG5",
    "GBK",
    "UHC",
    "GB18030",
    "JOHAB",
    "SHIFT_JIS_2004",
];

/// Other names of encodings, in the compared form: letters and digits, in lower case.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("unicode", "UTF8"),
    ("iso88591", "LATIN1"),
    ("iso88592", "LATIN2"),
    ("iso88593", "LATIN3"),
    ("iso88594", "LATIN4"),
    ("iso88599", "LATIN5"),
    ("iso885910", "LATIN6"),
    ("iso885913", "LATIN7"),
    ("iso885914", "LATIN8"),
    ("iso885915", "LATIN9"),
    ("iso885916", "LATIN10"),
    ("koi8", "KOI8R"),
    ("abc", "WIN1258"),
    ("alt", "WIN866"),
    ("tcvn", "WIN1258"),
    ("tcvn5712", "WIN1258"),
    ("vscii", "WIN1258"),
    ("win", "WIN1251"),
    ("mskanji", "SJIS"),
    ("shiftjis", "SJIS"),
    ("win932", "SJIS"),
    ("windows932", "SJIS"),
    ("win936", "GBK"),
    ("windows936", "GBK"),
    ("win949", "UHC"),
    ("windows949", "UHC"),
    ("win950", "BIG5"),
    ("windows950", "BIG5"),
    ("windows866", "WIN866"),
    ("windows874", "WIN874"),
    ("windows1250", "WIN1250"),
    ("windows1251", "WIN1251"),
    ("windows1252", "WIN1252"),
    ("windows1253", "WIN1253"),
    ("windows1254", "WIN1254"),
    ("windows1255", "WIN1255"),
    ("windows1256", "WIN1256"),
    ("windows1257", "WIN1257"),
    ("windows1258", "WIN1258"),
];

/// Returns the number of an encoding by any of its names.
fn number_of(name: &str) -> Option<usize> {
    let plain = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let wanted = plain(name);
    let wanted = match OTHER_NAMES.iter().find(|(other, _)| *other == wanted) {
        Some((_, name)) => plain(name),
        None => wanted,
    };
    NAMES.iter().position(|name| plain(name) == wanted)
}

/// Returns the encoding of this name. `which` distinguishes the source and the destination of a
/// conversion in error messages.
fn encoding(name: &Datum, which: &str) -> Result<Encoding> {
    let name = text(name)?;
    match number_of(name).and_then(|number| NAMES.get(number)) {
        Some(&"SQL_ASCII") => Ok(Encoding::SqlAscii),
        Some(&"UTF8") => Ok(Encoding::Utf8),
        Some(&"LATIN1") => Ok(Encoding::Latin1),
        Some(other) => Err(SqlError::unsupported(format!("encoding {other}"))),
        None => Err(SqlError::new("22023", format!("invalid {which}encoding name \"{name}\""))),
    }
}

/// Formats bytes as error messages show them.
fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// Returns the error for bytes that are not valid in an encoding.
fn invalid_sequence(encoding: &str, bytes: &[u8]) -> SqlError {
    SqlError::new(
        "22021",
        format!("invalid byte sequence for encoding \"{encoding}\": {}", shown(bytes)),
    )
}

/// Checks for UTF-8 without NUL.
fn checked(bytes: &[u8]) -> Result<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Err(invalid_utf8(bytes, error.valid_up_to()).into()),
    };
    match memchr::memchr(0, bytes) {
        Some(at) => Err(invalid_utf8(bytes, at).into()),
        None => Ok(text),
    }
}

/// Decodes bytes of an encoding.
fn read(bytes: &[u8], encoding: Encoding) -> Result<String> {
    match encoding {
        Encoding::Latin1 => match memchr::memchr(0, bytes) {
            Some(_) => Err(invalid_sequence("LATIN1", &[0])),
            None => Ok(bytes.iter().copied().map(char::from).collect()),
        },
        Encoding::Utf8 | Encoding::SqlAscii => checked(bytes).map(str::to_owned),
    }
}

/// Encodes text as bytes of an encoding.
fn write(text: &str, encoding: Encoding) -> Result<Vec<u8>> {
    if encoding != Encoding::Latin1 {
        return Ok(text.as_bytes().to_vec());
    }
    let byte = |c: char| {
        u8::try_from(u32::from(c)).map_err(|_| {
            let sequence = shown(c.encode_utf8(&mut [0; 4]).as_bytes());
            SqlError::new(
                "22P05",
                format!(
                    "character with byte sequence {sequence} in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\""
                ),
            )
        })
    };
    text.chars().map(byte).collect()
}

fn convert_from(value: &Datum, name: &Datum) -> Result<Datum> {
    Ok(string(read(bytes(value)?, encoding(name, "source ")?)?))
}

fn convert_to(value: &Datum, name: &Datum) -> Result<Datum> {
    let encoding = encoding(name, "destination ")?;
    Ok(Datum::Bytea(write(text(value)?, encoding)?.into()))
}

fn convert(values: &[Datum]) -> Result<Datum> {
    let [value, source, destination] = values else { return Err(wrong()) };
    let (source, destination) =
        (encoding(source, "source ")?, encoding(destination, "destination ")?);
    let value = bytes(value)?;
    // SQL_ASCII has no meaning, so nothing is converted; the result must be valid, though.
    let converted = match (source, destination) {
        (_, Encoding::SqlAscii) if source == Encoding::SqlAscii => value.to_vec(),
        (Encoding::SqlAscii, Encoding::Latin1) | (Encoding::Latin1, Encoding::SqlAscii) => {
            read(value, Encoding::Latin1)?;
            value.to_vec()
        }
        _ => write(&read(value, source)?, destination)?,
    };
    Ok(Datum::Bytea(converted.into()))
}

/// `length(bytea, encoding)`: counts characters.
fn length_in(value: &Datum, name: &Datum) -> Result<Datum> {
    let value = bytes(value)?;
    let length = match encoding(name, "")? {
        Encoding::SqlAscii => value.len(),
        encoding => read(value, encoding)?.chars().count(),
    };
    i32::try_from(length)
        .map(Datum::Int4)
        .map_err(|_| crate::functions::number::operators::range("integer"))
}

fn encoding_to_char(value: &Datum) -> Result<Datum> {
    let Datum::Int4(number) = value else { return Err(wrong()) };
    let name = usize::try_from(*number).ok().and_then(|number| NAMES.get(number));
    Ok(Datum::text(name.copied().unwrap_or_default()))
}

fn char_to_encoding(value: &Datum) -> Result<Datum> {
    let number = number_of(text(value)?).and_then(|number| i32::try_from(number).ok());
    Ok(Datum::Int4(number.unwrap_or(-1)))
}

/// Returns the bytes of the longest character; NULL for an unknown encoding.
fn encoding_max_length(value: &Datum) -> Result<Datum> {
    let Datum::Int4(number) = value else { return Err(wrong()) };
    let name = usize::try_from(*number).ok().and_then(|number| NAMES.get(number));
    Ok(name.map_or(Datum::Null, |name| {
        Datum::Int4(match *name {
            "UTF8" | "EUC_TW" | "MULE_INTERNAL" | "GB18030" => 4,
            "EUC_JP" | "EUC_CN" | "EUC_KR" | "EUC_JIS_2004" | "JOHAB" => 3,
            "SJIS" | "BIG5" | "GBK" | "UHC" | "SHIFT_JIS_2004" => 2,
            _ => 1,
        })
    }))
}

fn client_encoding(exec: &mut ExecContext<'_>, _: &[Datum]) -> Result<Datum> {
    Ok(string(exec.environment.setting("client_encoding").unwrap_or_else(|| "UTF8".to_owned())))
}

fn database_encoding(_: &[Datum]) -> Result<Datum> {
    Ok(Datum::text("UTF8"))
}

/// Reads a code of `count` hexadecimal digits, and returns the rest.
fn code(text: &str, count: usize) -> Option<(u32, &str)> {
    let digits = text.get(..count)?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    Some((u32::from_str_radix(digits, 16).ok()?, text.get(count..)?))
}

/// Reads the code of an escape after its backslash, and returns the rest.
fn escape(rest: &str) -> Option<(u32, &str)> {
    match rest.chars().next()? {
        '+' => code(rest.get(1..)?, 6),
        'u' => code(rest.get(1..)?, 4),
        'U' => code(rest.get(1..)?, 8),
        _ => code(rest, 4),
    }
}

/// `unistr(text)`: `\XXXX`, `\+XXXXXX`, `\uXXXX` and `\UXXXXXXXX` stand for characters.
fn unistr(value: &Datum) -> Result<Datum> {
    let invalid = |what: &str| SqlError::new("42601", format!("invalid Unicode {what}"));
    let mut result = String::new();
    let mut rest = text(value)?;
    // The first half of a surrogate pair.
    let mut high: Option<u32> = None;
    while let Some(next) = rest.chars().next() {
        let behind = rest.get(next.len_utf8()..).unwrap_or_default();
        if next != '\\' || behind.starts_with('\\') {
            if high.is_some() {
                return Err(invalid("surrogate pair"));
            }
            result.push(next);
            rest = if next == '\\' { behind.get(1..).unwrap_or_default() } else { behind };
            continue;
        }
        let (code, behind) = escape(behind).ok_or_else(|| {
            invalid("escape")
                .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
        })?;
        rest = behind;
        let code = match (high.take(), code) {
            (Some(high), 0xdc00..=0xdfff) => 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00),
            (Some(_), _) | (None, 0xdc00..=0xdfff) => return Err(invalid("surrogate pair")),
            (None, 0xd800..=0xdbff) => {
                high = Some(code);
                continue;
            }
            (None, code) => code,
        };
        let character = char::from_u32(code).filter(|c| *c != '\0');
        result.push(character.ok_or_else(|| {
            SqlError::new("22023", format!("invalid Unicode code point: {code:04X}"))
        })?);
    }
    if high.is_some() {
        return Err(invalid("surrogate pair"));
    }
    Ok(string(result))
}

/// Returns a text in the normal form of this name.
fn normal_form(text: &str, form: &str) -> Result<String> {
    Ok(match form.to_ascii_uppercase().as_str() {
        "NFC" => text.nfc().collect(),
        "NFD" => text.nfd().collect(),
        "NFKC" => text.nfkc().collect(),
        "NFKD" => text.nfkd().collect(),
        _ => {
            return Err(SqlError::new("22023", format!("invalid normalization form: {form}")));
        }
    })
}

fn normalize(value: &Datum, form: &Datum) -> Result<Datum> {
    Ok(string(normal_form(text(value)?, text(form)?)?))
}

fn normalize_to_c(value: &Datum) -> Result<Datum> {
    normalize(value, &Datum::text("NFC"))
}

fn is_normalized(value: &Datum, form: &Datum) -> Result<Datum> {
    let value = text(value)?;
    Ok(Datum::Bool(normal_form(value, text(form)?)? == value))
}

fn is_normalized_c(value: &Datum) -> Result<Datum> {
    is_normalized(value, &Datum::text("NFC"))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "convert_from" (BYTEA, NAME) TEXT strict single stable Binary(convert_from);
    "convert_to" (TEXT, NAME) BYTEA strict single stable Binary(convert_to);
    "convert" (BYTEA, NAME, NAME) BYTEA strict single stable Pure(convert);
    "length" (BYTEA, NAME) INT4 strict single stable Binary(length_in);
    "pg_encoding_to_char" (INT4) NAME strict single stable Unary(encoding_to_char);
    "pg_encoding_max_length" (INT4) INT4 strict single immutable Unary(encoding_max_length);
    "pg_char_to_encoding" (NAME) INT4 strict single stable Unary(char_to_encoding);
    "pg_client_encoding" () NAME strict single stable Context(client_encoding);
    "getdatabaseencoding" () NAME strict single stable Pure(database_encoding);
    "unistr" (TEXT) TEXT strict single immutable Unary(unistr);
    "normalize" (TEXT) TEXT strict single immutable Unary(normalize_to_c);
    "normalize" (TEXT, TEXT) TEXT strict single immutable Binary(normalize);
    "is_normalized" (TEXT) BOOL strict single immutable Unary(is_normalized_c);
    "is_normalized" (TEXT, TEXT) BOOL strict single immutable Binary(is_normalized);
};
