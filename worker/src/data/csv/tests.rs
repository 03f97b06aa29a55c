use windlass_common::config::NumericColumn;

use super::super::fixture::{csv_config, describe, parse};
use super::*;

fn header() -> Header {
    Header {
        path: "a.csv".into(),
        columns: ["late", "carrier", "origin", "dest", "distance", "w"]
            .map(String::from)
            .into(),
    }
}

fn numeric(name: &str, transform: Transform) -> Column {
    Column::Numeric(NumericColumn {
        name: name.into(),
        transform,
        ..NumericColumn::default()
    })
}

/// The columns of `header`, with the cross of origin and destination.
fn flights() -> DataConfig {
    DataConfig {
        weight: Some("w".into()),
        categorical: ["carrier", "origin", "dest"].map(String::from).into(),
        numeric: vec![Column::Plain("distance".into())],
        crosses: vec![vec!["origin".into(), "dest".into()]],
        ..csv_config()
    }
}

fn parser(config: &DataConfig) -> CsvParser {
    CsvParser::new(config, LabelRule::Binary, Some(&header())).unwrap()
}

/// The keys are those of the tests of `common::key`, which come from the reference library.
#[test]
fn a_row_has_the_keys_that_every_language_computes() {
    let batch = parse(&mut parser(&flights()), b"1,UA,EWR,IAH,1400,2.5").unwrap();
    assert_eq!(batch.labels, [1.0]);
    assert_eq!(batch.weights, [2.5]);
    assert_eq!(batch.fields, [0, 1, 2, 3, 4]);
    assert_eq!(batch.values, [1.0, 1.0, 1.0, 1400.0, 1.0]);
    assert_eq!(batch.keys[0], Key(0x14e6_e351_3253_5a00));
    assert_eq!(batch.keys[1], FieldSeed::new("origin").value(b"EWR"));
    assert_eq!(batch.keys[3], Key(0xe77d_2ec2_2ec8_c350));
    assert_eq!(batch.keys[4], Key(0x1e61_8932_0aa4_48bd));
}

#[test]
fn missing_values_are_features_of_their_own() {
    let mut config = flights();
    config.missing = vec![String::new(), "NA".into()];
    let batch = parse(&mut parser(&config), b"0,,EWR,NA,NA,1").unwrap();
    let missing = |column| FieldSeed::new(column).missing();
    assert_eq!(batch.keys[0], Key(0xe34c_1b96_4585_48df));
    assert_eq!(batch.keys[2], missing("dest"));
    assert_eq!(batch.keys[3], missing("distance"));
    assert_eq!(batch.values, [1.0; 5]);
    let origin = FieldSeed::new("origin").value(b"EWR");
    let cross = FieldSeed::cross(&["origin".into(), "dest".into()]);
    assert_eq!(batch.keys[4], cross.combination(&[origin, missing("dest")]));
}

#[test]
fn crossed_numbers_take_part_by_bucket_or_by_text() {
    let mut config = flights();
    config.crosses = vec![vec!["origin".into(), "distance".into()]];
    let row = b"0,UA,EWR,IAH,1400,1";
    let cross = FieldSeed::cross(&config.crosses[0]);
    let (origin, distance) = (FieldSeed::new("origin"), FieldSeed::new("distance"));
    let expect = |part: &[u8]| cross.combination(&[origin.value(b"EWR"), distance.value(part)]);
    assert_eq!(
        parse(&mut parser(&config), row).unwrap().keys[4],
        expect(b"1400")
    );
    config.numeric = vec![numeric("distance", Transform::Bucket { width: 500.0 })];
    let batch = parse(&mut parser(&config), row).unwrap();
    assert_eq!(batch.keys[3], distance.value(b"2"));
    assert_eq!(batch.keys[4], expect(b"2"));
}

#[test]
fn features_are_described_with_the_keys_that_are_parsed() {
    let mut config = flights();
    config
        .crosses
        .push(vec!["carrier".into(), "distance".into()]);
    let row = b"x,UA,EWR,,1400,";
    let names = describe(&mut parser(&config), row).unwrap();
    let expected = [
        "carrier=UA",
        "origin=EWR",
        "dest=(missing)",
        "distance",
        "origin=EWR,dest=(missing)",
        "carrier=UA,distance=1400",
    ];
    assert_eq!(
        names.iter().map(|(_, name)| name).collect::<Vec<_>>(),
        expected
    );
    let batch = parse(&mut parser(&config), b"1,UA,EWR,,1400,1").unwrap();
    assert_eq!(
        names.iter().map(|(key, _)| *key).collect::<Vec<_>>(),
        batch.keys
    );
}

#[test]
fn quotes_and_blanks_are_not_part_of_values() {
    let mut config = flights();
    config.trim = true;
    config.positive = Some("yes".into());
    let plain = parse(&mut parser(&config), b"yes,UA,EWR,IAH,1400,1").unwrap();
    let dressed = parse(&mut parser(&config), b" yes,\"UA\", EWR ,IAH, 1400,1").unwrap();
    assert_eq!(plain, dressed);
    assert_eq!(plain.labels, [1.0]);
    assert_eq!(
        parser(&config).parse(b"", &mut Batch::default()),
        Ok(Parsed::Nothing)
    );
}

#[test]
fn bad_fields_are_named_with_their_place() {
    for (line, column, what) in [
        (
            "1,UA,EWR,IAH,1400",
            18,
            "the row has 5 fields, the file has 6 columns",
        ),
        (
            "1,UA,EWR,IAH,1400,1,9",
            21,
            "the row has 7 fields, the file has 6 columns",
        ),
        ("1,UA,EWR,IAH,far,1", 14, "distance `far` is not a number"),
        (
            "1,\"U,A\",EWR,IAH,far,1",
            17,
            "distance `far` is not a number",
        ),
        (",UA,EWR,IAH,1400,1", 1, "the label is missing"),
        (
            "2,UA,EWR,IAH,1400,1",
            1,
            "label `2` is out of range; the loss takes 0 and 1, or -1 and +1",
        ),
        (
            "1,UA,EWR,IAH,1400,-1",
            19,
            "weight `-1` is not a number of 0 or more",
        ),
        (
            "1,UA,\"EWR,IAH,1400,1",
            6,
            "the quote is not closed on this line; a field may not contain a line break",
        ),
    ] {
        let bad = parse(&mut parser(&flights()), line.as_bytes()).unwrap_err();
        assert_eq!((bad.column, bad.what.as_str()), (column, what), "{line}");
    }
}

fn check_refused(change: impl FnOnce(&mut DataConfig), message: &str) {
    let mut config = flights();
    change(&mut config);
    let error = CsvParser::new(&config, LabelRule::Binary, Some(&header())).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn settings_that_cannot_be_followed_are_refused() {
    check_refused(|c| c.label = None, "data.label: must name a column");
    check_refused(
        |c| c.categorical.push("destt".into()),
        "a.csv: there is no column `destt` (data.categorical); its columns are dest, late, \
         distance, w, origin, carrier",
    );
    check_refused(
        |c| c.crosses = vec![vec!["origin".into(), "late".into()]],
        "data.crosses: `late` is crossed but not declared; add it to data.categorical or \
         data.numeric",
    );
    check_refused(
        |c| c.crosses = vec![vec!["origin".into()]],
        "data.crosses: a cross has 2 to 8 columns, [origin] has not",
    );
    check_refused(
        |c| c.numeric = vec![numeric("distance", Transform::Standardize)],
        "data.numeric: `distance` needs a finite mean and a std above 0",
    );
}
