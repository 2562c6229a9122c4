//! Rules of both hemispheres, files of the database compared with `date`, corrupt files.

use super::*;

fn rule(text: &str) -> Zone {
    Zone(TimeZone::posix(text).expect(text))
}

fn shown(zone: &Zone, now_s: i64) -> (String, i32) {
    let offset = zone.offset_at(now_s);
    assert!(offset.valid_s.contains(&now_s), "{offset:?} at {now_s}");
    (offset.name, offset.seconds)
}

#[test]
fn rules_switch_at_the_second() {
    let berlin = rule("CET-1CEST,M3.5.0,M10.5.0/3");
    // 2024-03-31 01:00 UTC and 2024-10-27 01:00 UTC.
    assert_eq!(shown(&berlin, 1_711_846_799), ("CET".into(), 3600));
    assert_eq!(shown(&berlin, 1_711_846_800), ("CEST".into(), 7200));
    assert_eq!(shown(&berlin, 1_729_990_799), ("CEST".into(), 7200));
    assert_eq!(shown(&berlin, 1_729_990_800), ("CET".into(), 3600));
    assert_eq!(
        berlin.offset_at(1_711_846_800).valid_s,
        1_711_846_800..1_729_990_800
    );
}

#[test]
fn summer_spans_the_new_year_in_the_south() {
    let sydney = rule("AEST-10AEDT,M10.1.0,M4.1.0/3");
    // 2025-01-01 and 2025-07-01.
    assert_eq!(shown(&sydney, 1_735_689_600), ("AEDT".into(), 39_600));
    assert_eq!(shown(&sydney, 1_751_328_000), ("AEST".into(), 36_000));
}

#[test]
fn quoted_names_odd_times_and_day_numbers() {
    assert_eq!(shown(&rule("<-03>3"), 0), ("-03".into(), -10_800));
    assert_eq!(shown(&rule("<+0530>-5:30"), 0), ("+0530".into(), 19_800));
    // Daylight saving time all year (RFC 9636): J365/25 is the next year's first hour.
    assert_eq!(
        shown(&rule("XXX3EDT4,0/0,J365/23"), 1_700_000_000).1,
        -14_400
    );
    // Greenland: a negative time of day.
    let nuuk = rule("<-02>2<-01>,M3.5.0/-1,M10.5.0/0");
    assert_eq!(shown(&nuuk, 1_711_846_799), ("-02".into(), -7200));
    assert_eq!(shown(&nuuk, 1_711_846_800), ("-01".into(), -3600));
    for bad in [
        "",
        "C",
        "CET",
        "CET-1CEST",
        "CET-1CEST,M13.1.0,M1.1.0",
        "CET-1CEST,M3.5.0",
        "CET-99999999999999999999",
    ] {
        assert!(TimeZone::posix(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_damaged_clock_has_an_offset() {
    let berlin = rule("CET-1CEST,M3.5.0,M10.5.0/3");
    for now_s in [i64::MIN, -1, i64::MAX - 1] {
        assert_eq!(shown(&berlin, now_s), ("CET".into(), 3600));
    }
}

#[test]
fn the_database_agrees_with_date() {
    let zones = [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Sydney",
        "Asia/Kolkata",
        "America/Nuuk",
        "UTC",
    ];
    for name in zones {
        let path = Path::new("/usr/share/zoneinfo").join(name);
        let Ok(data) = std::fs::read(&path) else {
            panic!("{}: apt-get install -y tzdata", path.display())
        };
        let zone = Zone::parse(&data).expect("a TZif file");
        for now_s in [
            86_400_i64,
            500_000_000,
            1_000_000_000,
            1_711_846_800,
            1_730_000_000,
            2_000_000_000,
            4_000_000_000,
        ] {
            let date = std::process::Command::new("date")
                .env("TZ", name)
                .args([format!("--date=@{now_s}"), "+%Z %::z".into()])
                .output()
                .expect("date runs");
            let (abbreviation, seconds) = shown(&zone, now_s);
            let (sign, abs) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
            let ours = format!(
                "{abbreviation} {sign}{:02}:{:02}:{:02}",
                abs / 3600,
                abs / 60 % 60,
                abs % 60
            );
            assert_eq!(
                ours,
                String::from_utf8_lossy(&date.stdout).trim(),
                "{name} at {now_s}"
            );
        }
    }
}

#[test]
fn damaged_files_are_nothing() {
    assert_eq!(Zone::parse(b""), None);
    assert_eq!(Zone::parse(b"TZif"), None);
    let mut data = b"TZif2".to_vec();
    data.extend([0xff; 60]);
    assert_eq!(Zone::parse(&data), None);
    assert_eq!(Zone::load(Some("../../etc/passwd")), Zone(TimeZone::UTC));
    assert_eq!(Zone::load(Some("")), Zone(TimeZone::UTC));
}
