use proptest::prelude::*;

use super::*;
use crate::TextSettings;

fn shown(micros: i64, zone: &TimeZone) -> String {
    let mut out = Vec::new();
    let settings = TextSettings { zone: zone.clone(), ..TextSettings::default() };
    write_timestamptz(micros, &settings, &mut out);
    String::from_utf8(out).expect("ASCII")
}

#[test]
fn zones_are_those_of_postgresql() {
    let july = days_from_civil(2020, 7, 1) * MICROS_PER_DAY + MICROS_PER_DAY / 2;
    let january = days_from_civil(2020, 1, 1) * MICROS_PER_DAY + MICROS_PER_DAY / 2;
    let mut count = 0;
    for line in include_str!("../../testdata/zones.tsv").lines() {
        if line.starts_with('#') {
            continue;
        }
        let [given, name, summer, winter] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a line of four fields: {line}");
        };
        count += 1;
        match TimeZone::get(given) {
            Ok(zone) => {
                assert_eq!(zone.name(), name, "{given}");
                assert_eq!(shown(july, &zone), summer, "{given}");
                assert_eq!(shown(january, &zone), winter, "{given}");
                // The name is kept as a setting and read again.
                let again = TimeZone::get(zone.name()).expect("an own name");
                assert_eq!(shown(july, &again), summer, "{given}");
            }
            Err(error) => {
                assert_eq!(name, "!", "{given}: {error}");
                assert_eq!(error.sqlstate, "22023");
            }
        }
    }
    assert!(count > 30, "the data file is there");
}

#[test]
fn abbreviations_are_for_at_time_zone_only() {
    assert!(TimeZone::get("PDT").is_err());
    let zone = TimeZone::get_or_abbreviation("pdt").expect("an abbreviation");
    assert_eq!(shown(0, &zone), "1999-12-31 17:00:00-07");
    let zone = TimeZone::of_argument("-05:30").expect("an offset");
    assert_eq!(shown(0, &zone), "1999-12-31 18:30:00-05:30");
}

proptest! {
    #[test]
    fn days_and_dates_are_one_to_one(days in -2_451_545i64..2_145_031_949) {
        let Civil { year, month, day } = civil_from_days(days);
        prop_assert_eq!(days_from_civil(year, month, day), days);
        // The next day is the next date.
        let next = civil_from_days(days + 1);
        let same_month = (next.year, next.month, next.day) == (year, month, day + 1);
        let next_month = next.day == 1 && (next.month == month % 12 + 1);
        prop_assert!(same_month || next_month);
    }

    #[test]
    fn local_time_leads_back_outside_jumps(
        micros in -60_000_000_000_000_000i64..300_000_000_000_000_000,
        name in proptest::sample::select(vec!["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Caracas"]),
    ) {
        let zone = TimeZone::get(name).expect("a zone");
        let local = zone.to_local(micros).expect("in range");
        let back = zone.to_utc(local).expect("in range");
        // An hour that clocks show twice is read as its later occurrence.
        prop_assert!(back == micros || zone.to_local(back).expect("in range") == local);
    }

    #[test]
    fn subtracting_and_adding_leads_back(
        a in -200_000_000_000_000_000i64..300_000_000_000_000_000,
        b in -200_000_000_000_000_000i64..300_000_000_000_000_000,
    ) {
        let difference = subtract_timestamps(a, b).expect("in range");
        prop_assert_eq!(timestamp_plus_interval(b, &difference).expect("in range"), a);
    }
}
