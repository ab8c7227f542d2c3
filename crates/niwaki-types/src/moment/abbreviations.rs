//! The time zone abbreviations of PostgreSQL's default (`timezone_abbreviations = 'Default'`):
//! facts about zones.

/// The meaning of an abbreviation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Abbreviated {
    /// Seconds east of Greenwich, at any time.
    Always(i32),
    /// The last meaning in this zone, for an abbreviation whose meaning has changed.
    In(&'static str),
}

use Abbreviated::{Always, In};

/// Returns the meaning of an abbreviation, in any mix of upper and lower case.
pub(crate) fn find(word: &str) -> Option<Abbreviated> {
    let word = word.to_ascii_lowercase();
    let at = ALL.binary_search_by_key(&word.as_str(), |(known, _)| known).ok()?;
    Some(ALL[at].1)
}

/// In alphabetic order.
#[rustfmt::skip]
const ALL: &[(&str, Abbreviated)] = &[
    ("acdt", Always(37800)), ("acsst", Always(37800)), ("acst", Always(34200)), ("act", Always(-18000)),
    ("acwst", Always(31500)), ("adt", Always(-10800)), ("aedt", Always(39600)), ("aesst", Always(39600)),
    ("aest", Always(36000)), ("aft", Always(16200)), ("akdt", Always(-28800)), ("akst", Always(-32400)),
    ("almst", Always(25200)), ("almt", Always(21600)), ("amst", In("Asia/Yerevan")), ("amt", Always(-14400)),
    ("anast", In("Asia/Anadyr")), ("anat", In("Asia/Anadyr")), ("arst", In("America/Argentina/Buenos_Aires")),
    ("art", In("America/Argentina/Buenos_Aires")), ("ast", Always(-14400)), ("awsst", Always(32400)),
    ("awst", Always(28800)), ("azost", Always(0)), ("azot", Always(-3600)), ("azst", In("Asia/Baku")),
    ("azt", In("Asia/Baku")), ("bdst", Always(7200)), ("bdt", Always(21600)), ("bnt", Always(28800)),
    ("bort", Always(28800)), ("bot", Always(-14400)), ("bra", Always(-10800)), ("brst", Always(-7200)),
    ("brt", Always(-10800)), ("bst", Always(3600)), ("btt", Always(21600)), ("cadt", Always(37800)),
    ("cast", Always(34200)), ("cct", Always(28800)), ("cdt", Always(-18000)), ("cest", Always(7200)),
    ("cet", Always(3600)), ("cetdst", Always(7200)), ("chadt", Always(49500)), ("chast", Always(45900)),
    ("chut", Always(36000)), ("ckt", In("Pacific/Rarotonga")), ("clst", Always(-10800)),
    ("clt", In("America/Santiago")), ("cot", Always(-18000)), ("cst", Always(-21600)), ("cxt", Always(25200)),
    ("davt", In("Antarctica/Davis")), ("ddut", Always(36000)), ("easst", In("Pacific/Easter")),
    ("east", In("Pacific/Easter")), ("eat", Always(10800)), ("edt", Always(-14400)), ("eest", Always(10800)),
    ("eet", Always(7200)), ("eetdst", Always(10800)), ("egst", Always(0)), ("egt", Always(-3600)),
    ("est", Always(-18000)), ("fet", Always(10800)), ("fjst", Always(46800)), ("fjt", Always(43200)),
    ("fkst", In("Atlantic/Stanley")), ("fkt", In("Atlantic/Stanley")), ("fnst", Always(-3600)), ("fnt", Always(-7200)),
    ("galt", Always(-21600)), ("gamt", Always(-32400)), ("gest", In("Asia/Tbilisi")), ("get", In("Asia/Tbilisi")),
    ("gft", Always(-10800)), ("gilt", Always(43200)), ("gmt", Always(0)), ("gyt", In("America/Guyana")),
    ("hkt", Always(28800)), ("hst", Always(-36000)), ("ict", Always(25200)), ("idt", Always(10800)),
    ("iot", In("Indian/Chagos")), ("irkst", In("Asia/Irkutsk")), ("irkt", In("Asia/Irkutsk")), ("irt", Always(12600)),
    ("ist", Always(7200)), ("jayt", Always(32400)), ("jst", Always(32400)), ("kdt", Always(36000)),
    ("kgst", Always(21600)), ("kgt", In("Asia/Bishkek")), ("kost", In("Pacific/Kosrae")),
    ("krast", In("Asia/Krasnoyarsk")), ("krat", In("Asia/Krasnoyarsk")), ("kst", Always(32400)),
    ("lhdt", In("Australia/Lord_Howe")), ("lhst", Always(37800)), ("ligt", Always(36000)),
    ("lint", In("Pacific/Kiritimati")), ("lkt", In("Asia/Colombo")), ("magst", In("Asia/Magadan")),
    ("magt", In("Asia/Magadan")), ("mart", Always(-34200)), ("mawt", In("Antarctica/Mawson")), ("mdt", Always(-21600)),
    ("mest", Always(7200)), ("mesz", Always(7200)), ("met", Always(3600)), ("metdst", Always(7200)),
    ("mez", Always(3600)), ("mht", Always(43200)), ("mmt", Always(23400)), ("mpt", Always(36000)),
    ("msd", Always(14400)), ("msk", In("Europe/Moscow")), ("mst", Always(-25200)), ("must", Always(18000)),
    ("mut", Always(14400)), ("mvt", Always(18000)), ("myt", Always(28800)), ("ndt", Always(-9000)),
    ("nft", Always(-12600)), ("novst", In("Asia/Novosibirsk")), ("novt", In("Asia/Novosibirsk")),
    ("npt", Always(20700)), ("nst", Always(-12600)), ("nut", In("Pacific/Niue")), ("nzdt", Always(46800)),
    ("nzst", Always(43200)), ("nzt", Always(43200)), ("omsst", In("Asia/Omsk")), ("omst", In("Asia/Omsk")),
    ("pdt", Always(-25200)), ("pet", Always(-18000)), ("petst", In("Asia/Kamchatka")), ("pett", In("Asia/Kamchatka")),
    ("pgt", Always(36000)), ("pht", Always(28800)), ("pkst", Always(21600)), ("pkt", Always(18000)),
    ("pmdt", Always(-7200)), ("pmst", Always(-10800)), ("pont", Always(39600)), ("pst", Always(-28800)),
    ("pwt", Always(32400)), ("pyst", Always(-10800)), ("pyt", In("America/Asuncion")), ("ret", Always(14400)),
    ("sadt", Always(37800)), ("sast", Always(7200)), ("sct", Always(14400)), ("sgt", In("Asia/Singapore")),
    ("taht", Always(-36000)), ("tft", Always(18000)), ("tjt", Always(18000)), ("tkt", In("Pacific/Fakaofo")),
    ("tmt", In("Asia/Ashgabat")), ("tot", Always(46800)), ("trut", Always(36000)), ("tvt", Always(43200)),
    ("uct", Always(0)), ("ulast", Always(32400)), ("ulat", In("Asia/Ulaanbaatar")), ("ut", Always(0)),
    ("utc", Always(0)), ("uyst", Always(-7200)), ("uyt", Always(-10800)), ("uzst", Always(21600)),
    ("uzt", Always(18000)), ("vet", In("America/Caracas")), ("vlast", In("Asia/Vladivostok")),
    ("vlat", In("Asia/Vladivostok")), ("volt", In("Europe/Volgograd")), ("vut", Always(39600)), ("wadt", Always(28800)),
    ("wakt", Always(43200)), ("wast", Always(25200)), ("wat", Always(3600)), ("wdt", Always(32400)), ("wet", Always(0)),
    ("wetdst", Always(3600)), ("wft", Always(43200)), ("wgst", Always(-7200)), ("wgt", Always(-10800)),
    ("xjt", Always(21600)), ("yakst", In("Asia/Yakutsk")), ("yakt", In("Asia/Yakutsk")), ("yapt", Always(36000)),
    ("yekst", Always(21600)), ("yekt", In("Asia/Yekaterinburg")), ("z", Always(0)), ("zulu", Always(0)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::zone::TimeZone;

    #[test]
    fn each_is_found_and_its_zone_is_there() {
        assert!(ALL.is_sorted_by(|(a, _), (b, _)| a < b));
        for (word, meaning) in ALL {
            assert!(find(&word.to_uppercase()).is_some());
            if let In(zone) = meaning {
                assert!(TimeZone::get(zone).is_ok(), "{word}: {zone}");
            }
        }
    }
}
