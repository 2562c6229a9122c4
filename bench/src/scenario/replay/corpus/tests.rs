//! Files that come back, files of every released version, damaged ones, and any bytes.

use super::{
    super::{recorder, scrub::Scrubber},
    *,
};
use narthex_testkit::{mutate::Mutator, rng::SplitMix64, scaled, workspace_root};

const TEXT: &str = "text/plain; version=0.0.4";

type Rows = Vec<(i64, String, Vec<u8>)>;

fn about() -> About {
    About {
        name: "node".to_owned(),
        interval_ms: 15_000,
    }
}

fn write(rows: &Rows) -> Vec<u8> {
    let mut writer = CorpusWriter::new(Vec::new(), &about()).unwrap();
    for (at_ms, content_type, body) in rows {
        writer
            .push(Round {
                at_ms: *at_ms,
                content_type,
                body,
            })
            .unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: Vec<u8>) -> Result<Rows, Broken> {
    let corpus = Arc::new(Corpus::parse(bytes)?);
    let (mut rounds, mut rows) = (corpus.rounds(), Vec::new());
    while let Some(round) = rounds.next()? {
        rows.push((
            round.at_ms,
            round.content_type.to_owned(),
            round.body.to_vec(),
        ));
    }
    assert_eq!(rows.len(), corpus.len());
    Ok(rows)
}

/// What the committed examples hold.
fn small() -> Rows {
    let body = |round: i64| {
        let mut text = format!(
            "# TYPE requests_total counter\nrequests_total{{code=\"200\"}} {}\n",
            100 + 7 * round
        );
        if round != 2 {
            text.push_str(&format!("load1 {}\n", 1.25 + round as f64));
        }
        text.push_str("nothing NaN\n");
        text.into_bytes()
    };
    (0..5)
        .map(|round| {
            (
                1_795_000_000_000 + round * 15_000 + round % 2,
                TEXT.to_owned(),
                body(round),
            )
        })
        .collect()
}

#[test]
fn rounds_come_back_with_their_times_and_types() {
    let mut rows = small();
    rows[3].1 = "application/openmetrics-text".to_owned();
    rows[4].0 = -5;
    assert_eq!(read(write(&rows)).unwrap(), rows);
    assert_eq!(read(write(&Vec::new())).unwrap(), Vec::new());
    let corpus = Corpus::parse(write(&rows)).unwrap();
    assert_eq!(
        (corpus.about(), corpus.len(), corpus.is_whole()),
        (&about(), 5, true)
    );
}

#[test]
fn many_rounds_make_several_blocks_that_depend_on_each_other() {
    let mut rng = SplitMix64::new(9);
    let mut values = [1_000_u64; 40];
    let rows: Rows = (0..scaled(300).max(130))
        .map(|round| {
            let mut body = Vec::new();
            for (at, value) in values.iter_mut().enumerate() {
                *value += rng.below(at as u64 + 1);
                body.extend_from_slice(format!("m{{n=\"{at}\"}} {value}\n").as_bytes());
            }
            (round as i64 * 15_000, TEXT.to_owned(), body)
        })
        .collect();
    let bytes = write(&rows);
    let all: usize = rows.iter().map(|row| row.2.len()).sum();
    assert!(bytes.len() * 10 < all, "{} of {all} bytes", bytes.len());
    assert!(read(bytes).unwrap() == rows);
}

#[test]
fn a_recording_that_was_killed_keeps_its_whole_blocks() {
    let rows: Rows = (0..70)
        .map(|round| (round, TEXT.to_owned(), format!("a {round}\n").into_bytes()))
        .collect();
    let bytes = write(&rows);
    let whole = Corpus::parse(bytes.clone()).unwrap();
    let first = BlockHead::parse(&bytes, whole.blocks).unwrap().packed.end;
    let corpus = Corpus::parse(bytes[..first].to_vec()).unwrap();
    assert_eq!((corpus.len(), corpus.is_whole()), (64, false));
    assert_eq!(read(bytes[..first].to_vec()).unwrap(), rows[..64]);
    let inside = Corpus::parse(bytes[..first + 9].to_vec()).unwrap_err();
    assert_eq!(inside, broken(first, "the file ends inside a block"));
}

#[test]
fn damage_is_said_with_its_place() {
    let bytes = write(&small());
    let head = parse_head(&bytes).unwrap().1;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        let error = read(damaged).expect_err("every byte is under a checksum");
        let is_near = if at < head {
            error.offset <= head
        } else {
            error.offset <= at
        };
        assert!(is_near, "byte {at}: {error:?}");
        if at >= 16 {
            assert!(
                error.what.contains("checksum") || error.what.contains("ends inside"),
                "{error:?}"
            );
        }
    }
    let what = |bytes: &[u8]| read(bytes.to_vec()).unwrap_err();
    assert_eq!(what(b"# HELP a").offset, 0);
    assert_eq!(
        what(&bytes[..12]),
        broken(8, "the file ends inside its head")
    );
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(what(&longer), broken(bytes.len(), "bytes behind the end"));
}

#[test]
fn what_a_checksum_fits_is_still_not_believed() {
    let bytes = write(&small());
    let start = parse_head(&bytes).unwrap().1;
    let head = BlockHead::parse(&bytes, start).unwrap();
    let forge = |field: usize, value: u32| {
        let mut forged = bytes.clone();
        forged[start + field * 4..start + field * 4 + 4].copy_from_slice(&value.to_le_bytes());
        let sum = crc(&[
            &forged[start..start + BLOCK_HEAD - 4],
            &forged[head.packed.clone()],
        ]);
        forged[start + BLOCK_HEAD - 4..start + BLOCK_HEAD].copy_from_slice(&sum.to_le_bytes());
        read(forged).unwrap_err().what
    };
    assert_eq!(forge(1, 65), "a block's head is impossible");
    assert_eq!(forge(1, 0), "a block's head is impossible");
    assert_eq!(forge(1, 4), "the end counts other rounds than there are");
    assert_eq!(forge(5, u32::MAX), "a block's head is impossible");
    assert_eq!(forge(5, 1), "a block cannot be unpacked");
}

#[test]
fn a_block_has_no_more_than_its_rounds_and_tells_a_type_once() {
    let bytes = write(&small());
    let start = parse_head(&bytes).unwrap().1;
    let head = BlockHead::parse(&bytes, start).unwrap();
    assert!(head.lengths[0] < TEXT.len() * 2, "{:?}", head.lengths);
    // A round less in the block and at the end.
    let mut forged = bytes;
    for (block, body) in [(start, head.packed.clone()), (head.packed.end, 0..0)] {
        forged[block + 4] = 4;
        let sum = crc(&[&forged[block..block + BLOCK_HEAD - 4], &forged[body]]);
        forged[block + BLOCK_HEAD - 4..block + BLOCK_HEAD].copy_from_slice(&sum.to_le_bytes());
    }
    let error = read(forged).unwrap_err();
    assert_eq!(error, broken(start, "a block has more than its rounds"));
}

#[test]
fn committed_examples_are_read() {
    let dir = workspace_root().join("testdata/formats/v1");
    let (good, damaged) = (dir.join("scrapes_small"), dir.join("scrapes_damaged"));
    if std::env::var_os("NARTHEX_UPDATE").is_some() && !good.exists() {
        let bytes = write(&small());
        let middle = bytes.len() / 2;
        let mut bad = bytes.clone();
        bad[middle] ^= 1;
        std::fs::write(&good, bytes).unwrap();
        std::fs::write(&damaged, bad).unwrap();
    }
    let read_file = |path| read(std::fs::read(path).unwrap());
    assert_eq!(read_file(good).unwrap(), small());
    let error = read_file(damaged).unwrap_err();
    assert_eq!(error.what, "a block's checksum is wrong");
}

#[test]
fn the_committed_corpus_is_whole_and_names_no_machine() {
    let files = recorder::files(&workspace_root().join("bench/corpus")).unwrap();
    assert_eq!(files.len(), 3);
    for file in files {
        let corpus = Arc::new(Corpus::parse(std::fs::read(&file).unwrap()).unwrap());
        assert_eq!((corpus.len(), corpus.is_whole()), (320, true), "{file:?}");
        let (mut rounds, mut read) = (corpus.rounds(), 0);
        while let Some(round) = rounds.next().unwrap() {
            read += 1;
            // Each round is a small change of the one before: a tenth of them shows every kind of value.
            if read % 10 == 1 {
                let body = str::from_utf8(round.body).unwrap();
                assert!(
                    Scrubber::default().scrub(body) == body,
                    "{file:?}, round {read}"
                );
            }
        }
        assert_eq!(read, 320);
    }
}

#[test]
fn files_of_any_bytes_end() {
    let (small, empty) = (write(&small()), write(&Vec::new()));
    Mutator::new(21).run(&[&small, &empty], 3_000, try_corpus);
    // Behind the checksum: the streams themselves.
    let corpus = Corpus::parse(small.clone()).unwrap();
    let head = BlockHead::parse(&small, corpus.blocks).unwrap();
    let streams = zstd::bulk::decompress(&small[head.packed], 1 << 20).unwrap();
    Mutator::new(22).run(&[&streams], 3_000, |data| {
        let packed = zstd::bulk::compress(data, 1).unwrap();
        let mut lengths = head.lengths.map(|length| length.min(data.len()));
        lengths[3] = data.len().saturating_sub(lengths[..3].iter().sum());
        let mut file = small[..corpus.blocks].to_vec();
        let fields = [packed.len(), 5].into_iter().chain(lengths);
        let fields: Vec<u8> = fields
            .flat_map(|field| (field as u32).to_le_bytes())
            .collect();
        file.extend_from_slice(&fields);
        file.extend_from_slice(&crc(&[&fields, &packed]).to_le_bytes());
        file.extend_from_slice(&packed);
        try_corpus(&file);
    });
}
