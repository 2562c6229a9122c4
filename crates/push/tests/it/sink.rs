//! Groups as origins of a sink: what is stored by a push, between pushes, and at a group's end.

use narthex_expfmt::Format;
use narthex_model::{
    ColumnId, Frame, Schema,
    storage::{Binding, Budget, Outcome, SeriesSample, Sink, StorageError, SyncToken},
    sync::Whole as _,
};
use narthex_push::{Asked, Grouping, Push, PushError, Store, StoreConfig};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

/// What was stored, as `time series value`, `x` for a staleness marker.
#[derive(Clone, Default)]
struct Recorder {
    rows: Arc<Mutex<Vec<String>>>,
    fails: Arc<AtomicBool>,
}

struct Bound {
    recorder: Recorder,
    schema: Schema,
}

impl Recorder {
    /// Returns what was stored since the last call, without the gauges about groups.
    fn take(&self) -> Vec<String> {
        let mut rows = std::mem::take(&mut *self.rows.lock().whole());
        rows.retain(|row| !row.contains("push_"));
        rows.sort();
        rows
    }
}

impl Sink for Recorder {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        Ok(Box::new(Bound {
            recorder: self.clone(),
            schema: schema.clone(),
        }))
    }

    fn append_samples(&self, _: &[SeriesSample]) -> Result<Outcome, StorageError> {
        Ok(Outcome::default())
    }

    fn sync(&self, _: SyncToken) -> Result<(), StorageError> {
        Ok(())
    }
}

impl Binding for Bound {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.schema = schema.clone();
        Ok(())
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        assert!(frame.schema().same(&self.schema), "another version");
        if self.recorder.fails.load(Ordering::Relaxed) {
            let cause = "a test".to_owned();
            return Err(StorageError::Poisoned { cause });
        }
        let mut rows = self.recorder.rows.lock().whole();
        for at in frame.present().iter() {
            let column = ColumnId(u32::try_from(at).unwrap());
            let (time_ms, labels) = (frame.time_of(column), self.schema.labels(column));
            let value = frame.values()[at];
            rows.push(format!("{time_ms} {labels} {value}"));
        }
        for column in frame.stale() {
            let (time_ms, labels) = (frame.time_ms(), self.schema.labels(*column));
            rows.push(format!("{time_ms} {labels} x"));
        }
        Ok(Outcome::default())
    }
}

struct Rig {
    store: Store,
    recorder: Recorder,
    now_ms: Arc<AtomicI64>,
}

impl Rig {
    fn new(config: StoreConfig) -> Self {
        let now_ms = Arc::new(AtomicI64::new(1000));
        let read = Arc::clone(&now_ms);
        let now_ns = Arc::new(move || read.load(Ordering::Relaxed) * 1_000_000);
        let recorder = Recorder::default();
        let store = Store::in_memory(config, now_ns);
        Self {
            store: store.with_sink(Arc::new(recorder.clone())),
            recorder,
            now_ms,
        }
    }

    fn at(&self, now_ms: i64) -> &Self {
        self.now_ms.store(now_ms, Ordering::Relaxed);
        self
    }

    fn push(&self, job: &str, replace: bool, body: &str) -> Result<(), PushError> {
        let asked = Asked {
            keep_timestamps: Some(true),
            ..Asked::default()
        };
        let push = Push {
            replace,
            format: Format::Text,
            body: body.as_bytes(),
            asked: &asked,
        };
        self.store.push(&group(job), push)
    }
}

fn group(job: &str) -> Grouping {
    Grouping::new(vec![("job".to_owned(), job.to_owned())])
}

#[test]
fn a_push_is_stored_at_once_and_series_that_go_end() {
    let rig = Rig::new(StoreConfig::default());
    let body = "# TYPE m gauge\nm{k=\"1\"} 1\nm{k=\"2\"} 2\n# TYPE h histogram\nh_bucket{le=\"1\"} 3\nh_bucket{le=\"+Inf\"} 4\nh_sum 5\nh_count 4\n\
# TYPE s summary\ns{quantile=\"0.5\"} 6\ns_sum 7\ns_count 8\n";
    rig.push("j", true, body).unwrap();
    assert_eq!(
        rig.recorder.take(),
        [
            r#"1000 h_bucket{job="j", le="+Inf"} 4"#,
            r#"1000 h_bucket{job="j", le="1.0"} 3"#,
            r#"1000 h_count{job="j"} 4"#,
            r#"1000 h_sum{job="j"} 5"#,
            r#"1000 m{job="j", k="1"} 1"#,
            r#"1000 m{job="j", k="2"} 2"#,
            r#"1000 s_count{job="j"} 8"#,
            r#"1000 s_sum{job="j"} 7"#,
            r#"1000 s{job="j", quantile="0.5"} 6"#,
        ]
    );
    // Families that are added leave the others, which are stored again with them.
    rig.at(2000).push("j", true, "m{k=\"1\"} 1\n").unwrap();
    let ended: Vec<String> = rig.recorder.take();
    assert_eq!(ended.iter().filter(|row| row.ends_with(" x")).count(), 8);
    assert!(
        ended.contains(&r#"2000 m{job="j", k="1"} 1"#.to_owned()),
        "{ended:?}"
    );
    rig.at(3000).push("j", false, "n 2\n").unwrap();
    let both = [r#"3000 m{job="j", k="1"} 1"#, r#"3000 n{job="j"} 2"#];
    assert_eq!(rig.recorder.take(), both);
    // Two pushes in one millisecond have two times.
    rig.push("j", false, "n 3\n").unwrap();
    let later = [r#"3001 m{job="j", k="1"} 1"#, r#"3001 n{job="j"} 3"#];
    assert_eq!(rig.recorder.take(), later);
    // A refused push changes nothing.
    rig.push("other", true, "# TYPE m counter\nm{k=\"1\"} 9\n")
        .unwrap_err();
    assert_eq!(rig.recorder.take(), Vec::<String>::new());
}

#[test]
fn groups_are_stored_again_until_they_end() {
    let rig = Rig::new(StoreConfig {
        ttl_ms: [(String::new(), 100_000)].into(),
        ..StoreConfig::default()
    });
    rig.push("j", true, "m 1\nt 2 500\n").unwrap();
    assert_eq!(
        rig.recorder.take(),
        [r#"1000 m{job="j"} 1"#, r#"500 t{job="j"} 2"#]
    );
    rig.at(30_000).store.repeat(60_000);
    assert_eq!(rig.recorder.take(), Vec::<String>::new());
    // What has a time of its own is stored once.
    rig.at(61_000).store.repeat(60_000);
    assert_eq!(rig.recorder.take(), [r#"61000 m{job="j"} 1"#]);
    rig.at(101_000).store.expire();
    assert_eq!(rig.recorder.take(), [r#"101000 m{job="j"} x"#]);
    rig.at(200_000).store.repeat(60_000);
    assert_eq!(rig.recorder.take(), Vec::<String>::new());
    rig.push("j", true, "m 2\n").unwrap();
    rig.at(201_000).store.delete(&group("j")).unwrap();
    let rows = [r#"200000 m{job="j"} 2"#, r#"201000 m{job="j"} x"#];
    assert_eq!(rig.recorder.take(), rows);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let rig = Rig::new(StoreConfig {
        // Enough for three series.
        memory: Some(Budget::new("groups", 1000)),
        ..StoreConfig::default()
    });
    rig.push("a", true, "m 1\nn 2\n").unwrap();
    let full = rig.push("b", true, "m 1\nn 2\n").unwrap_err();
    let (status, text) = (full.status().as_u16(), full.to_string());
    assert!(
        status == 503 && text.starts_with("the gateway is busy: "),
        "{text}"
    );
    // Other values of the same series, and fewer of them, take no room.
    rig.push("a", true, "m 1\nn 3\n").unwrap();
    rig.push("a", true, "m 1\n").unwrap();
    rig.push("b", true, "m 1\nn 2\n").unwrap();
    rig.push("b", true, "m 1\n").unwrap();
    rig.recorder.take();
    rig.recorder.fails.store(true, Ordering::Relaxed);
    let error = rig.push("a", true, "m 5\nn 6\n").unwrap_err();
    assert_eq!(error.status().as_u16(), 503);
    rig.recorder.fails.store(false, Ordering::Relaxed);
    // Nothing of the refused push is left, and what it took is free.
    rig.at(2000).store.repeat(1);
    let kept = rig.recorder.take();
    assert!(
        kept.contains(&r#"2000 m{job="a"} 1"#.to_owned()),
        "{kept:?}"
    );
    rig.push("c", true, "m 1\n").unwrap();
}

/// A group whose series change for long begins another schema, which must lose no marker.
#[test]
fn series_that_come_and_go_for_long_end_as_they_should() {
    let rig = Rig::new(StoreConfig::default());
    for round in 0..40 {
        let body: String = (0..100)
            .map(|k| format!("m{{k=\"{round}-{k}\"}} {round}\n"))
            .collect();
        rig.at(1000 * (round + 1)).push("j", true, &body).unwrap();
        let rows = rig.recorder.take();
        let (ended, present): (Vec<&String>, Vec<&String>) =
            rows.iter().partition(|row| row.ends_with(" x"));
        assert_eq!(present.len(), 100, "{round}");
        assert_eq!(ended.len(), if round == 0 { 0 } else { 100 }, "{round}");
        let before = format!("k=\"{}-", round - 1);
        assert!(ended.iter().all(|row| row.contains(&before)), "{round}");
    }
}
