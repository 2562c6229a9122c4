//! Round trips, the committed files, corrupt files, and arbitrary bytes.

use super::{
    super::{recorder, scrub::Scrubber},
    *,
};
use narthex_testkit::{mutate::Mutator, rng::SplitMix64, scaled, workspace_root};

const TEXT: &str = "text/plain; version=0.0.4";

type Rows = Vec<(i64, String, String)>;

fn write(rows: &Rows) -> Vec<u8> {
    let mut writer = CorpusWriter::new(Vec::new(), &About::new("node", 15_000)).unwrap();
    for (at_ms, content_type, body) in rows {
        let (at_ms, content_type) = (*at_ms, content_type.as_str());
        writer
            .push(Round {
                at_ms,
                content_type,
                body,
            })
            .unwrap();
    }
    writer.finish().unwrap()
}

/// Returns a recording of these bodies, one per interval.
pub(crate) fn recording(interval_ms: u64, bodies: &[String]) -> Vec<u8> {
    let mut writer = CorpusWriter::new(Vec::new(), &About::new("node", interval_ms)).unwrap();
    for (at, body) in bodies.iter().enumerate() {
        let at_ms = at as i64 * interval_ms as i64;
        writer
            .push(Round {
                at_ms,
                content_type: TEXT,
                body,
            })
            .unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: Vec<u8>) -> Result<Rows, String> {
    let corpus = Corpus::parse(bytes)?;
    let (mut rounds, mut rows) = (corpus.rounds()?, Vec::new());
    while let Some(round) = rounds.next()? {
        rows.push((
            round.at_ms,
            round.content_type.to_owned(),
            round.body.to_owned(),
        ));
    }
    assert_eq!(rows.len(), corpus.len());
    Ok(rows)
}

/// Returns the contents of the committed examples.
fn small() -> Rows {
    let body = |round: i64| {
        let requests = 100 + 7 * round;
        let mut text =
            format!("# TYPE requests_total counter\nrequests_total{{code=\"200\"}} {requests}\n");
        if round != 2 {
            text.push_str(&format!("load1 {}\n", 1.25 + round as f64));
        }
        text + "nothing NaN\n"
    };
    let at_ms = |round| 1_795_000_000_000 + round * 15_000 + round % 2;
    (0..5)
        .map(|round| (at_ms(round), TEXT.to_owned(), body(round)))
        .collect()
}

#[test]
fn rounds_come_back_with_their_times_and_types() {
    let mut rows = small();
    rows[3].1 = "application/openmetrics-text".to_owned();
    rows[4].0 = -5;
    for body in [
        "",
        "no break at the end",
        "\n\n",
        "a 1\na 1\na 2\n",
        "a 2\nb \n a\n",
        "b  2\na 1e+09\n",
    ] {
        rows.push((7, TEXT.to_owned(), body.to_owned()));
    }
    assert_eq!(read(write(&rows)).unwrap(), rows);
    assert_eq!(read(write(&Vec::new())).unwrap(), Vec::new());
    let corpus = Corpus::parse(write(&rows)).unwrap();
    assert_eq!(
        (corpus.about(), corpus.len(), corpus.is_whole()),
        (&About::new("node", 15_000), 11, true)
    );
}

#[test]
fn any_bodies_come_back_from_several_blocks() {
    let mut rng = SplitMix64::new(5);
    let words = [
        "a",
        "b{x=\"1\"}",
        "# HELP",
        "0",
        "-1",
        "12.50",
        "1e+09",
        "NaN",
        "",
        "\n",
        "c d",
        "é\"\\",
    ];
    let (mut lines, mut rows): (Vec<String>, Rows) = (Vec::new(), Vec::new());
    for round in 0..scaled(600).max(300) {
        for _ in 0..rng.index(6) {
            let line = format!("{} {}\n", rng.pick(&words), rng.pick(&words));
            let at = rng.index(lines.len() + 1);
            match rng.index(3) {
                0 if lines.len() < 60 => lines.insert(at, line),
                1 if at < lines.len() => drop(lines.remove(at)),
                _ if at < lines.len() => lines[at] = line,
                _ => {}
            }
        }
        rows.push((round as i64, TEXT.to_owned(), lines.concat()));
    }
    assert!(read(write(&rows)).unwrap() == rows);
}

#[test]
fn a_recording_that_was_killed_keeps_its_whole_blocks() {
    let mut kept = Vec::new();
    let mut writer = CorpusWriter::new(&mut kept, &About::new("node", 1)).unwrap();
    for at_ms in 0..ROUNDS as i64 + 10 {
        let body = format!("a {at_ms}\n");
        writer
            .push(Round {
                at_ms,
                content_type: TEXT,
                body: &body,
            })
            .unwrap();
    }
    // Dropped without its end, like the file of a killed process.
    drop(writer);
    let corpus = Corpus::parse(kept).unwrap();
    assert_eq!((corpus.len(), corpus.is_whole()), (ROUNDS, false));
}

#[test]
fn damage_is_found_before_a_round_is_used() {
    let bytes = write(&small());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        // A bit that zstd does not use changes nothing; a recording that looks killed is reported as such.
        let is_whole = Corpus::parse(damaged.clone()).is_ok_and(|corpus| corpus.is_whole());
        assert!(!is_whole || read(damaged).unwrap() == small(), "byte {at}");
    }
    let refused = |text: &str| {
        let packed = zstd::bulk::compress(text.as_bytes(), 1).unwrap();
        read(packed).unwrap_err()
    };
    let about = "{\"about\":{\"format\":2,\"name\":\"a\",\"interval_ms\":1}}\n";
    let block =
        "{\"block\":{\"rounds\":[[1,\"t\",[0,5]]],\"keys\":[\"a \"],\"values\":[\"1\\n\"]}}\n";
    for (text, what) in [
        ("{\"end\":0}\n".to_owned(), "no recorded scrapes"),
        (about.replace(":2", ":1"), "format 1 is not known"),
        (format!("{about}x\n"), "line 2: expected value"),
        (format!("{about}{about}"), "line 2: a second description"),
        (
            format!("{about}{{\"end\":1}}\n"),
            "line 2: the end counts other rounds",
        ),
        (
            format!("{about}{{\"end\":0}}\n{{\"end\":0}}\n"),
            "line 3: a line behind the end",
        ),
        (
            format!("{about}{block}"),
            "line 2: a round has lines that its block does not have",
        ),
    ] {
        let refused = refused(&text);
        assert!(refused.starts_with(what), "{text}: {refused}");
    }
}

#[test]
fn committed_examples_are_read() {
    let dir = workspace_root().join("testdata/formats/v2");
    let (good, damaged) = (dir.join("scrapes_small"), dir.join("scrapes_damaged"));
    if std::env::var_os("NARTHEX_UPDATE").is_some() && !good.exists() {
        let bytes = write(&small());
        let mut bad = bytes.clone();
        bad[bytes.len() / 2] ^= 1;
        std::fs::write(&good, bytes).unwrap();
        std::fs::write(&damaged, bad).unwrap();
    }
    let read_file = |path| read(std::fs::read(path).unwrap());
    assert_eq!(read_file(good).unwrap(), small());
    assert!(read_file(damaged).is_err());
}

#[test]
fn the_committed_corpus_is_whole_and_names_no_machine() {
    let files = recorder::files(&workspace_root().join("bench/corpus")).unwrap();
    assert_eq!(files.len(), 3);
    for file in files {
        let corpus = Corpus::parse(std::fs::read(&file).unwrap()).unwrap();
        assert_eq!((corpus.len(), corpus.is_whole()), (320, true), "{file:?}");
        let (mut rounds, mut read) = (corpus.rounds().unwrap(), 0);
        while let Some(round) = rounds.next().unwrap() {
            read += 1;
            // Each round differs little from the previous one: a tenth of them covers every kind of value.
            if read % 10 == 1 {
                let is_clean = Scrubber::default().scrub(round.body) == round.body;
                assert!(is_clean, "{file:?}, round {read}");
            }
        }
        assert_eq!(read, 320);
    }
}

#[test]
fn files_of_any_bytes_end() {
    let (small, empty) = (write(&small()), write(&Vec::new()));
    Mutator::new(21).run(&[&small, &empty], 2_000, |data| drop(read(data.to_vec())));
    // Below the compression: the lines themselves.
    let lines = zstd::bulk::decompress(&small, 1 << 20).unwrap();
    Mutator::new(22).run(&[&lines], 2_000, |data| {
        drop(read(zstd::bulk::compress(data, 1).unwrap()));
    });
}
