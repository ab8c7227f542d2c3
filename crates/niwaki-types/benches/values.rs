//! Costs of the hot paths: reading and writing a row of pgbench's accounts, keys, text, numerics.
//!
//! Run with `cargo bench -p niwaki-types`.

use std::hint::black_box;
use std::sync::Arc;

use niwaki_env::Env;
use niwaki_types::{
    ArithmeticOperator, ColumnMask, ColumnType, Datum, InputContext, KeyOrder, Numeric, RowView,
    TextSettings, TypeOid, arithmetic, compare, decode_key, encode_key, form_row, input,
    parse_int4, write_text,
};

/// Prints the best of many short rounds, because other work on the machine only adds time.
fn measure<T>(env: &Env, name: &str, mut work: impl FnMut() -> T) {
    const CALLS: u32 = 20_000;
    let mut best = f64::MAX;
    for _ in 0..100 {
        let start = env.clock.monotonic();
        for _ in 0..CALLS {
            black_box(work());
        }
        let each =
            env.clock.monotonic().checked_sub(start).unwrap().as_nanos() as f64 / f64::from(CALLS);
        best = best.min(each);
    }
    println!("{name:<52} {best:>8.1} ns");
}

fn main() {
    let env = Env::os("/tmp");
    rows(&env);
    keys(&env);
    text(&env);
    numbers(&env);
}

fn rows(env: &Env) {
    let columns = [
        ColumnType::new(TypeOid::INT4),
        ColumnType::new(TypeOid::INT4),
        ColumnType::new(TypeOid::INT4),
        ColumnType::with_typmod(TypeOid::BPCHAR, 88),
    ];
    let values =
        [Datum::Int4(123_456), Datum::Int4(1), Datum::Int4(-5_000), Datum::text(&" ".repeat(84))];
    let mut bytes = Vec::new();
    form_row(&columns, &values, &mut bytes);
    let mut out = Vec::with_capacity(256);
    measure(env, "form an accounts row", || {
        out.clear();
        form_row(&columns, black_box(&values), &mut out)
    });
    measure(env, "view, get one int4 behind two", || {
        let mut view = RowView::new(&columns, 4, false, black_box(&bytes)).expect("own row");
        view.get(2).expect("own row")
    });
    let mask: ColumnMask = [0usize, 2].into_iter().collect();
    let mut places = vec![Datum::Null; 4];
    measure(env, "view, deform two of four columns", || {
        let mut view = RowView::new(&columns, 4, false, black_box(&bytes)).expect("own row");
        view.deform_into(&mut places, &mask, &mut Vec::new()).expect("own row")
    });
    let all = ColumnMask::all(4);
    measure(env, "view, deform all, text of 84 included", || {
        let mut view = RowView::new(&columns, 4, false, black_box(&bytes)).expect("own row");
        view.deform_into(&mut places, &all, &mut Vec::new()).expect("own row")
    });
}

fn keys(env: &Env) {
    let mut out = Vec::with_capacity(64);
    let order = KeyOrder::ascending(TypeOid::INT4);
    let value = Datum::Int4(123_456);
    measure(env, "encode an int4 key", || {
        out.clear();
        encode_key(black_box(&value), order, &mut out);
    });
    let bytes = out.clone();
    measure(env, "decode an int4 key", || decode_key(black_box(&bytes), order).expect("own key"));
    let text = Datum::text("customer-000123456");
    let order = KeyOrder::ascending(TypeOid::TEXT);
    measure(env, "encode a text key of 18", || {
        out.clear();
        encode_key(black_box(&text), order, &mut out);
    });
    let number = Datum::Numeric(Arc::new(Numeric::new(1_234_567, 2)));
    let order = KeyOrder::ascending(TypeOid::NUMERIC);
    measure(env, "encode a numeric key of 7 digits", || {
        out.clear();
        encode_key(black_box(&number), order, &mut out);
    });
    let other = Datum::Int4(123_457);
    measure(env, "compare int4", || compare(TypeOid::INT4, black_box(&value), black_box(&other)));
}

fn text(env: &Env) {
    let settings = TextSettings::default();
    let context = InputContext { settings: &settings, now: 0 };
    let mut out = Vec::with_capacity(64);
    measure(env, "int4 from text", || parse_int4(black_box("123456")).expect("a number"));
    let values = [
        ("int4 to text", TypeOid::INT4, Datum::Int4(-123_456)),
        ("float8 to text", TypeOid::FLOAT8, Datum::Float8(1234.5678)),
        ("numeric to text", TypeOid::NUMERIC, Datum::Numeric(Arc::new(Numeric::new(1_234_567, 2)))),
        ("timestamptz to text", TypeOid::TIMESTAMPTZ, Datum::TimestampTz(840_000_000_123_456)),
    ];
    for (name, oid, value) in values {
        measure(env, name, || {
            out.clear();
            write_text(black_box(&value), oid, &settings, &mut out);
        });
    }
    let kind = ColumnType::new(TypeOid::TIMESTAMP);
    measure(env, "timestamp from text", || {
        input(kind, black_box("2026-08-15 12:34:56.789"), &context).expect("a timestamp")
    });
    let mut berlin = TextSettings::default();
    berlin.set_time_zone("Europe/Berlin").expect("a zone");
    let value = Datum::TimestampTz(840_000_000_123_456);
    measure(env, "timestamptz to text in Berlin", || {
        out.clear();
        write_text(black_box(&value), TypeOid::TIMESTAMPTZ, &berlin, &mut out);
    });
}

fn numbers(env: &Env) {
    let (a, b) = (Numeric::new(1_234_567, 2), Numeric::new(98_765, 3));
    measure(env, "numeric add", || black_box(&a).add(black_box(&b)).expect("small"));
    measure(env, "numeric multiply", || black_box(&a).mul(black_box(&b)).expect("small"));
    measure(env, "numeric divide", || black_box(&a).div(black_box(&b)).expect("small"));
    measure(env, "numeric compare", || black_box(&a).cmp(black_box(&b)));
    let (x, y) = (Datum::Int4(7), Datum::Int4(-3));
    measure(env, "int4 add, checked", || {
        arithmetic(ArithmeticOperator::Add, black_box(&x), black_box(&y)).expect("fits")
    });
}
