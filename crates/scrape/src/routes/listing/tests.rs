//! Memory of a list while it is written, and what it leaves out.

use super::*;
use crate::{Target, routes::leased, target::Dropped};
use narthex_model::storage::Budget;
use narthex_net::ListingResponse;
use narthex_testkit::alloc;

const MANY: usize = 20_000;

/// A pool with active targets and as many dropped ones.
fn pool() -> PoolStatus {
    let active = (0..MANY).map(|at| {
        let target = Target::local("test", &format!("host-{at:06}:9100"));
        Arc::new(ActiveTarget::new("test", target))
    });
    let dropped = (0..MANY).map(|at| Dropped {
        discovered: LabelSet::new([
            ("__address__", format!("dropped-{at:06}:9100").as_str()),
            ("__meta_filepath", "/etc/targets/dropped.json"),
        ]),
        rule: 0,
    });
    PoolStatus {
        name: "test".to_owned(),
        active: active.collect(),
        unscraped: Arc::new(Unscraped {
            dropped: dropped.collect(),
            drops_by_rule: vec![MANY],
            ..Unscraped::default()
        }),
        rules: Vec::new(),
    }
}

/// Begins a list as a request does.
fn begun(list: impl Listing, held_bytes: usize, budget: &Budget) -> ListingResponse {
    leased(list, held_bytes, budget).ok().unwrap()
}

/// Writes a list as a connection does, each piece after the previous one is sent; returns it and the longest piece.
fn written(response: ListingResponse) -> (String, usize) {
    let (mut whole, mut longest) = (Vec::new(), 0);
    for piece in response.into_pieces() {
        longest = longest.max(piece.len());
        whole.extend_from_slice(&piece);
    }
    (String::from_utf8(whole).unwrap(), longest)
}

/// Dropped targets were formatted into one text, and the texts of all responses being read stayed in memory.
#[test]
fn a_list_takes_a_piece_and_not_its_text() {
    let pools = vec![pool()];
    let budget = Budget::new("lists", 16 << 20);
    let (response, used) = alloc::measured(|| {
        let list = Targets::new(pools.clone(), None, None);
        let held_bytes = list.held_bytes();
        begun(list, held_bytes, &budget)
    });
    assert!(
        used.peak_bytes < 1 << 20,
        "{} bytes to begin with",
        used.peak_bytes
    );
    let held_bytes = budget.used_bytes();
    assert!(
        held_bytes as i64 >= used.live_bytes && held_bytes < 8 << 20,
        "{held_bytes} bytes leased, {} held",
        used.live_bytes
    );
    let (text, longest) = written(response);
    assert!(
        longest < ListingResponse::MAX_PIECE_BYTES,
        "a piece of {longest}"
    );
    assert!(text.len() > 100 * longest, "{} bytes of text", text.len());
    let answer: Value = serde_json::from_str(&text).unwrap();
    let data = &answer["data"];
    for list in ["activeTargets", "droppedTargets"] {
        assert_eq!(data[list].as_array().map(Vec::len), Some(MANY), "{list}");
    }
    assert_eq!(data["droppedTargetCounts"]["test"], MANY);
    assert_eq!(data["failedTargets"], json!([]));
    assert_eq!(budget.used_bytes(), 0);
    assert!(leased(Targets::new(pools, None, None), 64 << 20, &budget).is_err());
}

/// A client that reads a kibibyte a second would keep the series of replaced targets for hours.
#[test]
fn a_list_keeps_no_target_that_is_gone() {
    let mut pools = vec![pool()];
    let target = Arc::downgrade(&pools[0].active[MANY - 1]);
    let list = Targets::new(pools.clone(), Some("active"), None);
    let metadata = Metadata::new(&pools, None, None, usize::MAX);
    let response = begun(list, 0, &Budget::unlimited());
    pools[0].active.truncate(MANY / 2);
    assert!(target.upgrade().is_none(), "a list keeps its targets");
    let (text, _) = written(response);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let listed = answer["data"]["activeTargets"].as_array();
    assert_eq!(listed.map(Vec::len), Some(MANY / 2));
    // Targets that were never scraped have no metadata.
    let response = begun(metadata, 0, &Budget::unlimited());
    assert!(written(response).0.ends_with("\"data\":[]}"));
}
